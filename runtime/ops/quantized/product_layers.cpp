// Quantised convolutions and products in engines: products of integers, exact in 32 bits, or in float32 below 2^24.
#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/layers/integer_weights.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/kernels/layout.h"
#include "runtime/ops/quantized/product_grid.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/quantized.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr double kExactFloats = 1 << 24, kExactIntegers = 1u << 31;
constexpr StepRange kAnyGrid{-255, 255};  // of bytes whose zero point may be any

// Calls f(channel of the result, weight) for all elements of contiguous weights [out][in / groups]... or, transposed,
// [in][out / groups]...
template <class F>
void forEachWeight(const PackedWeight& w, const Tensor& steps, F&& f) {
  const int64_t first = steps.size(0), second = w.transposed ? steps.size(1) : 1,
                inner = steps.numel() / (first * second);
  const float* from = steps.data<float>();
  for (int64_t i = 0; i < steps.numel(); ++i) {
    const int64_t row = i / (inner * second), column = i / inner % second;
    f(static_cast<size_t>(w.transposed ? row / (first / w.shape.groups) * second + column : row), from[i]);
  }
}

// The steps that are multiplied.
struct Factor {
  Tensor steps;
  StepRange range;
  Tensor least;  // of them, known when they are: they are bytes above it; or undefined

  bool areBytes() const { return least.defined() || range.most - range.least <= 255; }
};

// In which arithmetic every sum of some of the products with inputs in this range, and of the bias, is exact.
ExactArithmetic exactArithmetic(const PackedWeight& w, const Tensor& steps, const Factor& x,
                                const std::vector<int64_t>& bias) {
  std::vector<double> least(bias.size()), most(bias.size());
  double leastWeight = 0, mostWeight = 0, greatest = 0;
  forEachWeight(w, steps, [&](size_t channel, double v) {
    const double a = v * x.range.least, b = v * x.range.most;
    least[channel] += std::min(a, b);
    most[channel] += std::max(a, b);
    leastWeight = std::min(leastWeight, v);
    mostWeight = std::max(mostWeight, v);
  });
  for (size_t c = 0; c < bias.size(); ++c)
    greatest = std::max(greatest, std::max(-least[c], most[c]) + std::abs(static_cast<double>(bias[c])));
  const bool areBytes = leastWeight >= -128 && mostWeight <= 127;
  const bool integers = areBytes && greatest < kExactIntegers;
  return {.floats = greatest < kExactFloats,
          .integers = integers,
          .bytes = integers && x.areBytes(),
          .least = x.range.least};
}

// A bias of each channel for each column, of which a transposed convolution has several a channel.
Tensor columnBias(const std::vector<int64_t>& bias, int64_t columns, int64_t groups) {
  const auto channels = static_cast<int64_t>(bias.size());
  const bool placesFirst = columnsArePlacesFirst(groups, channels);
  Tensor all = Tensor::zeros(DType::Int32, Dims{channelBlocks(columns) * kBlock});
  for (int64_t i = 0; i < columns; ++i)
    all.data<int32_t>()[i] =
        static_cast<int32_t>(bias[static_cast<size_t>(placesFirst ? i % channels : i * channels / columns)]);
  return all;
}

// The product with weights that are integers, which nothing may round.
Tensor addProduct(const ConvertCall& call, const PackedWeight& w, const Factor& x, const Tensor& steps,
                  const std::vector<int64_t>& bias, std::string_view part, ExactArithmetic exact) {
  const bool hasBias = std::any_of(bias.begin(), bias.end(), [](int64_t b) { return b != 0; });
  Tensor row = Tensor::empty(DType::Float32, Dims{static_cast<int64_t>(bias.size())});
  std::copy(bias.begin(), bias.end(), row.data<float>());
  const IValue added = hasBias && exact.floats ? IValue(row) : IValue();
  const size_t before = call.network().layers.size();
  const ConvolutionShape& s = w.shape;
  IValue made =
      s.stride.empty()
          // Rows become a layer that has integers; sums of planes are exact in floats alone.
          ? call.compute("aten::linear",
                         {exact.floats ? x.steps : call.compute("aten::contiguous", {x.steps}), steps, added})
          : call.compute("aten::convolution", {x.steps, steps, added, intList(s.stride), intList(s.padding),
                                               intList(s.dilation), w.transposed, intList(s.outputPadding), s.groups});
  for (size_t i = before; i < call.network().layers.size(); ++i) {
    auto* product = dynamic_cast<ProductLayer*>(call.network().layers[i].get());
    auto* packed = dynamic_cast<IntegerWeights*>(product);
    if (!packed) continue;
    auto* matmul = dynamic_cast<MatmulLayer*>(product);
    if (x.least.defined() && matmul && exact.bytes)
      matmul->takeLeast(call.idOf(x.least));
    else
      exact.bytes &= !x.least.defined();
    packed->holdIntegers(w.weight, part, exact);
    if (hasBias && !exact.floats) product->integerBias = columnBias(bias, product->columns(), s.groups);
  }
  return made.toTensor();
}

