// Element-wise operators and norms on quantised tensors that say what grid the result is on.
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/quantized.h"

#include <bit>
#include <cmath>

namespace tscompile {
namespace {

// The result on a grid that two arguments give: (..., scale, zero point).
void setQuantized(KernelCall& call, const Tensor& numbers, DType dtype, size_t scaleAt) {
  checkGrid(dtype, call.number(scaleAt), call.integer(scaleAt + 1));
  call.setResult(quantize(numbers, dtype, *Quantization::perTensor(call.number(scaleAt), call.integer(scaleAt + 1))));
}

void requireQuantized(const KernelCall& call, const Tensor& t) {
  call.require(isQuantized(t.dtype()) && quantizationOf(t).isPerTensor(),
               "expected a tensor that is quantised per tensor, not {}", pythonName(t.dtype()));
}

// ---- sums ----

// Both terms in units of the output, as integers with some 20 bits after the point, as QNNPACK adds unsigned bytes and
// XNNPACK signed ones. Nothing if the scales are too far apart for it.
struct FixedPointTerms {
  int64_t a, b;
  int shift;
  bool isSigned;
  static std::optional<FixedPointTerms> of(float a, float b, DType dtype) {
    bool isSigned = dtype == DType::QInt8;
    auto inRange = [&](float ratio) { return ratio >= (isSigned ? 0x1p-10f : 0x1p-14f) && ratio < 0x1p8f; };
    if (dtype == DType::QInt32 || !inRange(a) || !inRange(b)) return std::nullopt;
    int exponent = static_cast<int>(std::bit_cast<uint32_t>(std::max(a, b)) >> 23) - 127;
    int shift = (isSigned ? 20 : 21) - exponent;
    float unit = std::ldexp(1.0f, shift);
    return FixedPointTerms{std::lrint(a * unit), std::lrint(b * unit), shift, isSigned};
  }
  // Halves are rounded up for signed bytes, and away from zero for unsigned ones.
  int64_t operator()(int64_t x, int64_t y) const {
    int64_t sum = a * x + b * y;
    if (isSigned) return (sum + (int64_t{1} << (shift - 1))) >> shift;
    int64_t mask = (int64_t{1} << shift) - 1, rest = (sum & mask) - (sum < 0);
    return (sum >> shift) + (rest > (mask >> 1));
  }
};

bool sameSizes(const Tensor& a, const Tensor& b) {
  return std::equal(a.sizes().begin(), a.sizes().end(), b.sizes().begin(), b.sizes().end());
}

Tensor sumOf(KernelCall& call, const Tensor& a, const Tensor& b, const Quantization& to, bool relu) {
  const Quantization &qa = quantizationOf(a), &qb = quantizationOf(b);
  auto scale = static_cast<float>(to.scale);
  auto fixed =
      FixedPointTerms::of(static_cast<float>(qa.scale) / scale, static_cast<float>(qb.scale) / scale, a.dtype());
  if (!fixed || !sameSizes(a, b)) {
    Tensor sum = invokeTensor(call, "aten::add.Tensor", {dequantize(a), dequantize(b), 1});
    return quantize(relu ? invokeTensor(call, "aten::relu", {sum}) : sum, a.dtype(), to);
  }
  Tensor left = contiguous(a), right = contiguous(b), out = Tensor::empty(storedAs(a.dtype()), a.sizes());
  IntegerRange range = rangeOf(a.dtype());
  int64_t least = relu ? std::max<int64_t>(to.zeroPoint, range.least) : range.least;
  auto write = [&]<class T>(T* sum) {
    const T *x = left.data<T>(), *y = right.data<T>();
    for (int64_t i = 0; i < out.numel(); ++i)
      sum[i] = static_cast<T>(
          std::clamp<int64_t>((*fixed)(x[i] - qa.zeroPoint, y[i] - qb.zeroPoint) + to.zeroPoint, least, range.most));
  };
  a.dtype() == DType::QUInt8 ? write(out.data<uint8_t>()) : write(out.data<int8_t>());
  return quantizedAs(out, a.dtype(), to);
}

void checkPair(const KernelCall& call, const Tensor& a, const Tensor& b) {
  requireQuantized(call, a);
  requireQuantized(call, b);
  call.require(a.dtype() == b.dtype(), "expected two tensors of one dtype, not {} and {}", pythonName(a.dtype()),
               pythonName(b.dtype()));
}

Ref<Quantization> gridAt(const KernelCall& call, size_t i, DType dtype) {
  checkGrid(dtype, call.number(i), call.integer(i + 1));
  return Quantization::perTensor(call.number(i), call.integer(i + 1));
}

void inferPair(InferCall& call) {
  TensorInfo a = call.tensor(0), b = call.tensor(1);
  bool same = a.hasRank && b.hasRank && Dims(a.sizes) == Dims(b.sizes);
  same ? call.result(a) : call.resultOfUnknownRank(a.dtype);
}

template <bool kRelu>
void addKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  checkPair(call, a, b);
  call.setResult(sumOf(call, a, b, *gridAt(call, 2, a.dtype()), kRelu));
}

// The same into the grid of the third argument.
using PairFunction = Tensor (*)(KernelCall&, const Tensor&, const Tensor&, const Quantization&, bool relu);
template <PairFunction kCompute, bool kRelu>
void pairOutKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1), out = call.tensor(2);
  checkPair(call, a, b);
  requireQuantized(call, out);
  requireWritable(out);
  copyTensor(integersOf(out), integersOf(kCompute(call, a, b, quantizationOf(out), kRelu)));
  call.setResult(out);
}

