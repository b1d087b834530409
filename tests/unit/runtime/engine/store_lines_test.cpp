// Activations between convolutions that are lines of bf16, or of bytes on grids that calibration has found.
#include "runtime/engine/network/calibration.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/kernels/line_product.h"
#include "tests/support/engine_case.h"
#include "tests/support/signal.h"

namespace tscompile::test {
namespace {

// A stem, a pool, two convolutions with a residual, a depthwise one, an element-wise layer, a join and a mean.
constexpr const char* kBody = R"(
  %b : Tensor? = prim::Constant()
  %w1 : Float(32, 3, 3, 3) = prim::Constant[value={0}]()
  %w2 : Float(32, 32, 3, 3) = prim::Constant[value={0}]()
  %w3 : Float(32, 32, 1, 1) = prim::Constant[value={0}]()
  %w4 : Float(32, 1, 3, 3) = prim::Constant[value={0}]()
  %w5 : Float(40, 64, 1, 1) = prim::Constant[value={0}]()
  %half : float = prim::Constant[value=0.55]()
  %v1 : Tensor = aten::sub(%w1, %half, %one)
  %v2 : Tensor = aten::sub(%w2, %half, %one)
  %v3 : Tensor = aten::sub(%w3, %half, %one)
  %v4 : Tensor = aten::sub(%w4, %half, %one)
  %v5 : Tensor = aten::sub(%w5, %half, %one)
  %g1 : int = prim::Constant[value=1]()
  %g32 : int = prim::Constant[value=32]()
  %three : int = prim::Constant[value=3]()
  %s1 : int[] = prim::Constant[value=[1, 1]]()
  %s2 : int[] = prim::Constant[value=[2, 2]]()
  %p0 : int[] = prim::Constant[value=[0, 0]]()
  %k3 : int[] = prim::Constant[value=[3, 3]]()
  %d12 : int[] = prim::Constant[value=[-1, -2]]()
  %c1 : Tensor = aten::conv2d(%x, %v1, %b, %s2, %s1, %s1, %g1)
  %r1 : Tensor = aten::relu(%c1)
  %m1 : Tensor = aten::max_pool2d(%r1, %k3, %s2, %s1, %s1, %f)
  %c2 : Tensor = aten::conv2d(%m1, %v2, %b, %s1, %s1, %s1, %g1)
  %r2 : Tensor = aten::relu(%c2)
  %c3 : Tensor = aten::conv2d(%r2, %v3, %b, %s1, %p0, %s1, %g1)
  %a3 : Tensor = aten::add(%c3, %m1, %one)
  %r3 : Tensor = aten::relu(%a3)
  %c4 : Tensor = aten::conv2d(%r3, %v4, %b, %s1, %s1, %s1, %g32)
  %h4 : Tensor = aten::hardswish(%c4)
  %l : Tensor[] = prim::ListConstruct(%h4, %r3)
  %j : Tensor = aten::cat(%l, %one)
  %c5 : Tensor = aten::conv2d(%j, %v5, %b, %s2, %p0, %s1, %g1)
  %y : Tensor = aten::mean(%c5, %d12, %f, %none)
)";

// A depthwise convolution of an input, which has to be floats, before one that could multiply lines.
constexpr const char* kDepthwiseFirst = R"(
  %b : Tensor? = prim::Constant()
  %w1 : Float(40, 1, 3, 3) = prim::Constant[value={0}]()
  %w2 : Float(24, 40, 1, 1) = prim::Constant[value={0}]()
  %half : float = prim::Constant[value=0.55]()
  %v1 : Tensor = aten::sub(%w1, %half, %one)
  %v2 : Tensor = aten::sub(%w2, %half, %one)
  %g1 : int = prim::Constant[value=1]()
  %g40 : int = prim::Constant[value=40]()
  %s1 : int[] = prim::Constant[value=[1, 1]]()
  %p0 : int[] = prim::Constant[value=[0, 0]]()
  %c1 : Tensor = aten::conv2d(%x, %v1, %b, %s1, %s1, %s1, %g40)
  %y : Tensor = aten::conv2d(%c1, %v2, %b, %s1, %p0, %s1, %g1)
)";

