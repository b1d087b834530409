// Engines: what layers a graph becomes, and that they compute what the interpreter does.
#include "runtime/engine/engine.h"

#include "runtime/call/thread_pool.h"
#include "runtime/registry.h"
#include "tests/support/engine_case.h"

#include <fmt/core.h>

#include <cmath>
#include <random>
#include <set>
#include <thread>

namespace tscompile::test {
namespace {

constexpr const char* kBottleneck = R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %eps : float = prim::Constant[value=1.0000000000000001e-05]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w : Float(32, 32, 3, 3) = prim::Constant[value={0}]()
  %scale : Float(32) = prim::Constant[value={0}]()
  %shift : Float(32) = prim::Constant[value={0}]()
  %mean : Float(32) = prim::Constant[value={0}]()
  %var : Float(32) = prim::Constant[value={0}]()
  %y : Tensor = aten::_convolution(%x, %w, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %n : Tensor = aten::batch_norm(%y, %scale, %shift, %mean, %var, %f, %eps, %eps, %f)
  %s : Tensor = aten::add(%n, %x, %one)
  %r : Tensor = aten::relu(%s)
  return (%r)
)";

TEST(Engine, ConvolutionTakesNormResidualAndActivation) {
  EngineCase c(kBottleneck);
  Tensor x = randn({2, 32, 14, 14}, 1);
  EXPECT_EQ(c.layers({x}), "reorder, conv winograd+add+relu, reorder");
  c.expectClose({x}, 1e-4);
}

// A kernel after a convolution reads row-major memory, alone and from a list.
TEST(Engine, KernelsReadBlockedActivationsInOrder) {
  std::string text = kBottleneck;
  text.replace(text.find("  return (%r)"), 13, R"(  %q : Tensor = aten::logcumsumexp(%r, %one)
  %list : Tensor[] = prim::ListConstruct(%r, %x)
  %h : Tensor = aten::hstack(%list)
  return (%q, %h))");
  EngineCase c(text);
  EXPECT_NE(c.layers({randn({1, 32, 6, 6}, 1)}).find("kernel aten::logcumsumexp"), std::string::npos);
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

TEST(Engine, OneKernelBehindTwoNorms) {
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

constexpr const char* kFire = R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %ones : int[] = prim::ListConstruct(%one, %one)
  %zeros : int[] = prim::ListConstruct(%zero, %zero)
  %w1 : Float(32, 3, 1, 1) = prim::Constant[value={0}]()
  %w2 : Float(16, 3, 3, 3) = prim::Constant[value={0}]()
  %w3 : Float(16, 48, 1, 1) = prim::Constant[value={0}]()
  %a : Tensor = aten::_convolution(%x, %w1, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %b : Tensor = aten::_convolution(%x, %w2, %none, %ones, %ones, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  %parts : Tensor[] = prim::ListConstruct(%a, %b)
  %c : Tensor = aten::cat(%parts, %one)
  %d : Tensor = aten::_convolution(%c, %w3, %none, %ones, %zeros, %ones, %f, %zeros, %one, %f, %f, %f, %f)
  return (%d)
)";

TEST(Engine, JoinedChannelsOfOneImageAreMadeInPlace) {
  EngineCase c(kFire);
  // The images need no blocks for the first layers.
  const std::string convolutions = "conv first_layer, conv first_layer, conv direct, reorder";
  EXPECT_EQ(c.layers({randn({1, 3, 9, 7}, 1)}), convolutions);
  EXPECT_EQ(c.layers({randn({2, 3, 9, 7}, 1)}), "conv first_layer, conv first_layer, cat, conv direct, reorder");
  c.expectClose({randn({1, 3, 9, 7}, 1)}, 1e-4);
  c.expectClose({randn({2, 3, 9, 7}, 1)}, 1e-4);
}

// As in a dense block: each join is the beginning of the next one.
TEST(Engine, JoinsThatGrowShareTheirMemory) {
  EngineCase c(R"(graph(%x : Tensor, %past : Tensor):
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::exp(%a)
  %first : Tensor[] = prim::ListConstruct(%a, %b)
  %c : Tensor = aten::cat(%first, %one)
  %d : Tensor = aten::softmax(%c, %one, %none)
  %second : Tensor[] = prim::ListConstruct(%a, %b, %d)
  %e : Tensor = aten::cat(%second, %one)
  %f : Tensor = aten::softmax(%e, %one, %none)
  %third : Tensor[] = prim::ListConstruct(%e, %f)
  %g : Tensor = aten::cat(%third, %one)
  %h : Tensor = aten::softmax(%g, %one, %none)
  %i : Tensor = aten::add(%h, %g, %one)
  %j : Tensor[] = prim::ListConstruct(%past, %c)
  %k : Tensor = aten::cat(%j, %one)
  return (%i, %k)
)");
  for (int64_t batch : {1, 2}) {
    std::vector<IValue> inputs{randn({batch, 16, 8}, 1), randn({batch, 1, 8}, 2)};
    if (batch == 1) {
      EXPECT_EQ(c.layers(inputs), "pointwise, pointwise, softmax, softmax, softmax, pointwise, cat");
    }
    c.expectClose(inputs);
  }
}

// The second join's memory holds what the first one made, and not the other way round: that would be too small.
TEST(Engine, JoinsOfOneTensorMayBeginOthers) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %a : Tensor = aten::tanh(%x)
  %alone : Tensor[] = prim::ListConstruct(%a)
  %b : Tensor = aten::cat(%alone, %zero)
  %all : Tensor[] = prim::ListConstruct(%b, %x)
  %c : Tensor = aten::cat(%all, %zero)
  %d : Tensor = aten::softmax(%x, %one, %none)
  %e : Tensor = aten::softmax(%d, %one, %none)
  %f : Tensor = aten::softmax(%c, %one, %none)
  return (%e, %f)
)");
  c.expectClose({randn({3, 64}, 1)});
}

TEST(Engine, PartsOfStacksAreMadeInPlace) {
  EngineCase c(R"(graph(%x : Tensor, %past : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::tanh(%x)
  %first : Tensor[] = prim::ListConstruct(%past, %a)
  %k : Tensor = aten::cat(%first, %one)
  %b : Tensor = aten::exp(%a)
  %second : Tensor[] = prim::ListConstruct(%past, %b)
  %v : Tensor = aten::cat(%second, %one)
  %sum : Tensor = aten::add(%k, %v, %one)
  %all : Tensor[] = prim::ListConstruct(%k, %v)
  %s : Tensor = aten::stack(%all, %zero)
  return (%s, %sum)
)");
  std::vector<IValue> inputs{randn({4, 1, 8}, 1), randn({4, 3, 8}, 2)};
  EXPECT_EQ(c.layers(inputs), "pointwise, cat, pointwise, cat, pointwise");
  c.expectClose(inputs);
  // Parts whose place is not aligned are copied there.
  inputs = {randn({3, 1, 7}, 1), randn({3, 4, 7}, 2)};
  EXPECT_EQ(c.layers(inputs), "pointwise, cat, pointwise, cat, pointwise, cat");
  c.expectClose(inputs);
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

TEST(Engine, JoinsOfWhatIsNeededElsewhere) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %last : int = prim::Constant[value=-1]()
  %w : Float(4, 16) = prim::Constant[value={0}]()
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::exp(%x)
  %d : Tensor = aten::sqrt(%b)
  %t : Tensor = aten::transpose(%a, %zero, %one)
  %twice : Tensor[] = prim::ListConstruct(%a, %a, %w, %x, %d)
  %p : Tensor = aten::cat(%twice, %zero)
  %again : Tensor[] = prim::ListConstruct(%d, %b)
  %q : Tensor = aten::cat(%again, %zero)
  %r : Tensor = aten::stack(%again, %one)
  %u : Tensor = aten::stack(%again, %last)
  %both : Tensor[] = prim::ListConstruct(%q, %q)
  %v : Tensor = aten::cat(%both, %one)
  %n : Tensor = aten::matmul(%t, %d)
  return (%p, %q, %r, %u, %v, %b, %n)
)");
  c.expectClose({randn({4, 16}, 3)}, 1e-4);
}

TEST(Engine, TwoNormsBehindOneConvolution) {
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

TEST(Engine, ElementwiseChainsAreOneLoop) {
  EngineCase c(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  %b : Tensor = aten::tanh(%a)
  %c : Tensor = aten::mul(%b, %x)
  %d : Tensor = aten::exp(%c)
  %e : Tensor = aten::div(%d, %y)
  return (%e)
)");
  std::vector<IValue> inputs{randn({4, 1, 33}, 1), randn({5, 33}, 2)};
  EXPECT_EQ(c.layers(inputs), "pointwise of 5");
  c.expectClose(inputs, 1e-5);
}

// Chains that meet: inputs of the second are known to the loop only after steps of the first.
TEST(Engine, ChainsThatMeetAreOneLoop) {
  EngineCase c(R"(graph(%x : Tensor, %t : Tensor, %v : Tensor):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %half : float = prim::Constant[value=0.5]()
  %a : Tensor = aten::log(%v)
  %b : Tensor = aten::sub(%x, %t, %one)
  %c : Tensor = aten::pow(%b, %two)
  %d : Tensor = aten::div(%c, %v)
  %e : Tensor = aten::add(%a, %d, %one)
  %f : Tensor = aten::mul(%e, %half)
  return (%f)
)");
  std::vector<IValue> inputs{floats({1, 2, 3}), floats({2, 2, 1}), floats({0.5f, 1, 2})};
  EXPECT_EQ(c.layers(inputs), "pointwise of 6");
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

TEST(Engine, OperatorsThatAreOneStep) {
  for (const char* call : {"sign(%x)",
                           "sgn(%x)",
                           "round(%x)",
                           "logical_not(%x)",
                           "isnan(%x)",
                           "deg2rad(%x)",
                           "rad2deg(%x)",
                           "rsub(%x, %half, %two)",
                           "fmod(%x, %y)",
                           "fmod(%x, %half)",
                           "remainder(%x, %y)",
                           "remainder(%half, %x)",
                           "floor_divide(%x, %y)",
                           "floor_divide(%x, %half)",
                           "logical_and(%x, %y)",
                           "logical_or(%x, %y)",
                           "logical_xor(%x, %y)",
                           "subtract(%x, %y, %one)",
                           "true_divide(%x, %y)",
                           "arctan(%x)",
                           "clip(%x, %half, %two)",
                           "max(%x, %y)",
                           "clamp(%x, %y, %none)",
                           "div(%x, %y, %floor)"}) {
    SCOPED_TRACE(call);
    EngineCase c(fmt::format(R"(graph(%x : Tensor, %y : Tensor):
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %floor : str = prim::Constant[value="floor"]()
  %r : Tensor = aten::{}
  return (%r)
)",
                             call));
    std::vector<IValue> inputs{randn({3, 70}, 1), randn({3, 70}, 2)};
    EXPECT_EQ(c.layers(inputs), "pointwise");
    c.expectClose(inputs, 1e-6);
  }
}

// Whatever record has a converter: new ones need no line here.
TEST(Engine, ElementwiseOperatorsOfOneTensorAreOneLoop) {
  Tensor x = randn({3, 70}, 1);
  for (int64_t i = 0; i < x.numel(); ++i) x.data<float>()[i] = 0.1f + std::fabs(x.data<float>()[i]);
  Tensor truth = Tensor::empty(DType::Bool, Dims{3, 70});
  for (int64_t i = 0; i < truth.numel(); ++i) truth.data<bool>()[i] = i % 3 == 0;
  size_t seen = 0;
  for (Symbol kind : allOps().kinds(true)) {
    for (const Operator* op : allOps().overloads(kind)) {
      if (!op->isImplemented() || !op->has(Trait::Elementwise) || !op->def().convert) continue;
      if (op->schema().arguments.size() != 1 || op->schema().isMutable()) continue;
      SCOPED_TRACE(op->fullName());
      EngineCase c(fmt::format("graph(%x : Tensor):\n  %r : Tensor = {}(%x)\n  return (%r)\n", kind.text()));
      const RunOptions options;
      RunContext context(options);
      RunScope scope(context);
      const Tensor& taken = c.tryRun({x}, context) ? x : truth;  // what is no number's takes truth values
      EXPECT_EQ(c.layers({taken}, true).substr(0, 9), "pointwise");
      c.expectClose({taken}, 1e-5);
      ++seen;
    }
  }
  EXPECT_GT(seen, 30u);
}

// The layer is called by its product and by what it takes in, of whatever name.
TEST(Engine, ProductsTakeEveryActivation) {
  constexpr const char* kCalls[][2] = {{"relu(%a)", "+relu"},       {"leaky_relu(%a, %half)", "+leaky_relu"},
                                       {"silu(%a)", "+silu"},       {"hardswish(%a)", "+hard_swish"},
                                       {"mish(%a)", "+mish"},       {"log_sigmoid(%a)", "+log_sigmoid"},
                                       {"tanh(%a)", "+tanh"},       {"softplus(%a, %one, %twenty)", "+softplus"},
                                       {"sigmoid(%a)", "+sigmoid"}, {"hardsigmoid(%a)", "+hard_sigmoid"}};
  for (const auto& [call, name] : kCalls) {
    SCOPED_TRACE(call);
    EngineCase c(fmt::format(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %half : float = prim::Constant[value=0.5]()
  %one : int = prim::Constant[value=1]()
  %twenty : int = prim::Constant[value=20]()
  %w : Float(8, 40) = prim::Constant[value={{0}}]()
  %a : Tensor = aten::linear(%x, %w, %none)
  %r : Tensor = aten::{}
  return (%r)
)",
                             call));
    Tensor x = randn({5, 40}, 2);
    EXPECT_EQ(c.layers({x}), std::string("matmul") + name);
    c.expectClose({x}, 1e-5);
  }
}

TEST(Engine, KernelsSayWhyTheyAreNoLayers) {
  struct Case {
    const char* call;
    const char* layers;
  };
  for (const Case& t : {
           Case{"conv2d(%x, %w, %none, %ones, %ones, %ones, %one)", "kernel aten::conv2d: the weight is an input"},
           Case{"add(%x, %n, %one)", "kernel aten::add.Tensor: an argument is neither float32 nor bool"},
           Case{"elu(%x, %two, %two, %one)", "kernel aten::elu: the scales are not 1"},
           Case{"lgamma(%x)", "kernel aten::lgamma"},
       }) {
    SCOPED_TRACE(t.call);
    EngineCase c(fmt::format(R"(graph(%x : Tensor, %w : Tensor, %m : Tensor, %n : Tensor):
  %none : NoneType = prim::Constant()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
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

// Engines see inputs as if they started at their memory's first element.
TEST(Engine, OffsetsOfInputsAreNotTold) {
  EngineCase c(R"(graph(%x : Tensor):
  %o : int = aten::sym_storage_offset(%x)
  %y : Tensor = aten::add(%x, %o, %o)
  return (%y)
)");
  EXPECT_TRUE(c.layers({randn({3}, 1)}).starts_with("refused: "));
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
  EXPECT_EQ(c.layers({x, v}, true),
            "rms_norm, rms_norm, rms_norm, kernel aten::rms_norm: the weight or the bias is an input, or not float32");
  c.expectClose({x, v}, 1e-5);
  c.expectClose({Tensor::zeros(DType::Float32, Dims{1, 5, 24}), v}, 1e-5);
}

TEST(Engine, ManyThreadsOneEngine) {
  EngineCase c(kBottleneck);
  Tensor x = randn({1, 32, 20, 20}, 4), y = randn({1, 32, 9, 9}, 5);
  Tensor expectedX = c.run({x})[0].toTensor(), expectedY = c.run({y})[0].toTensor();
  auto same = [](const Tensor& a, const Tensor& b) {
    return std::memcmp(a.raw(), b.raw(), static_cast<size_t>(a.numel()) * 4) == 0;
  };
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        bool first = (t + i) % 2;
        wrong += !same(c.run({first ? x : y}, 1 + t % 3)[0].toTensor(), first ? expectedX : expectedY);
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Engine, ResultsAreTheCallersOwn) {
  EngineCase c(R"(graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %w : Float(3) = prim::Constant[value={0}]()
  %a : Tensor = aten::add(%x, %w, %one)
  return (%a, %w, %x)
)");
  Tensor x = floats({1, 2, 3});
  std::vector<IValue> first = c.run({x}), second = c.run({x});
  EXPECT_NE(first[0].toTensor().raw(), second[0].toTensor().raw());
  first[1].toTensor().data<float>()[0] = 99;  // the weight itself stays as it is
  EXPECT_NE(c.run({x})[1].toTensor().real(0), 99);
  EXPECT_EQ(first[2].toTensor(), x);
}

TEST(Engine, WhatCannotBePlannedIsLeftAlone) {
  EngineCase c(R"(graph(%x : Tensor, %y : Tensor):
  %one : int = prim::Constant[value=1]()
  %a : Tensor = aten::add(%x, %y, %one)
  return (%a)
)");
  RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  EXPECT_EQ(c.layers({floats({1, 2}), floats({1, 2, 3})}), "refused: ");
}

TEST(Engine, SmallPlansAreKeptForManySizes) {
  EngineCase c(R"(graph(%x : Tensor):
  %y : Tensor = aten::relu(%x)
  return (%y)
)");
  const EnginePlan* first = c.plan({randn({1, 3}, 1)});
  for (int64_t n = 2; n < 200; ++n) c.plan({randn({n, 3}, 1)});
  EXPECT_EQ(c.plan({randn({1, 3}, 1)}), first);
}

// Otherwise every size packs weights of its own, and they all stay.
TEST(Engine, PlansShareWhatIsMadeOfConstants) {
  EngineCase c(graphWithConstants("%x : Tensor", R"(
  %w : Float(3) = prim::Constant[value=<Tensor>]()
  %square : Tensor = aten::mul(%w, %w)
  %more : Tensor = aten::add(%square, %w, %two)
  %y : Tensor = aten::add(%x, %more, %one)
)",
                                  "%y"));
  auto constants = [&](int64_t rows) {
    std::set<const void*> found;
    for (const NetBuffer& b : c.plan({randn({rows, 3}, 1)})->network().buffers)
      if (b.kind == NetBuffer::Kind::Constant) found.insert(b.constant.raw());
    return found;
  };
  EXPECT_EQ(constants(1).size(), 1u);
  EXPECT_EQ(constants(1), constants(2));
  c.expectClose({randn({1, 3}, 2)});
  c.expectClose({randn({5, 3}, 2)});
}

TEST(Engine, ABranchFindsWhatIsMadeOfConstants) {
  EngineCase c(graphWithConstants("%x : Tensor", R"(
  %w : Float(3) = prim::Constant[value=<Tensor>]()
  %square : Tensor = aten::mul(%w, %w)
  %rows : int = aten::size(%x, %zero)
  %single : bool = aten::eq(%rows, %one)
  %y : Tensor = prim::If(%single)
    block0():
      -> (%x)
    block1():
      %more : Tensor = aten::add(%square, %w, %two)
      %sum : Tensor = aten::add(%x, %more, %one)
      -> (%sum)
)",
                                  "%y"));
  for (int64_t rows : {1, 2, 3, 1, 2}) c.expectClose({randn({rows, 3}, 2)});
}

TEST(Engine, PlansTakeTurnsInOneArena) {
  EngineOptions kernels;
  kernels.optimize = false;
  EngineCase c(graphWithConstants("%x : Tensor", R"(
  %a : Tensor = aten::tanh(%x)
  %b : Tensor = aten::mul(%a, %x)
  %c : Tensor = aten::softmax(%b, %last, %none)
  %d : Tensor = aten::add(%c, %a, %one)
)",
                                  "%d"),
               kernels);
  for (int64_t rows : {3, 500, 7, 500, 3, 2000, 7, 7}) c.expectClose({randn({rows, 8}, 1)});
}

TEST(ArenaPool, GivesTheLastOneThatIsLargeEnough) {
  ArenaPool pool;
  Ref<Storage> first = pool.take(1000), second = pool.take(10);
  const std::byte *large = first->data(), *small = second->data();
  pool.giveBack(std::move(second));
  pool.giveBack(std::move(first));
  first = pool.take(500);
  EXPECT_EQ(first->data(), large);
  second = pool.take(10);
  EXPECT_EQ(second->data(), small);
  pool.giveBack(std::move(second));
  EXPECT_GE(pool.take(4000)->bytes(), 4000u);
}

TEST(Engine, SizesDecideBranches) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %message : str = prim::Constant[value="too long"]()
  %none : NoneType = prim::Constant()
  %size : int = aten::size(%x, %zero)
  %isOne : bool = aten::eq(%size, %one)
  %y : Tensor, %n : int = prim::If(%isOne)
    block0():
      %a : Tensor = aten::relu(%x)
      -> (%a, %two)
    block1():
      %long : bool = aten::gt(%size, %two)
       = prim::If(%long)
        block0():
           = prim::RaiseException(%message, %none)
          -> ()
        block1():
          -> ()
      %b : Tensor = aten::exp(%x)
      -> (%b, %one)
  %z : Tensor = aten::mul(%y, %n)
  return (%z)
)");
  EXPECT_EQ(c.layers({randn({1, 3}, 1)}), "pointwise of 2");
  EXPECT_EQ(c.layers({randn({2, 3}, 1)}), "pointwise of 2");
  c.expectClose({randn({1, 3}, 2)});
  c.expectClose({randn({2, 3}, 2)});
  // Whoever interprets it tells the error with its place.
  EXPECT_EQ(c.layers({randn({3, 3}, 1)}), "refused: prim::RaiseException does more than give a value");
}

TEST(Engine, SizesDecideTurns) {
  EngineCase c(R"(graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %yes : bool = prim::Constant[value=1]()
  %length : int = aten::size(%x, %zero)
  %h : Tensor = aten::select(%x, %zero, %zero)
  %last : Tensor = prim::Loop(%length, %yes, %h)
    block0(%t : int, %before : Tensor):
      %xt : Tensor = aten::select(%x, %zero, %t)
      %sum : Tensor = aten::add(%before, %xt, %one)
      %next : Tensor = aten::tanh(%sum)
      -> (%yes, %next)
  return (%last)
)");
  for (int64_t length : {1, 2, 7}) c.expectClose({randn({length, 4}, static_cast<uint64_t>(length))});
  EXPECT_EQ(c.layers({randn({2000, 1}, 1)}), "refused: its turns are more than 4096 nodes, too many for a plan");
}

}  // namespace
}  // namespace tscompile::test
