// Running sums, products, maxima and minima along a dimension.
#include "runtime/engine/layers/lane_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/lanes.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/reduction_call.h"
#include "runtime/reference/special/complex_log.h"

#include <cmath>

namespace tscompile {
namespace {

// ---- cumsum, cumprod ----

void inferCumulative(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dim(1, t.rank());
  if (call.op().isInPlaceVariant() && t.dtype != DType::Undefined) {
    call.require(call.dtypeOr(2, t.dtype) == t.dtype, "expected the dtype {} of the tensor, but got {}",
                 pythonName(t.dtype), pythonName(call.dtypeOr(2, t.dtype)));
    return call.result(t);
  }
  call.result(t, call.dtypeOr(2, isIntegral(t.dtype, true) ? DType::Int64 : t.dtype));
}

template <class T, class Acc>
void cumulativeSum(const T* in, int64_t n, T* out) {
  Acc sum(0);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_same_v<T, int64_t>)
      sum = wrapAdd(sum, in[i]);
    else
      sum += in[i];
    out[i] = static_cast<T>(sum);
  }
}
template <class T, class Acc>
void cumulativeProduct(const T* in, int64_t n, T* out) {
  Acc product(1);
  for (int64_t i = 0; i < n; ++i) {
    product = times(product, static_cast<Acc>(in[i]));
    out[i] = static_cast<T>(product);
  }
}

template <bool kProduct>
void cumulativeKernel(KernelCall& call) {
  Tensor out = call.out(), in = convertedFor(call.tensor(0), out.dtype());
  int64_t dim = call.dim(1, in.rank());
  if (out.dtype() == DType::Bool && in.rank() && in.numel()) throw DTypeRefused(DType::Bool);
  // float32 is accumulated in double.
  if (out.dtype() == DType::Float32)
    return mapLanes<float, float>(in, out, dim,
                                  kProduct ? cumulativeProduct<float, double> : cumulativeSum<float, double>);
  withCompute(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    mapLanes<T, T>(in, out, dim, kProduct ? cumulativeProduct<T, T> : cumulativeSum<T, T>);
  });
}

// ---- cummax, cummin ----

void inferCumulativeExtremes(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dim(1, t.rank());
  call.result(t);
  call.result(t, DType::Int64);
}

// Of equal elements the last counts; NaN stays.
template <bool kLargest, class T>
void cumulativeExtreme(const T* in, int64_t n, T* values, int64_t* indices) {
  if (n == 0) return;
  T best = in[0];
  int64_t index = 0;
  for (int64_t i = 0; i < n; ++i) {
    bool more = kLargest ? in[i] >= best : in[i] <= best;
    if (more || in[i] != in[i]) {
      best = in[i];
      index = i;
    }
    values[i] = best;
    indices[i] = index;
  }
}

template <bool kLargest>
void cumulativeExtremesKernel(KernelCall& call) {
  Tensor in = call.tensor(0), values = call.out(0), indices = call.out(1);
  int64_t dim = call.dim(1, in.rank());
  withRealCompute(in.dtype(), [&](auto sample) {
    using T = decltype(sample);
    forEachLane(cumulativeExtreme<kLargest, T>, Lanes<T>(in, dim), Lanes<T>(values, dim), Lanes<int64_t>(indices, dim));
  });
}

// ---- logcumsumexp ----

double logAddExp(double a, double b) {
  double low = std::isnan(b) ? b : std::min(a, b), high = std::isnan(b) ? b : std::max(a, b);
  if (low == high && !std::isfinite(low)) return a;
  return std::log1p(std::exp(low - high)) + high;
}

template <class T>
void logCumulativeSumExp(const T* in, int64_t n, T* out) {
  double sum = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < n; ++i) {
    sum = logAddExp(static_cast<double>(in[i]), sum);
    out[i] = static_cast<T>(sum);
  }
}

// The number of the larger real part is taken out; what has NaN is larger than all.
Complex128 logAddExp(Complex128 a, Complex128 b) {
  auto isUndefined = [](Complex128 z) { return std::isnan(z.real()) || std::isnan(z.imag()); };
  if (isUndefined(a) || isUndefined(b)) return Complex128(NAN, NAN);
  const Complex128 low = a.real() < b.real() ? a : b, high = a.real() < b.real() ? b : a;
  if (low.real() == high.real() && std::isinf(low.real()))
    return low.real() < 0 ? low : std::log(std::exp(low) + std::exp(high));
  return complexLog1p(std::exp(low - high)) + high;
}

void logCumulativeSumExpComplex(const Complex128* in, int64_t n, Complex128* out) {
  Complex128 sum = -HUGE_VAL;
  for (int64_t i = 0; i < n; ++i) out[i] = sum = logAddExp(in[i], sum);
}

void inferLogCumulative(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dim(1, t.rank());
  call.result(t);
}
void logCumulativeKernel(KernelCall& call) {
  Tensor in = call.tensor(0), out = call.out();
  int64_t dim = call.dim(1, in.rank());
  if (isComplex(in.dtype()))
    mapLanes<Complex128, Complex128>(in, out, dim, logCumulativeSumExpComplex);
  else if (in.dtype() == DType::Float64)
    mapLanes<double, double>(in, out, dim, logCumulativeSumExp<double>);
  else
    mapLanes<float, float>(in, out, dim, logCumulativeSumExp<float>);
}

}  // namespace

void registerScanOps(OpRegistry& ops) {
  ops.add({.schema = "aten::cumsum",
           .infer = inferCumulative,
           .kernel = cumulativeKernel<false>,
           .convert = convertRunningTotal<false>,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::RoundsOnce}});
  ops.add({.schema = "aten::cumprod",
           .infer = inferCumulative,
           .kernel = cumulativeKernel<true>,
           .convert = convertRunningTotal<true>,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::RoundsOnce}});
  ops.add({.schema = "aten::cummax",
           .infer = inferCumulativeExtremes,
           .kernel = cumulativeExtremesKernel<true>,
           .convert = convertRunningExtremes<true>,
           .traits = {Trait::RoundsOnce}});
  ops.add({.schema = "aten::cummin",
           .infer = inferCumulativeExtremes,
           .kernel = cumulativeExtremesKernel<false>,
           .convert = convertRunningExtremes<false>,
           .traits = {Trait::RoundsOnce}});
  for (auto schema : {"aten::logcumsumexp", "aten::_logcumsumexp"})
    ops.add({.schema = schema,
             .infer = inferLogCumulative,
             .kernel = logCumulativeKernel,
             .convert = convertRunningLog,
             .dtypes = kFloatingTypes | kComplexTypes});
}

}  // namespace tscompile