// Between convolutions: margins, an instance norm, a join within a line, a transposed convolution, pixels repeated and
// interpolated, a part of the channels, and loops that no convolution takes.
constexpr const char* kMoves = R"(
  %b : Tensor? = prim::Constant()
  %w1 : Float(24, 3, 3, 3) = prim::Constant[value={0}]()
  %w2 : Float(24, 24, 3, 3) = prim::Constant[value={0}]()
  %w3 : Float(24, 48, 2, 2) = prim::Constant[value={0}]()
  %w4 : Float(48, 48, 1, 1) = prim::Constant[value={0}]()
  %w5 : Float(40, 40, 1, 1) = prim::Constant[value={0}]()
  %half : float = prim::Constant[value=0.55]()
  %v1 : Tensor = aten::sub(%w1, %half, %one)
  %v2 : Tensor = aten::sub(%w2, %half, %one)
  %v3 : Tensor = aten::sub(%w3, %half, %one)
  %v4 : Tensor = aten::sub(%w4, %half, %one)
  %v5 : Tensor = aten::sub(%w5, %half, %one)
  %g1 : int = prim::Constant[value=1]()
  %eight : int = prim::Constant[value=8]()
  %last : int = prim::Constant[value=48]()
  %t : bool = prim::Constant[value=1]()
  %tenth : float = prim::Constant[value=0.1]()
  %eps : float = prim::Constant[value=1e-05]()
  %s1 : int[] = prim::Constant[value=[1, 1]]()
  %s2 : int[] = prim::Constant[value=[2, 2]]()
  %p0 : int[] = prim::Constant[value=[0, 0]]()
  %p4 : int[] = prim::Constant[value=[1, 1, 1, 1]]()
  %none2 : float[]? = prim::Constant()
  %sizes : int[] = prim::Constant[value=[36, 40]]()
  %more : int[] = prim::Constant[value=[50, 44]]()
  %d12 : int[] = prim::Constant[value=[-1, -2]]()
  %c1 : Tensor = aten::conv2d(%x, %v1, %b, %s1, %s1, %s1, %g1)
  %r1 : Tensor = aten::relu(%c1)
  %m1 : Tensor = aten::max_pool2d(%r1, %s2, %s2, %p0, %s1, %f)
  %e1 : Tensor = aten::reflection_pad2d(%m1, %p4)
  %c2 : Tensor = aten::conv2d(%e1, %v2, %b, %s1, %p0, %s1, %g1)
  %n2 : Tensor = aten::instance_norm(%c2, %b, %b, %b, %b, %t, %tenth, %eps, %f)
  %r2 : Tensor = aten::relu(%n2)
  %l : Tensor[] = prim::ListConstruct(%r2, %m1)
  %j : Tensor = aten::cat(%l, %one)
  %u0 : Tensor = aten::conv_transpose2d(%m1, %v3, %b, %s2, %p0, %p0, %g1, %s1)
  %u : Tensor = aten::max_pool2d(%u0, %s2, %s2, %p0, %s1, %f)
  %h : Tensor = aten::silu(%j)
  %a : Tensor = aten::mul(%h, %u)
  %c4 : Tensor = aten::conv2d(%a, %v4, %b, %s1, %p0, %s1, %g1)
  %o1 : Tensor = aten::upsample_nearest2d(%c4, %sizes, %none2)
  %o2 : Tensor = aten::upsample_bilinear2d(%o1, %more, %f, %none2)
  %k : Tensor = aten::slice(%o2, %one, %eight, %last, %one)
  %c5 : Tensor = aten::conv2d(%k, %v5, %b, %s1, %p0, %s1, %g1)
  %y : Tensor = aten::mean(%c5, %d12, %f, %none)
)";

EngineOptions optionsOf(DType precision) {
  EngineOptions options;
  options.precision = precision;
  options.tactics = std::make_shared<TacticCache>();
  return options;
}

