// Quantization and back in one step, which leaves floats that an integer type could hold.
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/quantization_grid.h"
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

// ---- with an observer, as models have it that are trained for quantization ----
// (self, observer_on, fake_quant_on, running_min, running_max, scale, zero_point, averaging_const, quant_min,
// quant_max, ch_axis, per_row_fake_quant, symmetric_quant)

constexpr size_t kLeastAt = 3, kMostAt = 4, kScaleAt = 5, kZeroAt = 6;  // the state
constexpr size_t kObservedRange = 8, kAxis = 10, kPerRow = 11, kSymmetric = 12;

// The helper gives the mask as well, and in its functional form the state, which it leaves as it is.
template <bool kMask, bool kState>
void inferObserved(InferCall& call) {
  if (call.constant(kObservedRange) && call.constant(kObservedRange + 1)) rangeAt(call, kObservedRange);
  TensorInfo t = call.tensor(0);
  call.result(t);
  if constexpr (kMask) call.result(t, DType::Bool);
  if constexpr (kState)
    for (size_t i = kLeastAt; i <= kZeroAt; ++i) call.result(call.tensor(i));
}

struct Bounds {
  std::vector<float> least, most;
};

// Of all elements, or of each row.
Bounds boundsOf(const Tensor& x, int64_t rows) {
  const Tensor from = contiguous(x);
  const int64_t inner = rows == 0 ? 0 : from.numel() / rows;
  Bounds out;
  for (int64_t r = 0; r < rows; ++r) {
    const float* row = from.data<float>() + r * inner;
    float least = row[0], most = row[0];
    for (int64_t i = 0; i < inner; ++i) {
      if (std::isnan(row[i]) || std::isnan(least)) {
        least = most = std::numeric_limits<float>::quiet_NaN();
        break;
      }
      least = std::min(least, row[i]);
      most = std::max(most, row[i]);
    }
    out.least.push_back(least);
    out.most.push_back(most);
  }
  return out;
}

void moveTowards(float& running, float now, float part) {
  running = std::isinf(running) ? now : running + part * (now - running);
}

// A copy that may be written to.
Tensor floatsAt(const KernelCall& call, size_t i, DType dtype = DType::Float32) {
  Tensor t = call.tensor(i);
  call.require(t.dtype() == dtype, "argument {} must be {}, not {}", i + 1, pythonName(dtype), pythonName(t.dtype()));
  return cloneTensor(contiguous(t));
}

template <bool kMask, bool kState>
void observedKernel(KernelCall& call) {
  const Range range = rangeAt(call, kObservedRange);
  const Tensor x = call.tensor(0);
  call.require(x.dtype() == DType::Float32, "expected float32, but found {}", pythonName(x.dtype()));
  const bool perRow = call.flag(kPerRow), observes = numberOf(operandTensor(call, 1)).toDouble() != 0,
             quantizes = numberOf(operandTensor(call, 2)).toDouble() != 0;
  Tensor least = floatsAt(call, kLeastAt), most = floatsAt(call, kMostAt), scale = floatsAt(call, kScaleAt);
  const DType zeroType = call.tensor(kZeroAt).dtype();
  Tensor zero = convertTensor(call.tensor(kZeroAt), DType::Int64);
  if (zeroType == DType::Int64) zero = cloneTensor(zero);
  if (observes) {
    if (perRow) {
      call.require(call.integer(kAxis) == 0,
                   "Per-channel FakeQuant in fused_moving_avg_obs_fake_quant is only supported on axis == 0");
      call.require(x.rank() > 0, "the rows of a tensor without dimensions cannot be observed");
    }
    const int64_t rows = perRow ? x.size(0) : 1;
    if (perRow && least.numel() == 0) {  // nothing was observed before
      least = Tensor::empty(DType::Float32, Dims{rows});
      fillTensor(least, std::numeric_limits<double>::infinity());
      most = Tensor::empty(DType::Float32, Dims{rows});
      fillTensor(most, -std::numeric_limits<double>::infinity());
      scale = Tensor::zeros(DType::Float32, Dims{rows});
      zero = Tensor::zeros(DType::Int64, Dims{rows});
    }
    call.require(x.numel() > 0, "there is nothing to observe in a tensor of size {}", dimsText(x.sizes()));
    call.require(least.numel() == rows && most.numel() == rows,
                 "running_min and running_max must have {} elements, not {} and {}", rows, least.numel(), most.numel());
    const Bounds now = boundsOf(x, rows);
    const auto part = static_cast<float>(call.number(7));
    for (int64_t i = 0; i < rows; ++i) {
      moveTowards(least.data<float>()[i], now.least[static_cast<size_t>(i)], part);
      moveTowards(most.data<float>()[i], now.most[static_cast<size_t>(i)], part);
    }
  }
  if (quantizes) {
    const int64_t count = perRow ? least.numel() : 1;
    call.require(least.numel() == count && most.numel() == count && scale.numel() >= count && zero.numel() >= count,
                 "scale and zero_point must have {} elements, as running_min has", count);
    for (int64_t i = 0; i < count; ++i) {
      const Ref<Quantization> grid =
          chooseGrid(std::min(least.data<float>()[i], 0.0f), std::max(most.data<float>()[i], 0.0f),
                     static_cast<int32_t>(range.least), static_cast<int32_t>(range.most), call.flag(kSymmetric));
      scale.data<float>()[i] = static_cast<float>(grid->scale);
      zero.data<int64_t>()[i] = grid->zeroPoint;
    }
    Dims sizes;
    if (perRow) {
      const int64_t axis = call.integer(kAxis);
      call.require(axis >= 0 && axis < x.rank() && x.size(axis) == scale.numel(),
                   "scale and zero_point must have an element for each index of dimension {}", axis);
      sizes = Dims(static_cast<size_t>(x.rank()), 1);
      sizes[static_cast<size_t>(axis)] = scale.numel();
    }
    const Tensor zeros = convertTensor(zero, DType::Float32);
    quantizeAll<kMask>(call, perRow ? reshaped(scale, sizes) : reshaped(narrowed(scale, 0, 0, 1), sizes),
                       perRow ? reshaped(zeros, sizes) : reshaped(narrowed(zeros, 0, 0, 1), sizes), range);
  } else {
    call.setResult(0, cloneTensor(x));
    if constexpr (kMask) fillTensor(call.out(1), true);
  }
  const Tensor state[] = {least, most, scale, convertTensor(zero, zeroType)};
  for (size_t i = 0; i < 4; ++i) {
    if constexpr (kState)
      call.setResult(i + 2, state[i]);
    else if (Tensor to = call.tensor(kLeastAt + i); !to.storage()->readOnly() && to.numel() == state[i].numel())
      copyTensor(to,
                 reshaped(state[i], Dims(to.sizes().begin(),
                                         to.sizes().end())));  // weights of the model stay as they are: runs share them
  }
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
  add("aten::fused_moving_avg_obs_fake_quant", inferObserved<false, false>, observedKernel<false, false>);
  add("aten::_fused_moving_avg_obs_fq_helper", inferObserved<true, false>, observedKernel<true, false>);
  add("aten::_fused_moving_avg_obs_fq_helper_functional", inferObserved<true, true>, observedKernel<true, true>);
  add("aten::_fake_quantize_learnable_per_channel_affine", inferPerChannel<false>, perChannelKernel<false, true>);
}

}  // namespace tscompile
