// Engines: what layers a graph becomes, and that they compute what the interpreter does.
#include "runtime/engine/engine.h"

#include "tests/support/engine_case.h"

#include <fmt/core.h>

#include <cmath>

namespace tscompile::test {
namespace {

TEST(Engine, ConvolutionTakesNormResidualAndActivation) {
  EngineCase c(kBottleneck);
  Tensor x = randn({2, 32, 14, 14}, 1);
  EXPECT_EQ(c.layers({x}), "reorder, conv winograd+add+relu, reorder");
  c.expectClose({x}, 1e-4);
}

// A kernel after a convolution reads row-major memory, alone and from a list.
TEST(Engine, KernelsReadBlockedActivationsInOrder) {
  std::string text = kBottleneck;
  text.replace(text.find("  return (%r)"), 13, R"(  %q : Tensor = aten::nextafter(%r, %r)
  %list : Tensor[] = prim::ListConstruct(%r, %x)
  %h : Tensor = aten::hstack(%list)
  return (%q, %h))");
  EngineCase c(text);
  EXPECT_NE(c.layers({randn({1, 32, 6, 6}, 1)}).find("kernel aten::nextafter"), std::string::npos);
  c.expectClose({randn({1, 32, 6, 6}, 1)}, 1e-4);
}

// What follows a convolution may see its result in other sizes.
TEST(Engine, ConvolutionsOfOtherRanks) {
  EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %last : int = prim::Constant[value=-1]()
  %ones : int[] = prim::ListConstruct(%one)
  %zeros : int[] = prim::ListConstruct(%zero)
  %w : Float(32, 32, 3) = prim::Constant[value={0}]()
  %a : Tensor = aten::_convolution(%x, %w, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %b : Tensor = aten::relu(%a)
  %c : Tensor = aten::_convolution(%b, %w, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %d : Tensor = aten::add(%c, %x, %one)
  %e : Tensor = aten::flatten(%d, %one, %last)
  %g : Tensor = aten::sigmoid(%e)
  return (%g, %b)
)");
  c.expectClose({randn({2, 32, 20}, 1)}, 1e-4);
  EngineCase flattened(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %last : int = prim::Constant[value=-1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %w : Float(32, 32, 3, 3) = prim::Constant[value={0}]()
  %a : Tensor = aten::_convolution(%x, %w, %none, %ones, %ones, %ones, %f, %ones, %one, %f, %f, %f, %f)
  %b : Tensor = aten::flatten(%a, %one, %last)
  %c : Tensor = aten::relu(%b)
  return (%c)
)");
  flattened.expectClose({randn({2, 32, 6, 5}, 1)}, 1e-4);
}

// Of [2, 8, 4, 4] seen as [4, 8, 8], dimension 1 is not that of the channels.
TEST(Engine, ChannelsThatAreNoneTakeNoBias) {
  EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %sizes : int[] = prim::Constant[value=[4, 8, 8]]()
  %w : Float(8, 8, 3, 3) = prim::Constant[value={0}]()
  %p : Float(8, 1) = prim::Constant[value={0}]()
  %a : Tensor = aten::_convolution(%x, %w, %none, %ones, %ones, %ones, %f, %ones, %one, %f, %f, %f, %f)
  %b : Tensor = aten::view(%a, %sizes)
  %c : Tensor = aten::add(%b, %p, %one)
  return (%c)
)");
  c.expectClose({randn({2, 8, 4, 4}, 1)}, 1e-4);
}

TEST(Engine, SizesMayChange) {
  EngineCase c(kBottleneck);
  for (int64_t size : {1, 2, 5, 14, 33, 5, 1}) c.expectClose({randn({1, 32, size, size + 1}, 7)}, 1e-4);
}

TEST(Engine, NetworksOfFewerChannelsThanABlock) {
  EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w1 : Float(6, 3, 3, 3) = prim::Constant[value={0}]()
  %b1 : Float(6) = prim::Constant[value={0}]()
  %w2 : Float(20, 6, 3, 3) = prim::Constant[value={0}]()
  %a : Tensor = aten::_convolution(%x, %w1, %b1, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %b : Tensor = aten::sigmoid(%a)
  %c : Tensor = aten::mul(%b, %a)
  %d : Tensor = aten::_convolution(%c, %w2, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %list : Tensor[] = prim::ListConstruct(%c, %d)
  %e : Tensor = aten::cat(%list, %one)
  return (%d, %e)
)");
  c.expectClose({randn({2, 3, 9, 7}, 3)}, 1e-4);
}

TEST(Engine, ProductsTakeBiasAndActivation) {
  EngineCase c(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %approximate : str = prim::Constant[value="none"]()
  %w1 : Float(64, 40) = prim::Constant[value={0}]()
  %b1 : Float(64) = prim::Constant[value={0}]()
  %w2 : Float(64, 40) = prim::Constant[value={0}]()
  %a : Tensor = aten::linear(%x, %w1, %b1)
  %b : Tensor = aten::gelu(%a, %approximate)
  %c : Tensor = aten::matmul(%b, %w2)
  %d : Tensor = aten::add(%c, %x, %one)
  return (%d)
)");
  Tensor x = randn({3, 5, 40}, 2);
  EXPECT_EQ(c.layers({x}), "matmul+gelu, matmul+add");
  c.expectClose({x});
}

TEST(Engine, OneMatrixAsItIsAndTransposed) {
  EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %w : Float(8, 8) = prim::Constant[value={0}]()
  %a : Tensor = aten::linear(%x, %w, %none)
  %b : Tensor = aten::matmul(%x, %w)
  return (%a, %b)
)");
  c.expectClose({randn({3, 8}, 2)});
}

TEST(Engine, OneKernelAfterTwoNorms) {
  EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w : Float(16, 16, 1, 1) = prim::Constant[value={0}]()
  %m1 : Float(16) = prim::Constant[value={0}]()
  %v1 : Float(16) = prim::Constant[value={0}]()
  %m2 : Float(16) = prim::Constant[value={0}]()
  %v2 : Float(16) = prim::Constant[value={0}]()
  %y : Tensor = aten::_convolution(%x, %w, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %a : Tensor = aten::batch_norm(%y, %none, %none, %m1, %v1, %f, %eps, %eps, %f)
  %z : Tensor = aten::_convolution(%a, %w, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %b : Tensor = aten::batch_norm(%z, %none, %none, %m2, %v2, %f, %eps, %eps, %f)
  return (%b)
)");
  for (int64_t size : {3, 4, 5, 3}) c.expectClose({randn({1, 16, size, size}, 5)}, 1e-4);
}

// Results of convolutions lie in blocks of channels; stacked tensors do not, along whatever dimension.
TEST(Engine, StackedConvolutions) {
  for (int64_t channels : {16, 20, 32}) {
    for (int64_t dim : {0, 1, 2, 4, -1}) {
      EngineCase c(fmt::format(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %dim : int = prim::Constant[value={1}]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %v : Float({0}, 16, 3, 3) = prim::Constant[value={{0}}]()
  %w : Float({0}, 16, 1, 1) = prim::Constant[value={{0}}]()
  %a : Tensor = aten::_convolution(%x, %v, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %b : Tensor = aten::_convolution(%x, %w, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %parts : Tensor[] = prim::ListConstruct(%a, %b)
  %s : Tensor = aten::stack(%parts, %dim)
  return (%s)
)",
                               channels, dim));
      c.expectClose({randn({2, 16, 5, 5}, 1)}, 1e-4);
      c.expectClose({randn({1, 16, 4, 4}, 2)}, 1e-4);
    }
  }
}

TEST(Engine, TwoNormsAfterOneConvolution) {
  EngineCase c(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w : Float(20, 16, 1, 1) = prim::Constant[value={0}]()
  %b : Float(20) = prim::Constant[value={0}]()
  %m1 : Float(20) = prim::Constant[value={0}]()
  %v1 : Float(20) = prim::Constant[value={0}]()
  %m2 : Float(20) = prim::Constant[value={0}]()
  %v2 : Float(20) = prim::Constant[value={0}]()
  %y : Tensor = aten::_convolution(%x, %w, %b, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %a : Tensor = aten::batch_norm(%y, %none, %none, %m1, %v1, %f, %eps, %eps, %f)
  %z : Tensor = aten::batch_norm(%a, %none, %b, %m2, %v2, %f, %eps, %eps, %f)
  return (%z)
)");
  Tensor x = randn({2, 16, 5, 5}, 5);
  EXPECT_EQ(c.layers({x}), "reorder, conv direct, reorder");
  c.expectClose({x}, 1e-4);
}

constexpr const char* kAttention = R"(graph(%q : Tensor, %k : Tensor, %v : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %last : int = prim::Constant[value=-1]()
  %before : int = prim::Constant[value=-2]()
  %scale : float = prim::Constant[value=0.25]()
  %inf : float = prim::Constant[value=-inf]()
  %kt : Tensor = aten::transpose(%k, %last, %before)
  %s : Tensor = aten::matmul(%q, %kt)
  %t : Tensor = aten::mul(%s, %scale)
  %n : int = aten::size(%q, %two)
  %sizes : int[] = prim::ListConstruct(%n, %n)
  %o : Tensor = aten::ones(%sizes, %none, %none, %none, %none)
  %u : Tensor = aten::triu(%o, %one)
  %m : Tensor = aten::gt(%u, %zero)
  %h : Tensor = aten::masked_fill(%t, %m, %inf)
  %p : Tensor = aten::softmax(%h, %last, %none)
  %y : Tensor = aten::matmul(%p, %v)
  %z : Tensor = aten::transpose(%y, %one, %two)
  %rest : int[] = prim::Constant[value=[2, 9, 32]]()
  %r : Tensor = aten::reshape(%z, %rest)
  return (%r)
)";

TEST(Engine, AttentionIsOneLayer) {
  EngineCase c(kAttention);
  std::vector<IValue> inputs{randn({2, 4, 9, 8}, 1), randn({2, 4, 9, 8}, 2), randn({2, 4, 9, 8}, 3)};
  EXPECT_EQ(c.layers(inputs), "attention (causal)");
  c.expectClose(inputs);
}

TEST(Engine, PrecisionOfWeights) {
  const std::string text = R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %w : Float(48, 200) = prim::Constant[value={0}]()
  %a : Tensor = aten::linear(%x, %w, %none)
  return (%a)
)";
  Tensor x = randn({20, 200}, 2);
  Tensor exact = EngineCase(text).run({x})[0].toTensor();
  // |error| <= sum |x| |w| e, with e the relative error of a weight; for int8 half a step of the largest weight.
  struct Bound {
    DType precision;
    double relative;
  };
  for (Bound b : {Bound{DType::Float16, 0x1p-11}, Bound{DType::BFloat16, 0x1p-9}, Bound{DType::Int8, 0.5 / 127}}) {
    Tensor got = EngineCase(text, {.precision = b.precision}).run({x})[0].toTensor();
    double worst = 0;
    for (int64_t i = 0; i < got.numel(); ++i) {
      double sum = 0;
      for (int64_t k = 0; k < 200; ++k) sum += std::fabs(x.data<float>()[i / 48 * 200 + k]);
      EXPECT_LE(std::fabs(got.real(i) - exact.real(i)), sum * b.relative + 1e-4);
      worst = std::max(worst, std::fabs(got.real(i) - exact.real(i)));
    }
    EXPECT_GT(worst, 1e-5);  // the weights are stored so
  }
}

TEST(Engine, KernelsSayWhyTheyAreNoLayers) {
  struct Case {
    const char* call;
    const char* layers;
  };
  for (const Case& t : {
           Case{"pow(%n, %n)", "kernel aten::pow.Tensor_Tensor: there is no such loop on integers"},
           Case{"add(%x, %n, %one)", "convert, pointwise"},
           Case{"elu(%x, %two, %two, %one)", "kernel aten::elu: the scales are not 1"},
           Case{"nextafter(%x, %x)", "kernel aten::nextafter"},
       }) {
    SCOPED_TRACE(t.call);
    EngineCase c(fmt::format(R"(graph(%x : Tensor, %w : Tensor, %m : Tensor, %n : Tensor):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %r : Tensor = aten::{}
  return (%r)
)",
                             t.call));
    Tensor whole = Tensor::zeros(DType::Int64, Dims{6});
    EXPECT_EQ(c.layers({randn({1, 4, 6, 6}, 1), randn({4, 4, 3, 3}, 2), randn({5, 6}, 3), whole}, true)
                  .substr(0, std::string(t.layers).size()),
              t.layers);
  }
}

TEST(Engine, GroupsOfChannelsAreNormalized) {
  EngineCase c(R"(graph(%x : Tensor):
  %two : int = prim::Constant[value=2]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %f : bool = prim::Constant[value=0]()
  %w : Float(6) = prim::Constant[value={0}]()
  %b : Float(6) = prim::Constant[value={0}]()
  %none : NoneType = prim::Constant()
  %y : Tensor = aten::group_norm(%x, %two, %w, %b, %eps, %f)
  %z : Tensor = aten::group_norm(%y, %two, %none, %none, %eps, %f)
  return (%y, %z)
)");
  Tensor x = randn({2, 6, 5, 7}, 1);
  EXPECT_EQ(c.layers({x}), "group_norm, group_norm");
  c.expectClose({x}, 1e-5);
  c.expectClose({randn({3, 6}, 2)}, 1e-5);
}

TEST(Engine, ChannelsOfInstancesAreNormalized) {
  EngineCase c(R"(graph(%x : Tensor, %m : Tensor):
  %none : NoneType = prim::Constant()
  %on : bool = prim::Constant[value=1]()
  %off : bool = prim::Constant[value=0]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %w : Float(6) = prim::Constant[value={0}]()
  %b : Float(6) = prim::Constant[value={0}]()
  %y : Tensor = aten::instance_norm(%x, %w, %b, %none, %none, %on, %eps, %eps, %on)
  %z : Tensor = aten::instance_norm(%y, %none, %none, %m, %m, %off, %eps, %eps, %on)
  return (%y, %z)
)");
  Tensor x = randn({2, 6, 5, 7}, 1), m = Tensor::zeros(DType::Float32, Dims{6});
  EXPECT_EQ(c.layers({x, m}, true), "group_norm, kernel aten::instance_norm: there are running statistics");
  c.expectClose({x, m}, 1e-5);
}

TEST(Engine, RowsAreNormalizedByTheirMeanSquare) {
  EngineCase c(R"(graph(%x : Tensor, %v : Tensor):
  %none : NoneType = prim::Constant()
  %eps : float = prim::Constant[value=0.25]()
  %last : int[] = prim::Constant[value=[24]]()
  %two : int[] = prim::Constant[value=[5, 24]]()
  %w : Float(24) = prim::Constant[value={0}]()
  %w2 : Float(5, 24) = prim::Constant[value={0}]()
  %a : Tensor = aten::rms_norm(%x, %last, %w, %eps)
  %b : Tensor = aten::rms_norm(%a, %two, %w2, %none)
  %c : Tensor = aten::rms_norm(%b, %last, %none, %none)
  %d : Tensor = aten::rms_norm(%c, %last, %v, %eps)
  return (%a, %b, %c, %d)
)");
  Tensor x = randn({3, 5, 24}, 1), v = randn({24}, 2);
  EXPECT_EQ(c.layers({x, v}, true), "rms_norm, rms_norm, rms_norm, rms_norm, pointwise");
  c.expectClose({x, v}, 1e-5);
  c.expectClose({Tensor::zeros(DType::Float32, Dims{1, 5, 24}), v}, 1e-5);
}

}  // namespace
}  // namespace tscompile::test
