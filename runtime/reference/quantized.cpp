#include "runtime/reference/quantized.h"

#include "ir/values/error.h"
#include "runtime/reference/loops/copy.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// Calls f with a value of the type that stores a quantised dtype.
template <class F>
void visitStored(DType quantized, F&& f) {
  switch (quantized) {
    case DType::QInt8:
      return f(int8_t{});
    case DType::QUInt8:
      return f(uint8_t{});
    case DType::QInt32:
      return f(int32_t{});
    default:
      throw ExecutionError(ErrorKind::Model, fmt::format("expected a quantised dtype, not {}", pythonName(quantized)));
  }
}

// Elements of a contiguous tensor by runs that share a channel: f(channel, begin, count).
template <class F>
void forEachRun(const Tensor& t, const Quantization& q, F&& f) {
  if (q.isPerTensor()) return f(0, 0, t.numel());
  if (q.axis >= t.rank() || t.size(static_cast<int>(q.axis)) != q.scales.numel())
    throw ExecutionError(ErrorKind::Model, fmt::format("the tensor {} has {} scales along dimension {}",
                                                       dimsText(t.sizes()), q.scales.numel(), q.axis));
  int64_t channels = q.scales.numel(), inner = 1;
  for (auto d = static_cast<size_t>(q.axis) + 1; d < t.sizes().size(); ++d) inner *= t.sizes()[d];
  if (channels == 0 || inner == 0) return;
  for (int64_t at = 0, run = 0; at < t.numel(); at += inner, ++run) f(run % channels, at, inner);
}

double scaleAt(const Quantization& q, int64_t channel) { return q.isPerTensor() ? q.scale : q.scales.real(channel); }
// Files may say anything: integers stay within 32 bits.
double zeroAt(const Quantization& q, int64_t channel) {
  double zero = q.isPerTensor() ? static_cast<double>(q.zeroPoint) : q.zeroPoints.real(channel);
  constexpr double kMost = std::numeric_limits<int32_t>::max();
  return std::isnan(zero) ? 0 : std::clamp(zero, -kMost, kMost);
}

Tensor integersFrom(const Tensor& x, DType quantized, const Quantization& q, auto rounding) {
  Tensor from = convertTensor(x, DType::Float32), out = Tensor::empty(storedAs(quantized), x.sizes());
  const float* in = from.data<float>();
  visitStored(quantized, [&]<class T>(T) {
    T* to = out.data<T>();
    forEachRun(from, q, [&](int64_t channel, int64_t begin, int64_t count) {
      auto round = rounding(channel);
      for (int64_t i = begin; i < begin + count; ++i) to[i] = static_cast<T>(round(in[i]));
    });
  });
  return quantizedAs(out, quantized, q);
}

}  // namespace

IntegerRange rangeOf(DType quantized) {
  IntegerRange r{};
  visitStored(quantized, [&]<class T>(T) { r = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()}; });
  return r;
}

Rounding::Rounding(DType quantized, double scale, int64_t zeroPoint)
    : inverse_(1.0f / static_cast<float>(scale)), range_(rangeOf(quantized)), zero_(zeroPoint) {
  least_ = static_cast<double>(range_.least) - static_cast<double>(zeroPoint);
  most_ = static_cast<double>(range_.most) - static_cast<double>(zeroPoint);
}

int32_t Rounding::step(float x) const {
  double rounded = std::nearbyint(x);
  // NaN becomes the least, and so does what 64 bits do not hold, as the processor converts it.
  if (!(rounded > least_) || rounded >= 0x1p63) return range_.least;
  if (rounded >= most_) return range_.most;
  return static_cast<int32_t>(static_cast<int64_t>(rounded) + zero_);
}

void checkGrid(DType quantized, double scale, int64_t zeroPoint) {
  IntegerRange range = rangeOf(quantized);
  if (zeroPoint < range.least || zeroPoint > range.most)
    throw ExecutionError(ErrorKind::Model, fmt::format("zero_point {} is outside of {}, whose integers are {} to {}",
                                                       zeroPoint, pythonName(quantized), range.least, range.most));
  if (!(scale > 0) || std::isinf(scale))
    throw ExecutionError(ErrorKind::Model, fmt::format("a scale is a number above 0, not {}", scale));
}

Tensor quantize(const Tensor& x, DType quantized, const Quantization& q) {
  if (q.scheme == Quantization::Scheme::PerChannelAffineFloatParams) {
    // The zero point is no integer: it is added before rounding.
    return integersFrom(x, quantized, q, [&](int64_t channel) {
      auto scale = static_cast<float>(scaleAt(q, channel)), zero = static_cast<float>(zeroAt(q, channel));
      float inverse = scale == 0 ? 1.0f : 1.0f / scale;
      return [=, step = Rounding(quantized, 1, 0)](float v) { return step.step(v * inverse + zero); };
    });
  }
  return integersFrom(x, quantized, q, [&](int64_t channel) {
    return Rounding(quantized, scaleAt(q, channel), static_cast<int64_t>(zeroAt(q, channel)));
  });
}