// ---- products ----

float factorOf(const Quantization& a, const Quantization& b, const Quantization& to) {
  return static_cast<float>(a.scale) * static_cast<float>(b.scale) * (1.0f / static_cast<float>(to.scale));
}

// Products of steps, exact, times one float.
Tensor productOf(KernelCall& call, const Tensor& a, const Tensor& b, const Quantization& to, bool relu) {
  const Quantization &qa = quantizationOf(a), &qb = quantizationOf(b);
  Tensor product = invokeTensor(call, "aten::mul.Tensor", {stepsOf(a), stepsOf(b)});
  float factor = factorOf(qa, qb, to);
  Tensor out = Tensor::empty(storedAs(a.dtype()), product.sizes());
  Rounding round(a.dtype(), 1, to.zeroPoint);
  const float* in = product.data<float>();
  auto write = [&]<class T>(T* q) {
    for (int64_t i = 0; i < out.numel(); ++i) {
      int64_t v = round.step(in[i] * factor);
      q[i] = static_cast<T>(relu ? std::max(v, to.zeroPoint) : v);
    }
  };
  call.require(a.dtype() != DType::QInt32, "products of qint32 are not implemented");
  a.dtype() == DType::QUInt8 ? write(out.data<uint8_t>()) : write(out.data<int8_t>());
  return quantizedAs(out, a.dtype(), to);
}

template <bool kRelu>
void mulKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  checkPair(call, a, b);
  call.setResult(productOf(call, a, b, *gridAt(call, 2, a.dtype()), kRelu));
}
void matmulKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  checkPair(call, a, b);
  setQuantized(call, invokeTensor(call, "aten::matmul", {dequantize(a), dequantize(b)}), a.dtype(), 2);
}

// ---- with a number: the grid moves instead of the integers where it can ----

double numberOf(const KernelCall& call, size_t i) {
  if (!call.argument(i).isTensor()) return call.number(i);
  call.require(call.tensor(i).defined() && call.tensor(i).numel() == 1, "expected a tensor of one element");
  return call.tensor(i).real(0);
}

Tensor clampedToZero(KernelCall& call, const Tensor& t, bool relu) {
  return relu ? invokeTensor(call, "aten::relu", {t}) : t;
}

template <bool kRelu, size_t kTensor>
void addScalarKernel(KernelCall& call) {
  Tensor t = call.tensor(kTensor);
  requireQuantized(call, t);
  const Quantization& q = quantizationOf(t);
  IntegerRange range = rangeOf(t.dtype());
  double number = numberOf(call, 1 - kTensor);
  call.require(std::isfinite(number) && std::abs(number / q.scale) < 0x1p31, "{} cannot be added to steps of {}",
               number, q.scale);
  auto steps = static_cast<int64_t>(std::nearbyint(number / q.scale));
  int64_t zero = q.zeroPoint - steps;
  double scale = q.scale, width = static_cast<double>(range.most) - range.least;
  if (zero < range.least) {
    scale = static_cast<double>(range.most - zero) / width * q.scale;
    zero = range.least;
  } else if (zero > range.most) {
    scale = static_cast<double>(zero - range.least) / width * q.scale;
    zero = range.most;
  }
  Ref<Quantization> to = Quantization::perTensor(scale, zero);
  Tensor sum = invokeTensor(call, "aten::add.Scalar", {stepsOf(t), steps, 1});
  auto factor = static_cast<double>(static_cast<float>(q.scale) * (1.0f / static_cast<float>(scale)));
  Tensor moved = invokeTensor(call, "aten::mul.Scalar", {sum, factor});
  call.setResult(clampedToZero(call, quantizeSteps(moved, t.dtype(), *to), kRelu));
}

