// Quantised tensors in engines: which layers operators become, and that they give the bits of their kernels, whose
// values tests/ops has.
#include "api/value_text.h"
#include "ir/values/quantization.h"
#include "tests/support/engine_case.h"
#include "tests/support/engine_reference.h"

#include <fmt/core.h>

namespace tscompile::test {
namespace {

// %q is %x on a grid of unsigned bytes; %p and %l are packed weights of 32 channels.
std::string quantizedGraph(std::string_view body, std::string_view weight = "32, 32, 3, 3", int groups = 1) {
  return fmt::format(R"(graph(%x : Tensor):
  %none : NoneType = prim::Constant()
  %f : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %three : int = prim::Constant[value=3]()
  %groups : int = prim::Constant[value={}]()
  %i8 : int = prim::Constant[value=12]()
  %u8 : int = prim::Constant[value=13]()
  %half : float = prim::Constant[value=0.5]()
  %fine : float = prim::Constant[value=0.004]()
  %s : float = prim::Constant[value=0.03]()
  %s2 : float = prim::Constant[value=0.041]()
  %s3 : float = prim::Constant[value=0.11]()
  %z : int = prim::Constant[value=117]()
  %z2 : int = prim::Constant[value=90]()
  %ones : int[] = prim::Constant[value=[1, 1]]()
  %twos : int[] = prim::Constant[value=[2, 2]]()
  %zeros : int[] = prim::Constant[value=[0, 0]]()
  %none_given : int[] = prim::Constant[value=annotate(List[int], [])]()
  %b : Float(32) = prim::Constant[value={{0}}]()
  %w0 : Float({}) = prim::Constant[value={{0}}]()
  %w1 : Tensor = aten::sub(%w0, %half, %one)
  %w2 : Tensor = aten::quantize_per_tensor(%w1, %fine, %zero, %i8)
  %p : __torch__.torch.classes.quantized.Conv2dPackedParamsBase = quantized::conv2d_prepack(%w2, %b, %ones, %ones, %ones, %groups)
  %m0 : Float(32, 24) = prim::Constant[value={{0}}]()
  %m1 : Tensor = aten::sub(%m0, %half, %one)
  %m2 : Tensor = aten::quantize_per_tensor(%m1, %fine, %zero, %i8)
  %l : __torch__.torch.classes.quantized.LinearPackedParamsBase = quantized::linear_prepack(%m2, %b)
  %q : Tensor = aten::quantize_per_tensor(%x, %s, %z, %u8)
{}  %o : Tensor = aten::dequantize(%y)
  return (%o)
)",
                     groups, weight, body);
}

void expectExact(const std::string& graph, std::string_view layers, const Tensor& x) {
  SCOPED_TRACE(graph);
  EngineCase c(graph);
  EXPECT_EQ(c.layers({x}, true), layers);
  atEachSimdLevel([&] {
    EngineCase capped(graph);
    capped.expectClose({x}, 0);
  });
}

void expectExactBody(std::string_view body, std::string_view layers, const Tensor& x) {
  expectExact(quantizedGraph(body), layers, x);
}

// %r is %x on another grid.
const std::string kOther = "  %r : Tensor = aten::quantize_per_tensor(%x, %s2, %z2, %u8)\n";
constexpr const char* kConv = "  %y : Tensor = quantized::conv2d(%q, %p, %s3, %z2)\n";
const Tensor kImage = randn({2, 32, 9, 7}, 1);

}  // namespace

// Views of what a quantised product gave: it lies in rows, whatever its input does.
TEST(QuantizedLayers, ViewsOfProducts) {
  const std::string body =
      "  %sizes : int[] = prim::Constant[value=[2, 4, 8, 63]]()\n  %h : int = prim::Constant[value=64]()\n"
      "  %c : Tensor = aten::slice(%q, %one, %zero, %h, %two)\n"
      "  %k : Tensor = quantized::conv2d(%c, %p, %s3, %z2)\n  %y : Tensor = aten::view(%k, %sizes)\n";
  const std::string graph = quantizedGraph(body);
  const Tensor x = randn({2, 64, 9, 7}, 1);
  EngineCase c(graph);
  EXPECT_EQ(c.layers({x}).find("kernel"), std::string::npos) << c.layers({x}, true);
  c.expectClose({x}, 0);
}