Tensor quantizeSteps(const Tensor& steps, DType quantized, const Quantization& q) {
  return integersFrom(steps, quantized, q, [&](int64_t channel) {
    return [r = Rounding(quantized, 1, static_cast<int64_t>(zeroAt(q, channel)))](float v) { return r.step(v); };
  });
}

Tensor dequantize(const Tensor& t) {
  const Quantization& q = quantizationOf(t);
  Tensor from = contiguous(t), out = Tensor::empty(DType::Float32, t.sizes());
  float* to = out.data<float>();
  bool isFloat = q.scheme == Quantization::Scheme::PerChannelAffineFloatParams;
  visitStored(t.dtype(), [&]<class T>(T) {
    const T* in = from.data<T>();
    forEachRun(from, q, [&](int64_t channel, int64_t begin, int64_t count) {
      auto scale = static_cast<float>(scaleAt(q, channel));
      if (isFloat) {
        auto zero = static_cast<float>(zeroAt(q, channel));
        for (int64_t i = begin; i < begin + count; ++i) to[i] = (static_cast<float>(in[i]) - zero) * scale;
      } else {
        auto zero = static_cast<int64_t>(zeroAt(q, channel));
        for (int64_t i = begin; i < begin + count; ++i) to[i] = static_cast<float>(in[i] - zero) * scale;
      }
    });
  });
  return out;
}

Tensor stepsOf(const Tensor& t, DType dtype) {
  const Quantization& q = quantizationOf(t);
  Tensor from = contiguous(t), out = Tensor::empty(dtype, t.sizes());
  auto write = [&]<class To>(To* to) {
    visitStored(t.dtype(), [&]<class T>(T) {
      const T* in = from.data<T>();
      forEachRun(from, q, [&](int64_t channel, int64_t begin, int64_t count) {
        auto zero = static_cast<To>(zeroAt(q, channel));
        for (int64_t i = begin; i < begin + count; ++i) to[i] = static_cast<To>(in[i]) - zero;
      });
    });
  };
  if (dtype == DType::Float64)
    write(out.data<double>());
  else
    write(out.data<float>());
  return out;
}

Ref<Quantization> chooseGrid(float least, float most, int32_t qmin, int32_t qmax, bool isSymmetric) {
  if (!(least <= most)) throw ExecutionError(ErrorKind::Model, "numbers to be quantised are in no order");
  isSymmetric = isSymmetric && least < 0.0f && most > 0.0f;
  if (isSymmetric) {  // as many steps on each side, and one more below
    const auto above = static_cast<float>((qmax - qmin) / 2), below = above + 1;
    const double step = std::max(std::abs(least / below), std::abs(most / above));
    least = static_cast<float>(-step * static_cast<double>(below));
    most = static_cast<float>(step * static_cast<double>(above));
  }
  least = std::min(least, 0.0f);
  most = std::max(most, 0.0f);
  double steps = qmax - qmin, scale = (static_cast<double>(most) - least) / steps;
  auto brief = static_cast<float>(scale);
  if (brief == 0.0f || std::isinf(1.0f / brief)) scale = 0.1;
  constexpr float kLeastScale = 6.1e-5f;
  if (scale < kLeastScale) {
    auto before = static_cast<float>(scale);
    scale = kLeastScale;
    if (least == 0.0f) {
      most = kLeastScale * static_cast<float>(steps);
    } else if (most == 0.0f) {
      least = -kLeastScale * static_cast<float>(steps);
    } else {
      float more = kLeastScale / before;
      least *= more;
      most *= more;
    }
  }
  // The zero point from the bound that loses less by rounding, moved to an integer.
  double fromLeast = qmin - least / scale, fromMost = qmax - most / scale;
  double leastError = std::abs(qmin) - std::abs(least / scale), mostError = std::abs(qmax) - std::abs(most / scale);
  double zero = isSymmetric ? (qmin + qmax) / 2.0 : leastError < mostError ? fromLeast : fromMost;
  int64_t rounded = zero < qmin ? qmin : zero > qmax ? qmax : static_cast<int64_t>(std::nearbyint(zero));
  return Quantization::perTensor(scale, rounded);
}

Ref<Quantization> chooseGrid(const Tensor& x, bool isReduced) {
  Tensor from = convertTensor(x, DType::Float32);
  float least = 0, most = 0;
  const float* in = from.data<float>();
  for (int64_t i = 0; i < from.numel(); ++i) {
    if (i == 0) least = most = in[0];
    if (std::isnan(in[i])) throw ExecutionError(ErrorKind::Model, "numbers to be quantised are NaN");
    least = std::min(least, in[i]);
    most = std::max(most, in[i]);
  }
  return chooseGrid(least, most, 0, isReduced ? 127 : 255);
}

}  // namespace tscompile