template <bool kRelu, size_t kTensor>
void mulScalarKernel(KernelCall& call) {
  Tensor t = call.tensor(kTensor);
  requireQuantized(call, t);
  const Quantization& q = quantizationOf(t);
  IntegerRange range = rangeOf(t.dtype());
  double number = numberOf(call, 1 - kTensor);
  Tensor integers = cloneTensor(t), out;
  if (number > 0) {
    Tensor plain = Tensor::empty(storedAs(t.dtype()), t.sizes());
    copyTensor(plain, integersOf(t));
    out = quantizedAs(plain, t.dtype(), *Quantization::perTensor(number * q.scale, q.zeroPoint));
  } else if (number == 0) {
    out = quantizedAs(Tensor::zeros(storedAs(t.dtype()), t.sizes()), t.dtype(), *Quantization::perTensor(1, 0));
  } else {
    int64_t sum = static_cast<int64_t>(range.most) + range.least;
    Ref<Quantization> to = Quantization::perTensor(-number * q.scale, sum - q.zeroPoint);
    out = quantizeSteps(invokeTensor(call, "aten::neg", {stepsOf(t)}), t.dtype(), *to);
  }
  call.setResult(clampedToZero(call, out, kRelu));
}

// ---- joining ----

template <bool kRelu>
void catKernel(KernelCall& call) {
  std::vector<Tensor> parts = call.tensors(0), numbers;
  call.require(!parts.empty(), "expected tensors to join");
  for (const Tensor& t : parts) requireQuantized(call, t);
  const Quantization& first = quantizationOf(parts[0]);
  Ref<Quantization> to = Quantization::perTensor(call.isNone(2) ? first.scale : call.number(2),
                                                 call.isNone(3) ? first.zeroPoint : call.integer(3));
  checkGrid(parts[0].dtype(), to->scale, to->zeroPoint);
  for (const Tensor& t : parts) numbers.push_back(integersOf(quantize(dequantize(t), parts[0].dtype(), *to)));
  Tensor joined = invokeTensor(call, "aten::cat", {tensorList(std::move(numbers)), call.integer(1)});
  call.setResult(clampedToZero(call, quantizedAs(joined, parts[0].dtype(), *to), kRelu));
}

// ---- norms ----

// What a channel's steps are multiplied by and what is added, to be steps of the result.
struct ChannelLine {
  Tensor factor, shift;
};
// (x, weight, bias, mean, variance, eps, scale, zero point)
ChannelLine channelLine(const KernelCall& call, const Tensor& x, const Quantization& to) {
  const int64_t channels = x.size(1);
  auto parameter = [&](size_t i, float otherwise) {
    const Tensor t = call.isNone(i) ? Tensor() : contiguous(convertTensor(call.tensor(i), DType::Float32));
    call.require(!t.defined() || t.numel() == channels, "expected a number for each of {} channels", channels);
    std::vector<float> all(static_cast<size_t>(channels), otherwise);
    if (t.defined()) std::copy_n(t.data<float>(), channels, all.begin());
    return all;
  };
  const std::vector<float> weight = parameter(1, 1), bias = parameter(2, 0), mean = parameter(3, 0),
                           variance = parameter(4, 1);
  std::vector<int64_t> sizes(x.sizes().size() - 1, 1);
  sizes[0] = channels;
  ChannelLine line{Tensor::empty(DType::Float32, sizes), Tensor::empty(DType::Float32, sizes)};
  const auto scale = static_cast<float>(to.scale), ratio = static_cast<float>(quantizationOf(x).scale) / scale;
  for (size_t c = 0; c < weight.size(); ++c) {
    const float inverse = 1.0f / std::sqrt(variance[c] + static_cast<float>(call.number(5)));
    line.factor.data<float>()[c] = inverse * weight[c] * ratio;
    line.shift.data<float>()[c] = (bias[c] - mean[c] * inverse * weight[c]) / scale;
  }
  return line;
}

