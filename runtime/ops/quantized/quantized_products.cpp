// Convolutions and products of quantised tensors, by QNNPACK's rounding: sums of integers are exact, then multiplied by
// one float32 for each channel.
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/quantized/product_grid.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/quantized.h"

#include <cmath>

namespace tscompile {
namespace {

// ---- sums of products ----

// The sum of the absolute values of the weights of one output, at most.
double greatestRowSum(const Tensor& weight) {
  Tensor steps = stepsOf(weight);
  const float* w = steps.data<float>();
  int64_t rows = weight.rank() ? weight.size(0) : 1, row = rows ? steps.numel() / rows : 0;
  double greatest = 0;
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int64_t i = 0; i < row; ++i) sum += std::abs(w[r * row + i]);
    greatest = std::max(greatest, sum);
  }
  return greatest;
}

// float32 if all sums of products with eight-bit integers are exact in it.
DType sumType(const PackedWeight& w) {
  constexpr double kExact = 1 << 24;
  return !w.transposed && greatestRowSum(w.weight) * 255 < kExact ? DType::Float32 : DType::Float64;
}

// Integers as floats: the products of steps of x and of the weight.
Tensor sums(const KernelCall& call, const PackedWeight& w, const Tensor& weight, const Tensor& x) {
  Tensor in = stepsOf(x, weight.dtype());
  if (w.shape.stride.empty()) return invokeTensor(call, "aten::linear", {in, weight, IValue()});
  return invokeTensor(call, "aten::convolution",
                      {in, weight, IValue(), intList(w.shape.stride), intList(w.shape.padding),
                       intList(w.shape.dilation), w.transposed, intList(w.shape.outputPadding), w.shape.groups});
}

// ---- results ----

// Calls f(channel, sum, index) for each element of [n, channels, ...], or of [..., channels] for products.
template <class F>
void forEachSum(const PackedWeight& w, const Tensor& sums, F&& f) {
  Tensor s = contiguous(sums);
  int64_t channels = channelsOf(w), inner = 1;
  if (!w.shape.stride.empty())
    for (size_t d = s.sizes().size() - w.shape.stride.size(); d < s.sizes().size(); ++d) inner *= s.sizes()[d];
  auto run = [&](const auto* in) {
    for (int64_t i = 0; i < s.numel(); ++i)
      f(static_cast<size_t>(i / inner % channels), static_cast<int64_t>(in[i]), i);
  };
  s.dtype() == DType::Float64 ? run(s.data<double>()) : run(s.data<float>());
}

// ---- static ----

Tensor quantizedProduct(const KernelCall& call, const PackedWeight& w, const Tensor& x, double scale, int64_t zero,
                        bool relu) {
  checkProductInput(call, w, x);
  ProductGrid grid = productGrid(call, w, x, scale, zero);
  Tensor total = sums(call, w, stepsOf(w.weight, sumType(w)), x);
  Tensor out = Tensor::empty(storedAs(x.dtype()), total.sizes());
  Rounding round(x.dtype(), 1, zero);
  auto write = [&]<class T>(T* to) {
    forEachSum(w, total, [&](size_t c, int64_t sum, int64_t i) {
      int32_t q = round.step(static_cast<float>(static_cast<int32_t>(sum + grid.bias[c])) * grid.factors[c]);
      to[i] = static_cast<T>(relu ? std::max<int64_t>(q, zero) : q);
    });
  };
  out.dtype() == DType::UInt8 ? write(out.data<uint8_t>()) : write(out.data<int8_t>());
  return quantizedAs(out, x.dtype(), *Quantization::perTensor(scale, zero));
}

// A 1d convolution is a 2d one of height 1.
Tensor unsqueezed(const KernelCall& call, const Tensor& x) { return invokeTensor(call, "aten::unsqueeze", {x, 2}); }
Tensor squeezed(const KernelCall& call, const Tensor& x) { return invokeTensor(call, "aten::squeeze.dim", {x, 2}); }