// The bias of each channel at each of its places, beside sums that floats hold, and those that they would round.
TEST(QuantizedLayers, TransposedConvolutionsOfBlocks) {
  const std::string body =
      "  %w3 : Tensor = aten::transpose(%w1, %zero, %one)\n"
      "  %w4 : Tensor = aten::quantize_per_tensor(%w3, %fine, %zero, %i8)\n"
      "  %t : __torch__.torch.classes.quantized.Conv2dPackedParamsBase = "
      "quantized::conv_transpose2d_prepack(%w4, %b, %twos, %ones, %zeros, %ones, %one)\n"
      "  %y : Tensor = quantized::conv_transpose2d(%q, %t, %s3, %z2)\n";
  for (int64_t channels : {32, 320}) {
    const std::string graph = quantizedGraph(body, fmt::format("32, {}, 4, 4", channels));
    SCOPED_TRACE(graph);
    const Tensor x = randn({2, channels, 5, 4}, 1);
    EngineCase c(graph);
    EXPECT_EQ(c.layers({x}).find("kernel"), std::string::npos) << c.layers({x}, true);
    c.expectClose({x}, 0);
  }
}

// Products over an outer dimension: of floats that hold all sums, and, with a large bias, of integers in rows.
TEST(QuantizedLayers, ProductsOverAnOuterDimension) {
  const std::string body =
      "  %behind : int[] = prim::Constant[value=[0, 2, 3, 1]]()\n  %large : float = prim::Constant[value={}]()\n"
      "  %grid : float = prim::Constant[value={}]()\n  %b2 : Tensor = aten::mul(%b, %large)\n"
      "  %k : __torch__.torch.classes.quantized.LinearPackedParamsBase = quantized::linear_prepack(%m2, %b2)\n"
      "  %r : Tensor = aten::permute(%q, %behind)\n  %y : Tensor = quantized::linear(%r, %k, %grid, %z2)\n";
  for (auto [bias, grid, mixes] : {std::tuple("1.0", "0.05", true), std::tuple("6000.0", "40.0", false)}) {
    const std::string graph = quantizedGraph(fmt::format(fmt::runtime(body), bias, grid));
    SCOPED_TRACE(graph);
    const Tensor x = randn({2, 24, 16, 17}, 1);
    EngineCase c(graph);
    const std::string layers = c.layers({x}, true);
    EXPECT_EQ(layers.find("mix 24x32") != std::string::npos, mixes) << layers;
    EXPECT_EQ(layers.find("kernel"), std::string::npos) << layers;
    c.expectClose({x}, 0);
  }
}

namespace {

// Packed weights %w and %u of two layers, the second of which takes what both directions of the first give.
std::string recurrentGraph(std::string_view body, std::string_view result, int gates, bool isHalf) {
  const std::string names[] = {"w", "u", "v"};
  const int depths[] = {24, 20, 40};
  std::string text = R"(graph(%x : Tensor, %h : Tensor, %c : Tensor):
  %none : NoneType = prim::Constant()
  %t : bool = prim::Constant[value=1]()
  %f : bool = prim::Constant[value=0]()
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %i8 : int = prim::Constant[value=12]()
  %dropped : float = prim::Constant[value=0.]()
  %half : float = prim::Constant[value=0.5]()
  %fine : float = prim::Constant[value=0.004]()
)";
  text += fmt::format("  %b : Float({}) = prim::Constant[value={{0}}]()\n", gates * 20);
  for (size_t i = 0; i < 3; ++i) {
    const std::string& n = names[i];
    text += fmt::format("  %{}0 : Float({}, {}) = prim::Constant[value={{0}}]()\n", n, gates * 20, depths[i]);
    text += fmt::format("  %{0}1 : Tensor = aten::sub(%{0}0, %half, %one)\n", n);
    text += fmt::format("  %{0}2 : Tensor = aten::quantize_per_tensor(%{0}1, %fine, %zero, %i8)\n", n);
    text += fmt::format("  %{0} : __torch__.torch.classes.quantized.LinearPackedParamsBase = ", n);
    text += isHalf ? fmt::format("quantized::linear_prepack_fp16(%{}1, %b)\n", n)
                   : fmt::format("quantized::linear_prepack(%{}2, %b)\n", n);
  }
  auto cell = [&](std::string_view name, std::string_view of) {
    const std::string_view kind = isHalf ? "fp16" : "dynamic", rest = isHalf ? "" : ", %b, %b, %f";
    text += fmt::format(
        "  %{} : __torch__.torch.classes.rnn.CellParamsBase = "
        "quantized::make_quantized_cell_params_{}(%{}, %u{})\n",
        name, kind, of, rest);
  };
  cell("first", "w");
  cell("second", "v");
  return text + std::string(body) + fmt::format("  return ({})\n", result);
}

void expectNative(const std::string& graph, const std::vector<IValue>& inputs, std::string_view layer) {
  SCOPED_TRACE(graph);
  EngineCase c(graph);
  const std::string layers = c.layers(inputs, true);
  EXPECT_EQ(layers.find("kernel"), std::string::npos) << layers;
  EXPECT_NE(layers.find(layer), std::string::npos) << layers;
  atEachSimdLevel([&] { EngineCase(graph).expectClose(inputs); });
}

}  // namespace