// Weights in two parts, whose sums are exact for eight times as many products: w = 16 * high + low.
struct Halves {
  Tensor high, low;
};
Halves split(const Tensor& steps) {
  Halves halves{Tensor::empty(DType::Float32, steps.sizes()), Tensor::empty(DType::Float32, steps.sizes())};
  for (int64_t i = 0; i < steps.numel(); ++i) {
    const float v = steps.data<float>()[i], high = std::nearbyint(v / 16);
    halves.high.data<float>()[i] = high;
    halves.low.data<float>()[i] = v - 16 * high;
  }
  return halves;
}

// Sums of products and bias, rounded to float32 once; undefined if there is no way.
Tensor addSums(const ConvertCall& call, const PackedWeight& w, const Factor& x, const std::vector<int64_t>& bias) {
  if (w.weight.numel() == 0) return {};
  Tensor steps = stepsOf(w.weight);
  if (ExactArithmetic exact = exactArithmetic(w, steps, x, bias); exact.floats || exact.integers)
    return addProduct(call, w, x, steps, bias, ", of integers", exact);
  const Halves halves = split(steps);
  const std::vector<int64_t> none(bias.size(), 0);
  if (!exactArithmetic(w, halves.low, x, bias).floats || !exactArithmetic(w, halves.high, x, none).floats) return {};
  constexpr ExactArithmetic kInFloats{.floats = true};
  Tensor low = addProduct(call, w, x, halves.low, bias, ", of low halves", kInFloats);
  Tensor high = addProduct(call, w, x, halves.high, none, ", of high halves", kInFloats);
  return call.compute("aten::add.Tensor", {low, high, 16}).toTensor();
}

// A 1d convolution is a 2d one of height 1.
bool isFlat(const PackedWeight& w, const Tensor& x) { return w.shape.stride.size() == 2 && x.rank() == 3; }
Tensor raised(const ConvertCall& call, const PackedWeight& w, const Tensor& steps) {
  return isFlat(w, steps) ? call.compute("aten::unsqueeze", {steps, 2}).toTensor() : steps;
}
IValue lowered(const ConvertCall& call, bool flat, const IValue& v) {
  return flat ? call.compute("aten::squeeze.dim", {v, 2}) : v;
}

// Elements between two channels of a result.
int64_t innerOf(const PackedWeight& w, const Tensor& sums) {
  int64_t inner = 1;
  for (size_t d = sums.sizes().size() - w.shape.stride.size(); d < sums.sizes().size(); ++d) inner *= sums.sizes()[d];
  return inner;
}

bool areSame(const std::vector<float>& factors) {
  return std::all_of(factors.begin(), factors.end(), [&](float f) { return f == factors[0]; });
}

}  // namespace

Tensor addIntegerProduct(const ConvertCall& call, const Tensor& x, StepRange range, const Tensor& weight) {
  const Tensor columns = weight.withGeometry(Dims{weight.size(1), weight.size(0)},
                                             Dims{weight.stride(1), weight.stride(0)}, weight.offset());
  const PackedWeight w{.weight = columns};
  const Factor rows{x, range, {}};
  const std::vector<int64_t> none(static_cast<size_t>(columns.size(0)), 0);
  const Tensor steps = convertTensor(columns, DType::Float32);
  auto product = [&](const Tensor& part, std::string_view name) {
    const ExactArithmetic exact = exactArithmetic(w, part, rows, none);
    if (!exact.floats) return IValue();
    return call.compute("aten::to.dtype", {addProduct(call, w, rows, part, none, name, exact),
                                           static_cast<int64_t>(DType::Int32), false, false, IValue()});
  };
  if (IValue whole = product(steps, ", of integers"); !whole.isNone()) return whole.toTensor();
  const Halves halves = split(steps);
  const IValue low = product(halves.low, ", of low halves"), high = product(halves.high, ", of high halves");
  return low.isNone() || high.isNone() ? Tensor() : call.compute("aten::add.Tensor", {low, high, 16}).toTensor();
}