template <bool kRelu>
void batchNormKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  call.require(x.rank() >= 2, "expected channels in dimension 1 of {}", dimsText(x.sizes()));
  Ref<Quantization> to = gridAt(call, 6, x.dtype());
  const ChannelLine line = channelLine(call, x, *to);
  const int64_t inner = x.numel() == 0 ? 1 : x.numel() / (x.size(0) * x.size(1));
  Tensor steps = stepsOf(x), out = Tensor::empty(DType::Float32, x.sizes());
  for (int64_t i = 0; i < steps.numel(); ++i) {
    const int64_t c = i / inner % x.size(1);
    const float y = line.factor.data<float>()[c] * steps.data<float>()[i] + line.shift.data<float>()[c];
    out.data<float>()[i] = kRelu ? std::max(y, 0.0f) : y;
  }
  call.setResult(quantizeSteps(out, x.dtype(), *to));
}

// (x, shape or groups, weight, bias, eps, scale, zero point)
void layerNormKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(
      call,
      invokeTensor(call, "aten::layer_norm",
                   {dequantize(x), call.argument(1), call.argument(2), call.argument(3), call.number(4), false}),
      x.dtype(), 5);
}
void groupNormKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(
      call,
      invokeTensor(call, "aten::group_norm",
                   {dequantize(x), call.argument(1), call.argument(2), call.argument(3), call.number(4), false}),
      x.dtype(), 5);
}
void instanceNormKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(call,
               invokeTensor(call, "aten::instance_norm",
                            {dequantize(x), call.argument(1), call.argument(2), IValue(), IValue(), true, 0.1,
                             call.number(3), false}),
               x.dtype(), 4);
}

// ---- functions ----

// (x, scale, zero point)
template <const char* kOperator>
void functionKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(call, invokeTensor(call, kOperator, {dequantize(x)}), x.dtype(), 1);
}
constexpr char kSigmoid[] = "aten::sigmoid";
constexpr char kHardswish[] = "aten::hardswish";

void leakyReluKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(call, invokeTensor(call, "aten::leaky_relu", {dequantize(x), call.argument(1)}), x.dtype(), 3);
}
void eluKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(call,
               invokeTensor(call, "aten::elu", {dequantize(x), call.argument(3), call.argument(4), call.argument(5)}),
               x.dtype(), 1);
}
void celuKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(call, invokeTensor(call, "aten::celu", {dequantize(x), call.argument(3)}), x.dtype(), 1);
}
// The 1 of the grid of a quantised tensor.
Tensor oneOf(const Tensor& weight) {
  const float kOne[] = {1};
  return dequantize(quantize(Tensor::of<float>(Dims{}, kOne), weight.dtype(), quantizationOf(weight)));
}
// Modules have the weight quantised. What is positive is multiplied then by the 1 of the weight's grid, as in PyTorch,
// which may not reach so far.
void preluKernel(KernelCall& call) {
  Tensor x = call.tensor(0), weight = call.tensor(1);
  requireQuantized(call, x);
  if (!isQuantized(weight.dtype()))
    return setQuantized(call, invokeTensor(call, "aten::prelu", {dequantize(x), weight}), x.dtype(), 2);
  Tensor numbers = dequantize(x);
  Tensor positive =
      invokeTensor(call, "aten::mul.Tensor", {invokeTensor(call, "aten::relu", {numbers}), oneOf(weight)});
  Tensor negative = invokeTensor(call, "aten::clamp", {numbers, IValue(), 0});
  Tensor slopes = invokeTensor(call, "aten::prelu", {negative, dequantize(weight)});
  setQuantized(call, invokeTensor(call, "aten::add.Tensor", {positive, slopes, 1}), x.dtype(), 2);
}
void softmaxKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  setQuantized(call, invokeTensor(call, "aten::softmax.int", {dequantize(x), call.argument(1), IValue()}), x.dtype(),
               2);
}
// In evaluation the numbers are the same: only the grid may be another.
void dropoutKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  requireQuantized(call, x);
  call.require(!call.flag(4), "dropout of quantised tensors is not implemented for training");
  call.setResult(x);
}