TEST(QuantizedLayers, RecurrentNetworks) {
  const std::string cells =
      "  %cells : __torch__.torch.classes.rnn.CellParamsBase[] = "
      "prim::ListConstruct(%first, %first, %second, %second)\n";
  for (bool isHalf : {false, true})
    for (bool batchFirst : {false, true}) {
      const Tensor x = randn(batchFirst ? Dims{3, 7, 24} : Dims{7, 3, 24}, 1), h = randn({4, 3, 20}, 2);
      const std::string rest = fmt::format("%cells, %t, %two, %dropped, %f, %t, %{}", batchFirst ? "t" : "f");
      expectNative(recurrentGraph(cells +
                                      "  %hc : Tensor[] = prim::ListConstruct(%h, %c)\n  %y : Tensor, %n : Tensor, "
                                      "%m : Tensor = aten::quantized_lstm(%x, %hc, " +
                                      rest + ", %none, %t)\n",
                                  "%y, %n, %m", 4, isHalf),
                   {x, h, randn({4, 3, 20}, 3)}, "quantized_lstm");
      expectNative(recurrentGraph(cells + "  %y : Tensor, %n : Tensor = aten::quantized_gru(%x, %h, " + rest + ")\n",
                                  "%y, %n", 3, isHalf),
                   {x, h, h}, "quantized_gru");
    }
}

TEST(QuantizedLayers, RecurrentCells) {
  const Tensor x = randn({3, 24}, 1), h = randn({3, 20}, 2);
  expectNative(recurrentGraph("  %hc : Tensor[] = prim::ListConstruct(%h, %c)\n  %y : Tensor, %n : Tensor = "
                              "quantized::quantized_lstm_cell_dynamic(%x, %hc, %w, %u, %b, %b)\n",
                              "%y, %n", 4, false),
               {x, h, randn({3, 20}, 3)}, "matmul");
  expectNative(
      recurrentGraph("  %y : Tensor = quantized::quantized_gru_cell_dynamic(%x, %h, %w, %u, %b, %b)\n", "%y", 3, false),
      {x, h, h}, "matmul");
  expectNative(recurrentGraph("  %y : Tensor = quantized::quantized_rnn_tanh_cell_dynamic(%x, %h, %w, %u, %b, %b)\n",
                              "%y", 1, false),
               {x, h, h}, "matmul");
}

TEST(QuantizedLayers, ConvolutionsAreProductsOfIntegers) {
  expectExactBody(kConv, "requantize, reorder, conv direct+requantize, pointwise, reorder", kImage);
  expectExactBody("  %y : Tensor = quantized::conv2d_relu(%q, %p, %s3, %z2)\n",
                  "requantize, reorder, conv direct+requantize, pointwise, reorder", kImage);
  expectExact(quantizedGraph(kConv, "32, 1, 3, 3", 32),
              "requantize, reorder, conv depthwise+requantize, pointwise, reorder", kImage);
  expectExact(quantizedGraph(kConv, "32, 3, 3, 3"), "requantize, conv first_layer+requantize, pointwise, reorder",
              randn({1, 3, 20, 20}, 2));
}

// Sums that float32 does not hold.
TEST(QuantizedLayers, LargeSums) {
  const Tensor image = randn({1, 2048, 3, 3}, 3);
  std::string graph = quantizedGraph(kConv, "32, 2048, 3, 3");
  expectExact(graph, "requantize, reorder, conv direct+requantize, pointwise, reorder", image);
  // With a zero point of their own, weights take more than eight bits: they are added in halves.
  graph.replace(graph.find("%w1, %fine, %zero"), 17, "%w1, %fine, %z");
  graph.replace(graph.find("0.004"), 5, "0.002");
  expectExact(graph, "requantize, reorder, conv direct, conv direct, pointwise, requantize, pointwise, reorder", image);
}

TEST(QuantizedLayers, Products) {
  expectExactBody("  %y : Tensor = quantized::linear(%q, %l, %s3, %z2)\n", "requantize, matmul+requantize, pointwise",
                  randn({5, 24}, 4));
  expectExactBody("  %y : Tensor = quantized::linear_relu(%q, %l, %s3, %z2)\n",
                  "requantize, matmul+requantize, pointwise", randn({2, 3, 24}, 5));
  expectExactBody("  %y : Tensor = quantized::linear_dynamic(%x, %l, %f)\n",
                  "requantize, dynamic_quantize, matmul, pointwise, pointwise of 2", randn({2, 3, 24}, 6));
}