size_t linesIn(const EngineCase& c, const Tensor& x, DType dtype) {
  const auto& n = c.plan({x})->network();
  size_t count = 0;
  for (const auto& layer : n.layers) count += n[layer->outputs[0]].elements.dtype == dtype;
  return count;
}

double signalToNoise(const EngineCase& c, const Tensor& x) {
  return Signal(c.run({x}, 2)[0].toTensor(), c.interpret({x})[0].toTensor()).decibels();
}

const std::string& graphText() {
  static const std::string text = graphWithConstants("%x : Tensor", kBody, "%y");
  return text;
}

TEST(StoreLines, BrainsGoFromLayerToLayer) {
  if (!hasLineProducts(WeightStorage::BF16)) GTEST_SKIP();
  const EngineCase c(graphText(), optionsOf(DType::BFloat16));
  const Tensor x = randn({2, 3, 33, 35}, 7);
  EXPECT_GE(linesIn(c, x, DType::BFloat16), 5u) << c.layers({x});
  EXPECT_GT(signalToNoise(c, x), 35);
}

TEST(StoreLines, DepthwiseConvolutionsOfFloatsGiveFloats) {
  const EngineCase c(graphWithConstants("%x : Tensor", kDepthwiseFirst, "%y"), optionsOf(DType::BFloat16));
  const Tensor x = randn({2, 40, 9, 11}, 3);
  EXPECT_GT(signalToNoise(c, x), 35) << c.layers({x});
}

TEST(StoreLines, BytesAreOfGridsThatCalibrationFound) {
  if (!hasLineProducts(WeightStorage::I8)) GTEST_SKIP();
  const Tensor x = randn({2, 3, 33, 35}, 7);
  for (Calibration::Method method : {Calibration::Method::MinMax, Calibration::Method::Entropy}) {
    EngineOptions measured = optionsOf(DType::Float32);
    auto calibration = measured.tactics->calibration = std::make_shared<Calibration>();
    calibration->method = method;
    const EngineCase examples(graphText(), measured);
    examples.run({x});
    calibration->beginToCount();
    examples.run({x});
    EngineOptions options = optionsOf(DType::Int8);
    calibration->tell(*options.tactics);
    Diagnostics d;
    EngineOptions read = optionsOf(DType::Int8);
    EXPECT_TRUE(read.tactics->read(options.tactics->textOfEngine(), "test", d));
    const EngineCase c(graphText(), read);
    EXPECT_GE(linesIn(c, x, DType::UInt8), 4u) << c.layers({x});
    EXPECT_GT(signalToNoise(c, x), 20);
    EXPECT_EQ(linesIn(EngineCase(graphText(), optionsOf(DType::Int8)), x, DType::UInt8), 0u);
  }
}

EngineOptions calibratedOn(const std::string& text, const Tensor& x) {
  EngineOptions measured = optionsOf(DType::Float32), options = optionsOf(DType::Int8);
  auto calibration = measured.tactics->calibration = std::make_shared<Calibration>();
  EngineCase(text, measured).run({x});
  calibration->tell(*options.tactics);
  return options;
}

TEST(StoreLines, LinesGoThroughLayersThatMoveThem) {
  const std::string text = graphWithConstants("%x : Tensor", kMoves, "%y");
  const Tensor x = randn({2, 3, 34, 38}, 7);
  EXPECT_EQ(EngineCase(text).layers({x}).find("kernel"), std::string::npos);
  for (DType lines : {DType::UInt8, DType::BFloat16}) {
    const bool bytes = lines == DType::UInt8;
    if (!hasLineProducts(bytes ? WeightStorage::I8 : WeightStorage::BF16)) continue;
    const EngineCase c(text, bytes ? calibratedOn(text, x) : optionsOf(DType::BFloat16));
    EXPECT_GE(linesIn(c, x, lines), bytes ? 12u : 5u) << c.layers({x});
    EXPECT_GT(signalToNoise(c, x), bytes ? 20 : 35);
  }
}

}  // namespace
}  // namespace tscompile::test