// The rank and the dtype are known before the weight is.
template <DType kResult, bool kConv>
void inferProduct(InferCall& call) {
  TensorInfo x = call.tensor(0);
  DType dtype = kResult == DType::Undefined ? x.dtype : kResult;
  if (call.isRun()) return call.resultUnknown();
  if (!x.hasRank) return call.resultOfUnknownRank(dtype);
  Dims sizes(x.sizes);
  if (const IValue* packed = call.constant(1); packed && isPacked(*packed) && !kConv && !sizes.empty())
    if (Tensor weight = unpacked(*packed).weight; weight.rank() == 2) {
      sizes.back() = weight.size(0);
      return call.result(dtype, sizes);
    }
  for (size_t d = kConv ? 1 : sizes.size() - std::min<size_t>(sizes.size(), 1); d < sizes.size(); ++d)
    sizes[d] = kUnknownSize;
  call.result(dtype, sizes);
}

// (x, weight, scale, zero point)
template <bool kRelu>
void productKernel(KernelCall& call) {
  call.setResult(
      quantizedProduct(call, unpacked(call.argument(1)), call.tensor(0), call.number(2), call.integer(3), kRelu));
}
template <bool kRelu>
void conv1dKernel(KernelCall& call) {
  Tensor x = unsqueezed(call, call.tensor(0));
  call.setResult(
      squeezed(call, quantizedProduct(call, unpacked(call.argument(1)), x, call.number(2), call.integer(3), kRelu)));
}
// (x, weight, stride, padding, dilation, groups, scale, zero point), as PyTorch 1.5 wrote it: the object knows the
// rest.
template <bool kRelu>
void longConvKernel(KernelCall& call) {
  call.setResult(
      quantizedProduct(call, unpacked(call.argument(1)), call.tensor(0), call.number(6), call.integer(7), kRelu));
}

// ---- dynamic ----

Tensor dynamicProduct(const KernelCall& call, const PackedWeight& w, const Tensor& x) {
  checkProductInput(call, w, x);
  return DynamicProduct(call, w)(call, x, call.flag(2));
}

template <bool kRelu>
void setDynamic(KernelCall& call, const Tensor& out) {
  call.setResult(kRelu ? invokeTensor(call, "aten::relu", {out}) : out);
}
template <bool kRelu>
void dynamicKernel(KernelCall& call) {
  setDynamic<kRelu>(call, dynamicProduct(call, unpacked(call.argument(1)), call.tensor(0)));
}
void dynamicConv1dKernel(KernelCall& call) {
  Tensor x = unsqueezed(call, call.tensor(0));
  call.setResult(squeezed(call, dynamicProduct(call, unpacked(call.argument(1)), x)));
}
// Weights were rounded to float16 when they were packed.
template <bool kRelu>
void halfKernel(KernelCall& call) {
  PackedWeight w = unpacked(call.argument(1));
  setDynamic<kRelu>(call, invokeTensor(call, "aten::linear",
                                       {call.tensor(0), w.weight, w.bias.defined() ? IValue(w.bias) : IValue()}));
}

template <bool kRelu>
void convertHalf(ConvertCall& call) {
  PackedWeight w = unpacked(call.argument(1));
  IValue made = call.compute("aten::linear", {call.tensor(0), w.weight, w.bias.defined() ? IValue(w.bias) : IValue()});
  call.setResult(0, kRelu ? call.compute("aten::relu", {made}) : made);
}

// ---- packing ----

// Numbers for each dimension; of 1d convolutions one for the height, then the last, as QNNPACK
// takes it of several.
Dims dimsFor(const KernelCall& call, size_t i, bool is1d, int64_t height) {
  Dims dims = call.integers(i);
  if (!is1d) return dims;
  call.require(!dims.empty(), "Argument must have elements.");
  return {height, dims.back()};
}

// (weight, bias, stride, padding[, output padding], dilation, groups)
template <bool k1d, bool kTransposed>
void packConv(KernelCall& call) {
  size_t at = 2;
  PackedWeight w{.weight = call.tensor(0), .bias = call.tensor(1), .shape = {}, .transposed = kTransposed};
  if (k1d) w.weight = unsqueezed(call, w.weight);
  w.shape.stride = dimsFor(call, at++, k1d, 1);
  w.shape.padding = dimsFor(call, at++, k1d, 0);
  w.shape.outputPadding = kTransposed ? dimsFor(call, at++, k1d, 0) : Dims(w.shape.stride.size(), 0);
  w.shape.dilation = dimsFor(call, at++, k1d, 1);
  w.shape.groups = call.integer(at);
  call.require(w.shape.stride.size() + 2 == w.weight.sizes().size(), "the stride {} does not fit the weight {}",
               dimsText(w.shape.stride), dimsText(w.weight.sizes()));
  call.setResult(pack(w.shape.stride.size() == 3 ? kConv3dParams : kConv2dParams, w));
}
void packLinear(KernelCall& call) {
  call.setResult(pack(kLinearParams, {.weight = call.tensor(0), .bias = call.tensor(1)}));
}
void packHalf(KernelCall& call) {
  Tensor weight = convertTensor(convertTensor(call.tensor(0), DType::Float16), DType::Float32);
  call.setResult(pack(kLinearParams, {.weight = weight, .bias = call.tensor(1)}));
}