// As the operator of the same name does with its own grid.
void relu6Kernel(KernelCall& call) {
  const char* name = call.flag(1) ? "aten::relu6_" : "aten::relu6";
  call.setResult(invoke(call, name, {call.argument(0)}));
}
void clampKernel(KernelCall& call) {
  call.setResult(invoke(call, "aten::clamp", {call.argument(0), call.argument(1), call.argument(2)}));
}
void thresholdKernel(KernelCall& call) {
  call.setResult(invoke(call, "aten::threshold", {call.argument(0), call.argument(1), call.argument(2)}));
}
void maxPool1dKernel(KernelCall& call) {
  call.setResult(invoke(
      call, "aten::max_pool1d",
      {call.argument(0), call.argument(1), call.argument(2), call.argument(3), call.argument(4), call.argument(5)}));
}
void maxPool2dKernel(KernelCall& call) {
  call.setResult(invoke(
      call, "aten::max_pool2d",
      {call.argument(0), call.argument(1), call.argument(2), call.argument(3), call.argument(4), call.argument(5)}));
}

// ---- in engines ----

bool areQuantized(const ConvertCall& call) {
  return isQuantizedTensor(call.argument(0)) && isQuantizedTensor(call.argument(1)) &&
         call.tensor(0).dtype() != DType::QInt32 && call.tensor(0).numel() > 0 && call.tensor(1).numel() > 0;
}

StepRange rangeFor(DType dtype, const Quantization& to, bool relu) {
  StepRange range = stepRange(dtype, to);
  if (relu) range.least = std::max(range.least, 0.0f);
  return range;
}

template <bool kRelu>
void convertAdd(ConvertCall& call) {
  if (!areQuantized(call)) return convertQuantizedToKernel(call);
  Tensor a = call.tensor(0), b = call.tensor(1);
  checkPair(call, a, b);
  Ref<Quantization> to = gridAt(call, 2, a.dtype());
  const StepRange range = rangeFor(a.dtype(), *to, kRelu);
  const auto scale = static_cast<float>(to->scale);
  auto fixed = FixedPointTerms::of(static_cast<float>(quantizationOf(a).scale) / scale,
                                   static_cast<float>(quantizationOf(b).scale) / scale, a.dtype());
  Tensor sum;
  if (fixed && fixed->shift <= 30 && sameSizes(a, b)) {
    FixedPointSum in32{static_cast<int32_t>(fixed->a), static_cast<int32_t>(fixed->b), fixed->shift, fixed->isSigned};
    sum = addSumOfSteps(call, a, b, in32, range);
  } else if (fixed && sameSizes(a, b)) {
    return convertQuantizedToKernel(call);
  } else {
    Tensor numbers = call.compute("aten::add.Tensor", {numbersIn(call, a), numbersIn(call, b), 1}).toTensor();
    sum = addRequantize(call, numbers, {1.0f / scale}, 1, range);
  }
  call.setResult(0, quantizedIn(call, sum, a.dtype(), *to));
}

template <bool kRelu>
void convertMul(ConvertCall& call) {
  if (!areQuantized(call)) return convertQuantizedToKernel(call);
  Tensor a = call.tensor(0), b = call.tensor(1);
  checkPair(call, a, b);
  Ref<Quantization> to = gridAt(call, 2, a.dtype());
  Tensor product = call.compute("aten::mul.Tensor", {stepsIn(a), stepsIn(b)}).toTensor();
  Tensor made = addRequantize(call, product, {factorOf(quantizationOf(a), quantizationOf(b), *to)}, 1,
                              rangeFor(a.dtype(), *to, kRelu));
  call.setResult(0, quantizedIn(call, made, a.dtype(), *to));
}

template <bool kRelu>
void convertCat(ConvertCall& call) {
  std::vector<Tensor> parts = call.tensors(0);
  bool good = !parts.empty() && parts[0].dtype() != DType::QInt32;
  for (const Tensor& t : parts) good &= isQuantized(t.dtype()) && t.dtype() == parts[0].dtype() && t.numel() > 0;
  if (!good) return convertQuantizedToKernel(call);
  DType dtype = parts[0].dtype();
  const Quantization& first = quantizationOf(parts[0]);
  Ref<Quantization> to = Quantization::perTensor(call.isNone(2) ? first.scale : call.number(2),
                                                 call.isNone(3) ? first.zeroPoint : call.integer(3));
  checkGrid(dtype, to->scale, to->zeroPoint);
  const float factor = 1.0f / static_cast<float>(to->scale);
  for (Tensor& t : parts)
    if (kRelu || !sameGrid(quantizationOf(t), *to))
      t = addRequantize(call, numbersIn(call, t).toTensor(), {factor}, 1, rangeFor(dtype, *to, kRelu));
    else
      t = stepsIn(t);
  Tensor joined = call.compute("aten::cat", {tensorList(std::move(parts)), call.integer(1)}).toTensor();
  call.setResult(0, quantizedIn(call, joined, dtype, *to));
}