ExactArithmetic dynamicArithmetic(const PackedWeight& w, const Tensor& steps) {
  const std::vector<int64_t> noBias(static_cast<size_t>(channelsOf(w)), 0);
  ExactArithmetic exact = exactArithmetic(w, steps, {{}, kAnyGrid, {}}, noBias);
  exact.bytes = exact.integers;  // the least of them is told when it is known
  return exact;
}

template <size_t kScaleAt, bool kRelu>
void convertQuantizedProduct(ConvertCall& call) {
  if (!isQuantizedTensor(call.argument(0)) || call.tensor(0).numel() == 0) return convertQuantizedToKernel(call);
  const PackedWeight w = unpacked(call.argument(1));
  const Tensor x = call.tensor(0);
  const Tensor steps = raised(call, w, stepsIn(x));
  checkProductInput(call, w, steps);
  const int64_t zero = call.integer(kScaleAt + 1);
  ProductGrid grid = productGrid(call, w, x, call.number(kScaleAt), zero);
  Tensor sums = addSums(call, w, {steps, stepRange(x.dtype(), quantizationOf(x)), {}}, grid.bias);
  if (!sums.defined()) return convertQuantizedToKernel(call);
  Ref<Quantization> to = Quantization::perTensor(call.number(kScaleAt), zero);
  StepRange range = stepRange(x.dtype(), *to);
  if (kRelu) range.least = std::max(range.least, 0.0f);
  if (areSame(grid.factors)) grid.factors.resize(1);
  Tensor rounded = addRequantize(call, sums, std::move(grid.factors), innerOf(w, sums), range);
  Tensor made = lowered(call, isFlat(w, x), rounded).toTensor();
  call.setResult(0, quantizedIn(call, made, x.dtype(), *to));
}
template void convertQuantizedProduct<2, false>(ConvertCall& call);
template void convertQuantizedProduct<2, true>(ConvertCall& call);
template void convertQuantizedProduct<6, false>(ConvertCall& call);
template void convertQuantizedProduct<6, true>(ConvertCall& call);

template <bool kRelu>
void convertDynamicProduct(ConvertCall& call) {
  Tensor x = call.tensor(0);
  const PackedWeight w = unpacked(call.argument(1));
  if (x.dtype() != DType::Float32 || x.numel() == 0) return convertQuantizedToKernel(call);
  const Tensor numbers = raised(call, w, x);
  checkProductInput(call, w, numbers);
  const std::vector<double> scales = scalesOf(call, w);
  Tensor scale, least, steps = addDynamicSteps(call, numbers, call.flag(2), scale, least);
  Tensor sums = addSums(call, w, {steps, kAnyGrid, least}, std::vector<int64_t>(scales.size(), 0));
  if (!sums.defined()) return convertQuantizedToKernel(call);
  Dims sizes(w.shape.stride.size() + 1, 1);
  sizes[0] = static_cast<int64_t>(scales.size());
  Tensor factors = Tensor::empty(DType::Float32, sizes);
  std::copy(scales.begin(), scales.end(), factors.data<float>());
  IValue made = call.compute("aten::mul.Tensor", {sums, call.compute("aten::mul.Tensor", {factors, scale})});
  if (w.bias.defined()) {
    Tensor bias = convertTensor(w.bias, DType::Float32);
    made =
        call.compute("aten::add.Tensor", {made, bias.withGeometry(sizes, contiguousStrides(sizes), bias.offset()), 1});
  }
  if (kRelu) made = call.compute("aten::relu", {made});
  call.setResult(0, lowered(call, isFlat(w, x), made));
}
template void convertDynamicProduct<false>(ConvertCall& call);
template void convertDynamicProduct<true>(ConvertCall& call);

}  // namespace tscompile