template <bool k1d>
void unpackKernel(KernelCall& call) {
  PackedWeight w = unpacked(call.argument(0));
  call.setResult(0, k1d ? squeezed(call, w.weight) : w.weight);
  call.setResult(1, w.bias.defined() ? IValue(w.bias) : IValue());
}

template <Dims ConvolutionShape::*kPart>
void askDims(KernelCall& call) {
  call.setResult(intList(unpacked(call.argument(0)).shape.*kPart));
}
void askGroups(KernelCall& call) { call.setResult(unpacked(call.argument(0)).shape.groups); }
void askTransposed(KernelCall& call) { call.setResult(int64_t{unpacked(call.argument(0)).transposed}); }

// ---- embeddings ----

void packEmbedding(KernelCall& call) { call.setResult(pack(kEmbeddingParams, {.weight = call.tensor(0)})); }
void unpackEmbedding(KernelCall& call) { call.setResult(unpacked(call.argument(0)).weight); }

// What is packed stays the tensor that it was.
constexpr TraitSet kKept{Trait::MayShare};

void addPacking(OpRegistry& ops) {
  auto add = [&](std::string_view schema, KernelFunction kernel, TraitSet traits) {
    ops.add({.schema = schema, .kernel = kernel, .convert = convertQuantizedToKernel, .dtypes = {}, .traits = traits});
  };
  for (const char* schema : {"quantized::conv2d_prepack", "quantized::conv3d_prepack", "quantized::conv_prepack",
                             "_quantized::conv2d_prepack", "_quantized::conv3d_prepack"})
    add(schema, packConv<false, false>, kKept);
  add("quantized::conv1d_prepack", packConv<true, false>, kKept);
  for (const char* schema : {"quantized::conv_transpose2d_prepack", "quantized::conv_transpose3d_prepack",
                             "_quantized::conv_transpose2d_prepack", "_quantized::conv_transpose3d_prepack"})
    add(schema, packConv<false, true>, kKept);
  for (const char* schema : {"quantized::conv_transpose1d_prepack", "_quantized::conv_transpose1d_prepack"})
    add(schema, packConv<true, true>, kKept);
  for (const char* schema : {"quantized::linear_prepack", "_quantized::linear_prepack"}) add(schema, packLinear, kKept);
  for (const char* schema : {"quantized::linear_prepack_fp16", "_quantized::linear_prepack_fp16"})
    add(schema, packHalf, kKept);

  for (const char* schema : {"quantized::conv2d_unpack", "quantized::conv3d_unpack", "quantized::conv_unpack",
                             "quantized::conv_transpose2d_unpack", "quantized::conv_transpose3d_unpack",
                             "quantized::linear_unpack", "quantized::linear_unpack_fp16"})
    add(schema, unpackKernel<false>, kKept);
  for (const char* schema : {"quantized::conv1d_unpack", "quantized::conv_transpose1d_unpack"})
    add(schema, unpackKernel<true>, kKept);
}

}  // namespace

DynamicProduct::DynamicProduct(const KernelCall& call, PackedWeight w)
    : w_(std::move(w)), steps_(stepsOf(w_.weight, sumType(w_))), scales_(scalesOf(call, w_)) {
  if (w_.bias.defined()) bias_ = convertTensor(w_.bias, DType::Float32);
}

Tensor DynamicProduct::operator()(const KernelCall& call, const Tensor& x, bool isReduced) const {
  checkProductInput(call, w_, x);
  call.require(x.dtype() == DType::Float32, "expected a float32 input, not {}", pythonName(x.dtype()));
  Tensor in = quantize(x, DType::QUInt8, *chooseGrid(x, isReduced));
  std::vector<float> factor = productFactors(scales_, quantizationOf(in).scale, 1);
  Tensor total = sums(call, w_, steps_, in), out = Tensor::empty(DType::Float32, total.sizes());
  auto* to = out.data<float>();
  forEachSum(w_, total, [&](size_t c, int64_t sum, int64_t i) {
    to[i] = static_cast<float>(sum) * factor[c] + (bias_.defined() ? bias_.data<float>()[c] : 0.0f);
  });
  return out;
}

