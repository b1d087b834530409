// Variance and standard deviation, with or without the mean.
#include "runtime/engine/layers/variance_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"
#include "runtime/reference/reduction_call.h"

#include <Eigen/Core>

#include <cmath>

namespace tscompile {
namespace {

using C128 = std::complex<double>;

template <class T>
using Array = Eigen::Array<T, Eigen::Dynamic, 1>;

// Reducers; all compute in double. T is double or complex.
template <class T>
struct MeanOf {
  using In = T;
  using Part = T;
  using Acc = T;
  using Out = T;
  T startPart() const { return T(0); }
  T start() const { return T(0); }
  T run(const T* p, int64_t n) const { return Eigen::Map<const Array<T>>(p, n).sum(); }
  void rows(T* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) into[i] += row[i];
  }
  void add(T& into, const T& part) const { into += part; }
  // PyTorch updates a mean with each element, real and imaginary parts apart: once it is infinite, its next difference
  // to an element is NaN.
  T finish(const T& sum, int64_t count) const {
    auto mean = [&](double part) {
      return count > 1 && !std::isfinite(part) ? std::numeric_limits<double>::quiet_NaN()
                                               : part / static_cast<double>(count);
    };
    if constexpr (std::is_same_v<T, C128>)
      return {mean(sum.real()), mean(sum.imag())};
    else
      return mean(sum);
  }
};

inline double squared(double v) { return v * v; }
inline double squared(const C128& v) { return v.real() * v.real() + v.imag() * v.imag(); }

// Squared deviations from the mean, which a first walk has found.
template <class T>
struct Variance {
  double correction;
  bool root;  // the standard deviation
  using In = T;
  using Given = T;
  using Part = double;
  using Acc = double;
  using Out = double;
  double startPart() const { return 0; }
  double start() const { return 0; }
  double run(const T* p, int64_t n, T mean) const { return (Eigen::Map<const Array<T>>(p, n) - mean).abs2().sum(); }
  void rows(double* into, const T* row, int64_t n, const T* mean) const {
    for (int64_t i = 0; i < n; ++i) into[i] += squared(row[i] - mean[i]);
  }
  void add(double& into, double part) const { into += part; }
  double finish(double sum, int64_t count) const {
    if (count == 0) return std::numeric_limits<double>::quiet_NaN();
    double v = sum / std::max(static_cast<double>(count) - correction, 0.0);
    return root ? std::sqrt(v) : v;
  }
};

double correctionOf(const KernelCall& call) {
  size_t i = argumentIndex(call.op(), "correction");
  if (i < call.size()) return call.isNone(i) ? 1 : call.number(i);
  return call.flag(argumentIndex(call.op(), "unbiased"));
}

template <class T>
void varianceInto(const Tensor& in, const Dims& dims, const Tensor& out, const Tensor& mean,
                  const Variance<T>& variance) {
  Tensor means = Tensor::empty(kDTypeOf<T>, out.sizes());
  reduceInto(in, dims, means, MeanOf<T>());
  reduceInto(in, dims, out, variance, means.data<T>());
  if (mean.defined()) copyTensor(mean, means);
}

template <bool kRoot, bool kWithMean>
void varianceKernel(KernelCall& call) {
  ReductionCall r(call);
  Tensor mean = kWithMean ? call.out(1) : Tensor();
  const double correction = correctionOf(call);
  if (isComplex(r.in.dtype()))
    varianceInto<C128>(r.in, r.dims, r.out, mean, {correction, kRoot});
  else
    varianceInto<double>(r.in, r.dims, r.out, mean, {correction, kRoot});
}

template <bool kRoot>
void convert(ConvertCall& call) {
  convertVariance(call, reducedDims(call, call.tensor(0).rank()), correctionOf(call), kRoot);
}

void inferVariance(InferCall& call) { inferReduction(call, realPart(call.tensor(0).dtype)); }
void inferVarianceAndMean(InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  inferReductions(call, {realPart(dtype), dtype});
}

template <bool kRoot>
void addOps(OpRegistry& ops, std::initializer_list<std::string_view> plain,
            std::initializer_list<std::string_view> withMean) {
  constexpr DTypeSet kTypes = kFloatingTypes | kComplexTypes;
  for (auto schema : plain)
    ops.add({.schema = schema,
             .infer = inferVariance,
             .kernel = varianceKernel<kRoot, false>,
             .convert = convert<kRoot>,
             .dtypes = kTypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
  for (auto schema : withMean)
    ops.add({.schema = schema,
             .infer = inferVarianceAndMean,
             .kernel = varianceKernel<kRoot, true>,
             .convert = convert<kRoot>,
             .dtypes = kTypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
}

}  // namespace

void registerReductionMomentsOps(OpRegistry& ops) {
  addOps<false>(ops, {"aten::var", "aten::var.dim", "aten::var.correction"},
                {"aten::var_mean", "aten::var_mean.dim", "aten::var_mean.correction"});
  addOps<true>(ops, {"aten::std", "aten::std.dim", "aten::std.correction"},
               {"aten::std_mean", "aten::std_mean.dim", "aten::std_mean.correction"});
}

}  // namespace tscompile
