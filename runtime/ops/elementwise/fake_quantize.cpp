// Quantization and back in one step, which leaves floats that an integer type could hold.
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

struct Range {
  int64_t least, most;
};

// quant_min and quant_max.
template <class Call>
Range rangeAt(const Call& call, size_t at) {
  Range r{call.integer(at), call.integer(at + 1)};
  call.require(r.least <= r.most, "quant_min ({}) should be less than or equal to quant_max ({})", r.least, r.most);
  return r;
}

template <size_t kRange, bool kMask>
void inferFakeQuantize(InferCall& call) {
  if (call.constant(kRange) && call.constant(kRange + 1)) rangeAt(call, kRange);
  TensorInfo t = call.tensor(0);
  call.result(t);
  if constexpr (kMask) call.result(t, DType::Bool);
}

// The integer that stands for x.
template <class T>
int64_t quantized(T x, T scale, T zero) {
  return truncatedInt(static_cast<double>(zero == std::trunc(zero) ? zero + std::nearbyint(x * (T(1) / scale))
                                                                   : std::nearbyint(zero + x * (T(1) / scale))));
}

// Scales and zero points are tensors that broadcast to the input.
template <bool kMask>
void quantizeAll(KernelCall& call, const Tensor& scale, const Tensor& zero, Range range) {
  Tensor x = call.tensor(0), out = elementwiseOutput(call, {&x});
  if constexpr (kMask)
    mapTensors<kFloats>(
        x.dtype(),
        [=](auto v, auto s, auto z) {
          int64_t q = quantized(v, s, z);
          return range.least <= q && q <= range.most;
        },
        call.out(1), x, scale, zero);
  mapTensors<kFloats>(
      x.dtype(),
      [=](auto v, auto s, auto z) {
        using T = decltype(v);
        return (static_cast<T>(std::clamp(quantized(v, s, z), range.least, range.most)) - z) * s;
      },
      out, x, scale, zero);
}

// ---- one scale for all: numbers, or tensors of one element ----

Tensor parameterAt(const KernelCall& call, size_t i) {
  Tensor t = operandTensor(call, i);
  call.require(t.numel() == 1, "argument {} must have one element, not {}", i + 1, t.numel());
  return convertTensor(reshaped(t, Dims{}), DType::Float32);
}

template <size_t kRange, bool kMask>
void perTensorKernel(KernelCall& call) {
  Range range = rangeAt(call, kRange);
  if (kRange > 3 && numberOf(parameterAt(call, 3)).toDouble() == 0) {  // fake_quant_enabled
    call.setResult(0, cloneTensor(call.tensor(0)));
    fillTensor(call.out(1), true);
    return;
  }
  Tensor zero = parameterAt(call, 2);
  double z = numberOf(zero).toDouble();
  call.require(z >= static_cast<double>(range.least) && z <= static_cast<double>(range.most),
               "zero_point ({}) must be between quant_min ({}) and quant_max ({})", z, range.least, range.most);
  quantizeAll<kMask>(call, parameterAt(call, 1), zero, range);
}

// Rounds zero points and brings them into the range.
Tensor roundedInto(const Tensor& zero, Range range) {
  Tensor z = Tensor::empty(DType::Float32, zero.sizes());
  mapTensors<kF32>(
      DType::Float32,
      [=](float v) {
        return std::clamp(std::nearbyint(v), static_cast<float>(range.least), static_cast<float>(range.most));
      },
      z, zero);
  return z;
}

void learnablePerTensorKernel(KernelCall& call) {
  Range range = rangeAt(call, 3);
  quantizeAll<false>(call, parameterAt(call, 1), roundedInto(parameterAt(call, 2), range), range);
}

// ---- one scale for each index of a dimension: (self, scale, zero_point, axis, quant_min, quant_max) ----

template <bool kMask>
void inferPerChannel(InferCall& call) {
  inferFakeQuantize<4, kMask>(call);
  TensorInfo t = call.tensor(0), scale = call.tensor(1), zero = call.tensor(2);
  if (!t.hasRank || !scale.hasRank || !zero.hasRank || !call.constant(3)) return;
  int64_t axis = call.integer(3);
  call.require(axis >= 0 && axis < static_cast<int64_t>(t.rank()),
               "axis {} is not between 0 and the number of dimensions, {}", axis, t.rank());
  call.require(scale.rank() == 1 && zero.rank() == 1, "scale and zero_point must have one dimension, not {} and {}",
               scale.rank(), zero.rank());
  int64_t channels = t.sizes[static_cast<size_t>(axis)];
  for (int64_t count : {scale.sizes[0], zero.sizes[0]})
    call.require(count == channels || !isKnownSize(count) || !isKnownSize(channels),
                 "scale and zero_point must have {} elements as the input has channels, not {}", channels, count);
}