void registerQuantizedProductsOps(OpRegistry& ops) {
  auto addInferred = [&](std::string_view schema, KernelFunction kernel, InferFunction infer, ConvertFunction convert,
                         TraitSet traits = {}) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = {}, .traits = traits});
  };
  auto add = [&](std::string_view schema, KernelFunction kernel, TraitSet traits = {}) {
    addInferred(schema, kernel, nullptr, convertQuantizedToKernel, traits);
  };
  auto addProduct = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert) {
    bool isConv = schema.find("::conv") != std::string_view::npos;
    addInferred(schema, kernel, isConv ? inferProduct<DType::Undefined, true> : inferProduct<DType::Undefined, false>,
                convert, {Trait::SetsStrides});
  };
  auto addDynamic = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert) {
    bool isConv = schema.find("::conv") != std::string_view::npos;
    addInferred(schema, kernel, isConv ? inferProduct<DType::Float32, true> : inferProduct<DType::Float32, false>,
                convert, {Trait::SetsStrides});
  };
  for (const char* schema : {"quantized::conv2d.new", "quantized::conv3d.new", "quantized::conv_transpose2d",
                             "quantized::conv_transpose3d", "_quantized::conv2d", "_quantized::conv3d",
                             "_quantized::conv_transpose2d", "quantized::linear", "_quantized::linear"})
    addProduct(schema, productKernel<false>, convertQuantizedProduct<2, false>);
  for (const char* schema : {"quantized::conv2d_relu.new", "quantized::conv3d_relu.new", "_quantized::conv2d_relu",
                             "_quantized::conv3d_relu", "quantized::linear_relu"})
    addProduct(schema, productKernel<true>, convertQuantizedProduct<2, true>);
  for (const char* schema : {"quantized::conv1d", "quantized::conv_transpose1d", "_quantized::conv_transpose1d"})
    addProduct(schema, conv1dKernel<false>, convertQuantizedProduct<2, false>);
  addProduct("quantized::conv1d_relu", conv1dKernel<true>, convertQuantizedProduct<2, true>);
  for (const char* schema : {"quantized::conv2d", "quantized::conv3d"})
    addProduct(schema, longConvKernel<false>, convertQuantizedProduct<6, false>);
  for (const char* schema : {"quantized::conv2d_relu", "quantized::conv3d_relu"})
    addProduct(schema, longConvKernel<true>, convertQuantizedProduct<6, true>);

  for (const char* schema :
       {"quantized::linear_dynamic", "_quantized::linear_dynamic", "quantized::conv2d_dynamic",
        "quantized::conv3d_dynamic", "quantized::conv_transpose2d_dynamic", "quantized::conv_transpose3d_dynamic"})
    addDynamic(schema, dynamicKernel<false>, convertDynamicProduct<false>);
  addDynamic("quantized::linear_relu_dynamic", dynamicKernel<true>, convertDynamicProduct<true>);
  for (const char* schema : {"quantized::conv1d_dynamic", "quantized::conv_transpose1d_dynamic"})
    addDynamic(schema, dynamicConv1dKernel, convertDynamicProduct<false>);
  addDynamic("quantized::linear_dynamic_fp16", halfKernel<false>, convertHalf<false>);
  addDynamic("quantized::linear_relu_dynamic_fp16", halfKernel<true>, convertHalf<true>);

  addPacking(ops);
#define TS_ASK(conv)                                                      \
  add(conv "_stride", askDims<&ConvolutionShape::stride>);                \
  add(conv "_padding", askDims<&ConvolutionShape::padding>);              \
  add(conv "_dilation", askDims<&ConvolutionShape::dilation>);            \
  add(conv "_output_padding", askDims<&ConvolutionShape::outputPadding>); \
  add(conv "_groups", askGroups);                                         \
  add(conv "_transpose", askTransposed);
  TS_ASK("quantized::conv2d")
  TS_ASK("quantized::conv3d")
  TS_ASK("quantized::conv_transpose2d")
  TS_ASK("quantized::conv_transpose3d")
#undef TS_ASK

  add("quantized::embedding_bag_prepack", packEmbedding, kKept);
  add("quantized::embedding_bag_unpack", unpackEmbedding, kKept);
}

}  // namespace tscompile
