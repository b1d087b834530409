// Sums, products, extrema, norms: reductions over some or all dimensions.
#include <cmath>
#include <limits>

#include <Eigen/Core>

#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/reduce.h"

namespace tscompile {
namespace {

using C128 = std::complex<double>;

// Runs `f<T>` with the compute type of a dtype.
template <class F>
void withCompute(DType dtype, F&& f) {
  switch (computeTypeOf(dtype)) {
    case Compute::F32: return f(float{});
    case Compute::F64: return f(double{});
    case Compute::C128: return f(C128{});
    default: return f(int64_t{});
  }
}

// ---- sum, mean ----

template <class T>
struct Sum {
  using In = T;
  using Out = T;
  using Acc = T;
  double divisor = 1;  // of a mean: the count, or 0 to divide by it
  T start() const { return T(0); }
  T run(const T* p, int64_t n) const {
    if constexpr (std::is_floating_point_v<T>) {
      // Pairs of blocks, so that the error grows with the logarithm of the length.
      if (n > 1024) {
        int64_t half = (n / 2 + 15) / 16 * 16;
        return run(p, half) + run(p + half, n - half);
      }
      return Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(p, n).sum();
    } else {
      T s(0);
      for (int64_t i = 0; i < n; ++i) add(s, p[i]);
      return s;
    }
  }
  void add(T& into, const T& part) const {
    if constexpr (std::is_same_v<T, int64_t>)
      into = static_cast<int64_t>(static_cast<uint64_t>(into) + static_cast<uint64_t>(part));
    else
      into += part;
  }
  void rows(T* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) add(into[i], row[i]);
  }
  T finish(const T& acc, int64_t count) const {
    if (divisor != 0) return acc;
    if constexpr (std::is_same_v<T, int64_t>)
      return acc;
    else
      return acc / static_cast<decltype(std::abs(T()))>(count);
  }
};

void sumInto(const Tensor& in, const Dims& dims, const Tensor& out, DType computeAs, bool mean) {
  withCompute(computeAs, [&](auto sample) {
    using T = decltype(sample);
    reduceInto(in, dims, out, Sum<T>{mean ? 0.0 : 1.0});
  });
}

// Integers and bool are summed up as int64.
DType sumType(DType dtype) { return isIntegral(dtype, true) ? DType::Int64 : dtype; }

void inferSumAll(InferCall& call) { call.result(call.dtypeOr(1, sumType(call.tensor(0).dtype)), Dims{}); }
void sumAllKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  Dims all;
  for (int d = 0; d < t.rank(); ++d) all.push_back(d);
  sumInto(t, all, out, out.dtype(), false);
}

void inferSumDims(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  DType dtype = call.dtypeOr(3, sumType(t.dtype));
  call.result(dtype, reducedSizes(t.sizes, call.dims(1, t.rank(), true), call.flag(2)));
}
void sumDimsKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  sumInto(t, call.dims(1, t.rank(), true), out, out.dtype(), false);
}

void requireFloating(const InferCall& call, DType dtype) {
  call.require(!isIntegral(dtype, true), "mean(): could not infer output dtype. Input dtype must be either a floating point or "
               "complex dtype. Got: {}", graphName(dtype));
}
void inferMeanAll(InferCall& call) {
  DType dtype = call.dtypeOr(1, call.tensor(0).dtype);
  requireFloating(call, dtype);
  call.result(dtype, Dims{});
}
void meanAllKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  Dims all;
  for (int d = 0; d < t.rank(); ++d) all.push_back(d);
  sumInto(t, all, out, out.dtype(), true);
}
void inferMeanDims(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  DType dtype = call.dtypeOr(3, t.dtype);
  requireFloating(call, dtype);
  call.result(dtype, reducedSizes(t.sizes, call.dims(1, t.rank(), true), call.flag(2)));
}
void meanDimsKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  sumInto(t, call.dims(1, t.rank(), true), out, out.dtype(), true);
}

}  // namespace

void registerReductionOps(OpRegistry& ops) {
  ops.add({.schema = "aten::sum(Tensor self, *, ScalarType? dtype=None) -> Tensor",
           .infer = inferSumAll, .kernel = sumAllKernel, .dtypes = kAllTypes});
  ops.add({.schema = "aten::sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           .infer = inferSumDims, .kernel = sumDimsKernel, .dtypes = kAllTypes});
  ops.add({.schema = "aten::mean(Tensor self, *, ScalarType? dtype=None) -> Tensor",
           .infer = inferMeanAll, .kernel = meanAllKernel, .dtypes = kAllTypes});
  ops.add({.schema = "aten::mean.dim(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> Tensor",
           .infer = inferMeanDims, .kernel = meanDimsKernel, .dtypes = kAllTypes});
}

}  // namespace tscompile