TEST(QuantizedLayers, ElementsAndWindows) {
  expectExactBody(kOther + "  %y : Tensor = quantized::add_relu(%q, %r, %s3, %z2)\n",
                  "requantize, requantize, quantized_add, pointwise", kImage);
  expectExactBody(kOther + "  %y : Tensor = quantized::mul(%q, %r, %s3, %z2)\n",
                  "requantize, requantize, pointwise, requantize, pointwise", kImage);
  expectExactBody("  %y : Tensor = quantized::hardswish(%q, %s3, %z2)\n", "requantize, table, pointwise", kImage);
  expectExactBody("  %y : Tensor = aten::max_pool2d(%q, %twos, %none_given, %zeros, %ones, %f)\n",
                  "requantize, max_pool2d, pointwise", kImage);
  expectExactBody("  %y : Tensor = aten::adaptive_avg_pool2d(%q, %ones)\n",
                  "requantize, global_avg_pool, requantize, pointwise", kImage);
  expectExactBody(
      kOther +
          "  %list : Tensor[] = prim::ListConstruct(%q, %r)\n  %y : Tensor = quantized::cat(%list, %one, %s3, %z2)\n",
      "requantize, requantize, pointwise, requantize, pointwise, requantize, cat, pointwise", kImage);
  expectExactBody("  %y : Tensor = aten::transpose(%q, %one, %two)\n", "requantize, pointwise", kImage);
  expectExactBody("  %y : Tensor = aten::flatten(%q, %one, %three)\n", "requantize, pointwise", kImage);
}

TEST(QuantizedLayers, NormsAndSlopesOfChannels) {
  const std::string variance = "  %v : Tensor = aten::add(%b, %one, %one)\n";
  for (const char* name : {"batch_norm2d", "batch_norm2d_relu"})
    expectExactBody(
        variance + fmt::format("  %y : Tensor = quantized::{}(%q, %b, %b, %b, %v, %fine, %s3, %z2)\n", name),
        "requantize, pointwise of 2, requantize, pointwise", kImage);
  expectExactBody("  %y : Tensor = quantized::prelu(%q, %b, %s3, %z2)\n",
                  "requantize, pointwise of 2, requantize, pointwise", kImage);
  const std::string slopes = "  %u : Tensor = aten::quantize_per_tensor(%b, %fine, %z, %u8)\n";
  expectExactBody(slopes + "  %y : Tensor = quantized::prelu(%q, %u, %s3, %z2)\n",
                  "requantize, pointwise, pointwise of 5, requantize, pointwise", kImage);
}

// What has no layer of its own runs on bytes in between.
TEST(QuantizedLayers, KernelsRunOnBytes) {
  expectExactBody("  %y : Tensor = aten::upsample_bilinear2d(%q, %twos, %f, %none, %none)\n",
                  "requantize, kernel aten::upsample_bilinear2d, pointwise", kImage);
}

TEST(QuantizedLayers, WholeBlocksStayInTheirLayout) {
  expectExactBody(R"(  %a : Tensor = quantized::conv2d_relu(%q, %p, %s3, %z2)
  %c : Tensor = quantized::conv2d(%a, %p, %s2, %z)
  %d : Tensor = quantized::add_relu(%a, %c, %s3, %z2)
  %e : Tensor = quantized::hardswish(%d, %s, %z)
  %y : Tensor = aten::adaptive_avg_pool2d(%e, %ones)
)",
                  "requantize, reorder, conv direct+requantize, conv direct+requantize, quantized_add, table, "
                  "global_avg_pool, requantize, pointwise",
                  kImage);
}

TEST(QuantizedLayers, InputsAndOutputsAreBytes) {
  const std::string graph = R"(graph(%q : Tensor):
  %one : int = prim::Constant[value=1]()
  %two : int = prim::Constant[value=2]()
  %y : Tensor = aten::transpose(%q, %one, %two)
  %r : Tensor = aten::relu(%y)
  return (%r)
)";
  EngineCase c(graph);
  auto quantized = [](double scale, int64_t zero) {
    Tensor bytes = Tensor::empty(DType::UInt8, Dims{2, 3, 4});
    for (int64_t i = 0; i < bytes.numel(); ++i) bytes.data<uint8_t>()[i] = static_cast<uint8_t>(i * 11);
    return quantizedAs(bytes, DType::QUInt8, *Quantization::perTensor(scale, zero));
  };
  // Each grid has a plan of its own.
  for (int64_t zero : {0, 128, 255}) {
    Tensor got = c.run({quantized(0.5, zero)})[0].toTensor(), want = c.interpret({quantized(0.5, zero)})[0].toTensor();
    EXPECT_EQ(got.dtype(), DType::QUInt8);
    EXPECT_EQ(quantizationOf(got).zeroPoint, zero);
    EXPECT_EQ(valueToText(integersOf(got)), valueToText(integersOf(want)));
  }
}

}  // namespace tscompile::test