template <bool kMask, bool kLearnable>
void perChannelKernel(KernelCall& call) {
  Range range = rangeAt(call, 4);
  Tensor zero = convertTensor(call.tensor(2), DType::Float32);
  if (kLearnable) zero = roundedInto(zero, range);
  for (int64_t i = 0; i < zero.numel(); ++i) {
    double z = zero.data<float>()[i];
    call.require(z >= static_cast<double>(range.least) && z <= static_cast<double>(range.most),
                 "zero_point ({}) must be between quant_min ({}) and quant_max ({})", z, range.least, range.most);
  }
  Dims sizes(static_cast<size_t>(call.tensor(0).rank()), 1);
  sizes[static_cast<size_t>(call.integer(3))] = zero.numel();
  quantizeAll<kMask>(call, reshaped(call.tensor(1), sizes), reshaped(zero, sizes), range);
}

// ---- in engines ----

// Of float32, in the order of `quantized`. Scale and zero point are known and broadcast to the input.
void addSteps(ConvertCall& call, const Tensor& scale, const Tensor& zero, Range range) {
  constexpr int64_t kMostExact = int64_t{1} << 24;  // a float is each integer up to there
  const Tensor x = call.tensor(0);
  if (x.dtype() != DType::Float32) return convertToKernel(call, "an operand is not float32");
  if (range.least < -kMostExact || range.most > kMostExact) return convertToKernel(call, "the range is beyond 24 bits");
  for (int64_t i = 0; i < zero.numel(); ++i) {
    const auto z = static_cast<double>(zero.data<float>()[i]);
    if (z != std::trunc(z) || z < static_cast<double>(range.least) || z > static_cast<double>(range.most))
      return convertToKernel(call, "a zero point is no integer of the range");
  }
  auto one = [&](std::string_view op, const IValue& a) { return call.compute(op, {a}); };
  auto two = [&](std::string_view op, const IValue& a, const IValue& b) { return call.compute(op, {a, b}); };
  IValue q = one("aten::round", two("aten::mul.Tensor", x, one("aten::reciprocal", scale)));
  q = two("aten::add.Tensor", q, zero);
  // What no integer holds, NaN with it, is the least one.
  q = call.compute("aten::where.ScalarOther", {two("aten::lt.Scalar", q, 0x1p63), q, static_cast<double>(range.least)});
  q = call.compute("aten::clamp", {q, static_cast<double>(range.least), static_cast<double>(range.most)});
  call.setResult(0, two("aten::mul.Tensor", two("aten::sub.Tensor", q, zero), scale));
}

// The argument, if it is known, as float32.
std::optional<Tensor> knownFloats(const ConvertCall& call, size_t i) {
  if (call.isNetworkTensor(i)) return std::nullopt;
  return convertTensor(contiguous(operandTensor(call, i)), DType::Float32);
}

template <bool kPerChannel>
void convert(ConvertCall& call) {
  std::optional<Tensor> scale = knownFloats(call, 1), zero = knownFloats(call, 2);
  if (!scale || !zero) return convertToKernel(call, "scale or zero point is an input");
  Dims sizes;
  if (kPerChannel) {
    sizes = Dims(static_cast<size_t>(call.tensor(0).rank()), 1);
    sizes[static_cast<size_t>(call.integer(3))] = zero->numel();
  }
  if (scale->numel() != zero->numel() || (!kPerChannel && zero->numel() != 1) || call.tensor(0).numel() == 0)
    return convertToKernel(call, "the sizes do not fit");
  addSteps(call, reshaped(*scale, sizes), reshaped(*zero, sizes), rangeAt(call, kPerChannel ? 4 : 3));
}

}  // namespace

void registerFakeQuantizeOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr) {
    ops.add({.schema = name, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = kFloatingTypes});
  };
  add("aten::fake_quantize_per_tensor_affine", inferFakeQuantize<3, false>, perTensorKernel<3, false>, convert<false>);
  add("aten::fake_quantize_per_tensor_affine.tensor_qparams", inferFakeQuantize<3, false>, perTensorKernel<3, false>,
      convert<false>);
  add("aten::fake_quantize_per_tensor_affine_cachemask", inferFakeQuantize<3, true>, perTensorKernel<3, true>);
  add("aten::_fake_quantize_per_tensor_affine_cachemask_tensor_qparams", inferFakeQuantize<4, true>,
      perTensorKernel<4, true>);
  add("aten::_fake_quantize_learnable_per_tensor_affine", inferFakeQuantize<3, false>, learnablePerTensorKernel);
  add("aten::fake_quantize_per_channel_affine", inferPerChannel<false>, perChannelKernel<false, false>, convert<true>);
  add("aten::fake_quantize_per_channel_affine_cachemask", inferPerChannel<true>, perChannelKernel<true, false>);
  add("aten::_fake_quantize_learnable_per_channel_affine", inferPerChannel<false>, perChannelKernel<false, true>);
}

}  // namespace tscompile