// In evaluation the numbers are the same.
void convertDropout(ConvertCall& call) {
  if (call.flag(4)) return convertQuantizedToKernel(call);
  call.setResult(0, call.argument(0));
}

// Whether the first argument alone is computed, and is quantised.
bool isOfKnown(const ConvertCall& call) {
  if (!isQuantizedTensor(call.argument(0)) || call.tensor(0).dtype() == DType::QInt32) return false;
  for (size_t i = 1; i < call.size(); ++i)
    if (call.isNetworkTensor(i)) return false;
  return call.tensor(0).numel() > 0;
}

template <bool kRelu>
void convertBatchNorm(ConvertCall& call) {
  if (!isOfKnown(call) || call.tensor(0).rank() < 2) return convertQuantizedToKernel(call);
  const Tensor x = call.tensor(0);
  Ref<Quantization> to = gridAt(call, 6, x.dtype());
  const ChannelLine line = channelLine(call, x, *to);
  const IValue product = call.compute("aten::mul.Tensor", {stepsIn(x), line.factor});
  const Tensor sum = call.compute("aten::add.Tensor", {product, line.shift, 1}).toTensor();
  const Tensor made = addRequantize(call, sum, {1.0f}, 1, rangeFor(x.dtype(), *to, kRelu));
  call.setResult(0, quantizedIn(call, made, x.dtype(), *to));
}

// The sum of preluKernel, or of weights that are numbers their product.
void convertPrelu(ConvertCall& call) {
  if (!isOfKnown(call)) return convertQuantizedToKernel(call);
  const Tensor x = call.tensor(0), weight = call.tensor(1);
  Ref<Quantization> to = gridAt(call, 2, x.dtype());
  IValue numbers = numbersIn(call, x);
  if (isQuantized(weight.dtype())) {
    const IValue negative = call.compute("aten::clamp", {numbers, IValue(), 0});
    const IValue slopes = call.compute("aten::prelu", {negative, dequantize(weight)});
    const IValue positive = call.compute("aten::mul.Tensor", {call.compute("aten::relu", {numbers}), oneOf(weight)});
    numbers = call.compute("aten::add.Tensor", {positive, slopes, 1});
  } else {
    numbers = call.compute("aten::prelu", {numbers, weight});
  }
  call.setResult(0, addQuantize(call, numbers.toTensor(), x.dtype(), *to));
}

template <const char* kName, size_t kCount>
void convertAs(ConvertCall& call) {
  std::vector<IValue> arguments;
  for (size_t i = 0; i < kCount; ++i) arguments.push_back(call.argument(i));
  call.setResult(0, call.compute(kName, std::move(arguments)));
}
constexpr char kMaxPool1d[] = "aten::max_pool1d", kMaxPool2d[] = "aten::max_pool2d", kClamp[] = "aten::clamp",
               kThreshold[] = "aten::threshold";

}  // namespace

void registerQuantizedArithmeticOps(OpRegistry& ops) {
  auto addInferred = [&](std::string_view schema, InferFunction infer, KernelFunction kernel,
                         ConvertFunction convert = convertQuantizedToKernel) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = {}});
  };
  auto add = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert = convertQuantizedToKernel) {
    addInferred(schema, nullptr, kernel, convert);
  };
  for (const char* schema : {"quantized::add", "_quantized::add"})
    addInferred(schema, inferPair, addKernel<false>, convertAdd<false>);
  addInferred("quantized::add_relu", inferPair, addKernel<true>, convertAdd<true>);
  for (const char* schema : {"quantized::add.out", "quantized::add_out"}) add(schema, pairOutKernel<sumOf, false>);
  for (const char* schema : {"quantized::add_relu.out", "quantized::add_relu_out"})
    add(schema, pairOutKernel<sumOf, true>);
  addInferred("quantized::mul", inferPair, mulKernel<false>, convertMul<false>);
  addInferred("quantized::mul_relu", inferPair, mulKernel<true>, convertMul<true>);
  for (const char* schema : {"quantized::mul.out", "quantized::mul_out"}) add(schema, pairOutKernel<productOf, false>);
  for (const char* schema : {"quantized::mul_relu.out", "quantized::mul_relu_out"})
    add(schema, pairOutKernel<productOf, true>);
  add("quantized::matmul", matmulKernel);

  for (const char* schema : {"quantized::add.Scalar", "quantized::add_scalar", "quantized::add_scalar.Tensor"})
    addInferred(schema, inferSameAsSelf, addScalarKernel<false, 0>, convertByTable);
  for (const char* schema :
       {"quantized::add_relu.Scalar", "quantized::add_scalar_relu", "quantized::add_scalar_relu.Tensor"})
    addInferred(schema, inferSameAsSelf, addScalarKernel<true, 0>, convertByTable);
  add("quantized::add.Scalar2", addScalarKernel<false, 1>);
  add("quantized::add_relu.Scalar2", addScalarKernel<true, 1>);
  for (const char* schema : {"quantized::mul.Scalar", "quantized::mul_scalar", "quantized::mul_scalar.Tensor"})
    addInferred(schema, inferSameAsSelf, mulScalarKernel<false, 0>, convertByTable);
  for (const char* schema :
       {"quantized::mul_relu.Scalar", "quantized::mul_scalar_relu", "quantized::mul_scalar_relu.Tensor"})
    addInferred(schema, inferSameAsSelf, mulScalarKernel<true, 0>, convertByTable);
  add("quantized::mul.Scalar2", mulScalarKernel<false, 1>);
  add("quantized::mul_relu.Scalar2", mulScalarKernel<true, 1>);

  add("quantized::cat", catKernel<false>, convertCat<false>);
  add("quantized::cat_relu", catKernel<true>, convertCat<true>);

  for (const char* schema : {"quantized::batch_norm", "quantized::batch_norm1d", "quantized::batch_norm2d",
                             "quantized::batch_norm3d", "aten::quantized_batch_norm"})
    addInferred(schema, inferSameAsSelf, batchNormKernel<false>, convertBatchNorm<false>);
  for (const char* schema : {"quantized::batch_norm_relu", "quantized::batch_norm1d_relu",
                             "quantized::batch_norm2d_relu", "quantized::batch_norm3d_relu"})
    addInferred(schema, inferSameAsSelf, batchNormKernel<true>, convertBatchNorm<true>);
  addInferred("quantized::layer_norm", inferSameAsSelf, layerNormKernel);
  addInferred("quantized::group_norm", inferSameAsSelf, groupNormKernel);
  addInferred("quantized::instance_norm", inferSameAsSelf, instanceNormKernel);

  addInferred("quantized::sigmoid", inferSameAsSelf, functionKernel<kSigmoid>, convertByTable);
  addInferred("quantized::hardswish", inferSameAsSelf, functionKernel<kHardswish>, convertByTable);
  addInferred("quantized::leaky_relu", inferSameAsSelf, leakyReluKernel, convertByTable);
  addInferred("quantized::elu", inferSameAsSelf, eluKernel, convertByTable);
  addInferred("quantized::celu", inferSameAsSelf, celuKernel, convertByTable);
  addInferred("quantized::prelu", inferSameAsSelf, preluKernel, convertPrelu);
  addInferred("quantized::softmax", inferSameAsSelf, softmaxKernel);
  addInferred("quantized::dropout", inferSameAsSelf, dropoutKernel, convertDropout);
  ops.add({.schema = "quantized::relu6",
           .kernel = relu6Kernel,
           .convert = convertByTable,
           .dtypes = {},
           .traits = {Trait::MayShare},
           .trained = {.first = 0, .end = 1, .training = 1}});
  add("quantized::clamp", clampKernel, convertAs<kClamp, 3>);
  addInferred("quantized::threshold", inferSameAsSelf, thresholdKernel, convertAs<kThreshold, 3>);
  for (const char* schema : {"quantized::max_pool1d", "aten::quantized_max_pool1d"})
    add(schema, maxPool1dKernel, convertAs<kMaxPool1d, 6>);
  for (const char* schema : {"quantized::max_pool2d", "aten::quantized_max_pool2d"})
    add(schema, maxPool2dKernel, convertAs<kMaxPool2d, 6>);
}

}  // namespace tscompile
