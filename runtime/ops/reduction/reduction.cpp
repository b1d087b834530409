// Sums, means, products, counts, any and all: reductions over some or all dimensions.
#include "runtime/engine/layers/reduction_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tensor_math.h"
#include "runtime/reference/extrema.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/reduce.h"
#include "runtime/reference/reduction_call.h"

#include <Eigen/Core>

#include <cmath>
#include <cstring>

namespace tscompile {
namespace {

using C128 = std::complex<double>;

template <class T>
bool isNan(const T& v) {
  if constexpr (std::is_floating_point_v<T>)
    return v != v;
  else
    return false;
}

// ---- sum, nansum, mean ----

template <class T>
T addUp(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return wrapAdd(a, b);
  else
    return a + b;
}

// Floats are summed up in blocks whose sums are added in double, so that long sums stay accurate.
template <class T, bool kSkipNan>
struct Sum {
  using In = T;
  using Part = T;
  using Acc = std::conditional_t<std::is_same_v<T, float>, double, T>;
  using Out = T;
  T startPart() const { return T(0); }
  Acc start() const { return Acc(0); }
  T run(const T* p, int64_t n) const {
    if constexpr (std::is_floating_point_v<T>) {
      Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> x(p, n);
      if constexpr (kSkipNan)
        return (x == x).select(x, T(0)).sum();
      else
        return x.sum();
    } else {
      T s(0);
      for (int64_t i = 0; i < n; ++i) s = addUp(s, p[i]);
      return s;
    }
  }
  void add(Acc& into, const T& part) const { into = addUp(into, static_cast<Acc>(part)); }
  void rows(T* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) into[i] = addUp(into[i], kSkipNan && isNan(row[i]) ? T(0) : row[i]);
  }
  T finish(const Acc& acc, int64_t) const { return static_cast<T>(acc); }
};

// Rounded once, as since PyTorch 2.
template <class T>
struct Mean : Sum<T, false> {
  using typename Sum<T, false>::Acc;
  T finish(const Acc& acc, int64_t count) const {
    if constexpr (std::is_same_v<T, int64_t>)
      return count ? acc / count : 0;
    else
      return static_cast<T>(acc) / static_cast<T>(static_cast<double>(count));
  }
};

template <bool kSkipNan>
void sumKernel(KernelCall& call) {
  ReductionCall r(call);
  Tensor in = r.in;
  if (kSkipNan && isFloating(in.dtype()) && !isFloating(r.out.dtype()))  // which have no NaN to skip
    in = invokeTensor(call, "aten::masked_fill.Scalar", {in, invokeTensor(call, "aten::isnan", {in}), 0});
  in = convertedFor(in, r.out.dtype());
  withCompute(r.out.dtype(), [&](auto sample) { reduceInto(in, r.dims, r.out, Sum<decltype(sample), kSkipNan>()); });
}

void meanKernel(KernelCall& call) {
  ReductionCall r(call);
  // What has a mean of 16 bits is not rounded first, as it is for sums.
  const bool isRead = !isComplex(r.in.dtype()) && itemSize(r.out.dtype()) == 2;
  Tensor in = isRead ? r.in : convertedFor(r.in, r.out.dtype());
  withCompute(r.out.dtype(), [&](auto sample) { reduceInto(in, r.dims, r.out, Mean<decltype(sample)>()); });
}

// Integers and bool are summed up as int64.
DType sumType(DType dtype) { return isIntegral(dtype, true) ? DType::Int64 : dtype; }

void inferSum(InferCall& call) { inferReduction(call, reductionDType(call, sumType)); }

void inferNanSum(InferCall& call) {
  DType in = call.tensor(0).dtype, dtype = reductionDType(call, sumType);
  call.require(!isComplex(in), "nansum on CPU does not support complex inputs");
  call.require(!isComplex(dtype), "\"nansum_cpu\" not implemented for '{}'", graphName(dtype));
  inferReduction(call, dtype);
}

void inferMean(InferCall& call) {
  DType dtype = reductionDType(call, [](DType d) { return d; });
  call.require(
      !isIntegral(dtype, true),
      "mean(): could not infer output dtype. {} dtype must be either a floating point or complex dtype. Got: {}",
      isIntegral(call.tensor(0).dtype, true) ? "Input" : "Optional", graphName(dtype));
  inferReduction(call, dtype);
}

// ---- nanmean ----

template <class T>
struct NanMean {
  struct Part {
    T sum;
    int64_t count;
  };
  using In = T;
  struct Acc {
    double sum;
    int64_t count;
  };
  using Out = T;
  Part startPart() const { return {0, 0}; }
  Acc start() const { return {0, 0}; }
  Part run(const T* p, int64_t n) const {
    Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> x(p, n);
    return {(x == x).select(x, T(0)).sum(), static_cast<int64_t>((x == x).count())};
  }
  void rows(Part* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) {
      into[i].sum += isNan(row[i]) ? T(0) : row[i];
      into[i].count += !isNan(row[i]);
    }
  }
  void add(Acc& into, const Part& part) const {
    into.sum += static_cast<double>(part.sum);
    into.count += part.count;
  }
  T finish(const Acc& acc, int64_t) const { return static_cast<T>(acc.sum / static_cast<double>(acc.count)); }
};

void inferNanMean(InferCall& call) {
  DType in = call.tensor(0).dtype;
  call.require(isFloating(in) || in == DType::Undefined,
               "nanmean(): expected input to have floating point or complex dtype but got {}", graphName(in));
  DType dtype = reductionDType(call, [](DType d) { return d; });
  call.require(isFloating(dtype) || dtype == DType::Undefined, "nanmean of {} cannot give {}", pythonName(in),
               pythonName(dtype));
  inferReduction(call, dtype);
}

void nanMeanKernel(KernelCall& call) {
  ReductionCall r(call);
  Tensor in = convertedFor(r.in, r.out.dtype());
  if (r.out.dtype() == DType::Float64)
    reduceInto(in, r.dims, r.out, NanMean<double>());
  else
    reduceInto(in, r.dims, r.out, NanMean<float>());
}

// ---- both in engines: what is NaN is 0 in sums ----

// Whether sums of the dtype that is asked for skip elements of it.
bool skipsNanInLayers(const ConvertCall& call) {
  const DType dtype = call.tensor(0).dtype();
  return (dtype == DType::Float32 || dtype == DType::Float64) && call.spec().dtype == dtype &&
         call.tensor(0).numel() > 0;
}
IValue sumOf(ConvertCall& call, const IValue& x, const IValue& dtype) {
  return call.compute("aten::sum.dim_IntList", {x, call.argument(1), call.argument(2), dtype});
}

void convertNanSum(ConvertCall& call) {
  if (!skipsNanInLayers(call)) return convertToKernel(call, "it is neither float32 nor float64, or empty");
  const IValue x = call.argument(0), isNan = call.compute("aten::isnan", {x});
  call.setResult(0, sumOf(call, call.compute("aten::masked_fill.Scalar", {x, isNan, 0.0}), IValue()));
}

void convertNanMean(ConvertCall& call) {
  if (!skipsNanInLayers(call)) return convertToKernel(call, "it is neither float32 nor float64, or empty");
  const IValue x = call.argument(0), isNan = call.compute("aten::isnan", {x});
  const IValue sum = sumOf(call, call.compute("aten::masked_fill.Scalar", {x, isNan, 0.0}), IValue());
  const IValue count = sumOf(call, call.compute("aten::logical_not", {isNan}), IValue());
  call.setResult(0, call.compute("aten::div.Tensor", {sum, count}));
}

// ---- prod ----

// Floats are multiplied in double.
template <class T>
struct ProductReduction {
  using In = T;
  using Part = T;
  using Acc = T;
  using Out = T;
  T startPart() const { return T(1); }
  T start() const { return T(1); }
  T run(const T* p, int64_t n) const {
    T product(1);
    for (int64_t i = 0; i < n; ++i) add(product, p[i]);
    return product;
  }
  void rows(T* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) add(into[i], row[i]);
  }
  void add(T& into, const T& part) const {
    if constexpr (std::is_same_v<T, int64_t>)
      into = wrapMul(into, part);
    else
      into *= part;
  }
  T finish(const T& acc, int64_t) const { return acc; }
};

void prodKernel(KernelCall& call) {
  ReductionCall r(call);
  Tensor in = convertedFor(r.in, r.out.dtype());
  switch (computeTypeOf(r.out.dtype())) {
    case Compute::F32:
    case Compute::F64:
      return reduceInto(in, r.dims, r.out, ProductReduction<double>());
    case Compute::C128:
      return reduceInto(in, r.dims, r.out, ProductReduction<C128>());
    default:
      return reduceInto(in, r.dims, r.out, ProductReduction<int64_t>());
  }
}

// ---- any, all, count_nonzero ----

// Any element that is kSought; whether there is none, for all().
template <bool kSought>
struct Find {
  using In = bool;
  using Part = uint8_t;
  using Acc = uint8_t;
  using Out = int64_t;
  uint8_t startPart() const { return 0; }
  uint8_t start() const { return 0; }
  uint8_t run(const bool* p, int64_t n) const { return std::memchr(p, kSought, static_cast<size_t>(n)) != nullptr; }
  void rows(uint8_t* into, const bool* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) into[i] |= row[i] == kSought;
  }
  void add(uint8_t& into, uint8_t part) const { into |= part; }
  int64_t finish(uint8_t found, int64_t) const { return (found != 0) == kSought; }
};

struct Count {
  using In = bool;
  using Part = uint32_t;
  using Acc = int64_t;
  using Out = int64_t;
  uint32_t startPart() const { return 0; }
  int64_t start() const { return 0; }
  uint32_t run(const bool* p, int64_t n) const {
    uint32_t count = 0;
    for (int64_t i = 0; i < n; ++i) count += p[i];
    return count;
  }
  void rows(uint32_t* into, const bool* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) into[i] += row[i];
  }
  void add(int64_t& into, uint32_t part) const { into += part; }
  int64_t finish(int64_t count, int64_t) const { return count; }
};

template <bool kSought>
void findKernel(KernelCall& call) {
  ReductionCall r(call);
  // As bools, complex numbers are what their real parts are.
  reduceInto(isComplex(r.in.dtype()) ? convertTensor(r.in, DType::Bool) : r.in, r.dims, r.out, Find<kSought>());
}
void countKernel(KernelCall& call) {
  ReductionCall r(call);
  reduceInto(r.in, r.dims, r.out, Count());
}

// uint8 is what bool was once.
void inferAnyAll(InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  inferReduction(call, dtype == DType::UInt8 || dtype == DType::Undefined ? dtype : DType::Bool);
}
void inferCount(InferCall& call) { inferReduction(call, DType::Int64); }

// ---- logsumexp ----

template <class T>
struct SumOfExp {
  using In = T;
  using Given = T;  // the largest element
  using Part = T;
  using Acc = double;
  using Out = double;
  T startPart() const { return 0; }
  double start() const { return 0; }
  T run(const T* p, int64_t n, T most) const {
    return (Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(p, n) - most).exp().sum();
  }
  void rows(T* into, const T* row, int64_t n, const T* most) const {
    using Array = Eigen::Array<T, Eigen::Dynamic, 1>;
    Eigen::Map<Array>(into, n) += (Eigen::Map<const Array>(row, n) - Eigen::Map<const Array>(most, n)).exp();
  }
  void add(double& into, T part) const { into += static_cast<double>(part); }
  double finish(double sum, int64_t) const { return std::log(sum); }
};

void inferLogSumExp(InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  inferReduction(call, dtype == DType::Undefined ? dtype : toFloating(dtype));
  // PyTorch adds the largest elements without the dimensions that they leave, and no list leaves them all. Without
  // elements it adds none.
  const TensorInfo t = call.tensor(0);
  const bool hasElements = t.hasRank && std::ranges::all_of(t.sizes, [](int64_t s) { return s > 0 && isKnownSize(s); });
  if (hasElements && t.rank() && call.constant(1) && call.integers(1).empty() && !call.flag(2))
    call.fail("output with shape [] doesn't match the broadcast shape {}", dimsText(Dims(t.rank(), 1)));
}

template <class T>
void logSumExp(const Tensor& in, const Dims& dims, const Tensor& out) {
  Tensor most = Tensor::empty(kDTypeOf<T>, out.sizes()), sums = Tensor::empty(DType::Float64, out.sizes());
  reduceInto(in, dims, most, Extreme<T, true>());
  const T* m = most.data<T>();
  reduceInto(in, dims, sums, SumOfExp<T>(), m);
  double* s = sums.data<double>();
  for (int64_t i = 0; i < sums.numel(); ++i) s[i] = std::isinf(m[i]) ? m[i] : s[i] + m[i];
  copyTensor(out, sums);
}

// Of complex numbers: log(sum(exp(x - most))) + most, where that is the largest real part if it is finite.
Tensor complexLogSumExp(const KernelCall& call) {
  const Tensor x = call.tensor(0);
  const IValue dims = call.argument(1), keeps = call.argument(2);
  TensorMath math(call);
  auto logOfSum = [&](const Tensor& t) {
    Tensor exps = invokeTensor(call, "aten::exp", {t});
    return invokeTensor(call, "aten::log",
                        {invokeTensor(call, "aten::sum.dim_IntList", {exps, dims, keeps, IValue()})});
  };
  if (x.numel() == 0) return logOfSum(x);
  const Tensor real = invokeTensor(call, "aten::real", {x});
  auto finite = [&](const IValue& keepsDims) {
    Tensor most = invokeTensor(call, "aten::amax", {real, dims, keepsDims});
    return invokeTensor(call, "aten::masked_fill.Scalar", {most, invokeTensor(call, "aten::isinf", {most}), 0.0});
  };
  return math.add(logOfSum(math.sub(x, finite(true))), finite(keeps));
}

void logSumExpKernel(KernelCall& call) {
  if (isComplex(call.tensor(0).dtype())) return call.setResult(complexLogSumExp(call));
  ReductionCall r(call);
  if (r.out.dtype() == DType::Float64)
    logSumExp<double>(r.in, r.dims, r.out);
  else
    logSumExp<float>(r.in, r.dims, r.out);
}

}  // namespace

void registerReductionOps(OpRegistry& ops) {
  for (auto schema : {"aten::sum", "aten::sum.dim_IntList"})
    ops.add({.schema = schema,
             .infer = inferSum,
             .kernel = sumKernel<false>,
             .convert = convertReduction<WideReduction::Sum>,
             .dtypes = kAllTypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
  ops.add({.schema = "aten::nansum",
           .infer = inferNanSum,
           .kernel = sumKernel<true>,
           .convert = convertNanSum,
           .dtypes = kAllTypes,
           .traits = {Trait::RoundsOnce},
           .cost = Cost::Reduction});
  for (auto schema : {"aten::mean", "aten::mean.dim"})
    ops.add({.schema = schema,
             .infer = inferMean,
             .kernel = meanKernel,
             .convert = convertReduction<WideReduction::Mean>,
             .dtypes = kAllTypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
  ops.add({.schema = "aten::nanmean",
           .infer = inferNanMean,
           .kernel = nanMeanKernel,
           .convert = convertNanMean,
           .cost = Cost::Reduction});
  for (auto schema : {"aten::prod", "aten::prod.dim_int"})
    ops.add({.schema = schema,
             .infer = inferSum,
             .kernel = prodKernel,
             .convert = convertReduction<WideReduction::Product>,
             .dtypes = kAllTypes,
             .cost = Cost::Reduction});
  for (auto schema :
       {"aten::any", "aten::any.dim", "aten::any.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"})
    ops.add({.schema = schema,
             .infer = inferAnyAll,
             .kernel = findKernel<true>,
             .convert = convertReduction<WideReduction::Any>,
             .dtypes = kAllTypes,
             .cost = Cost::Reduction});
  for (auto schema :
       {"aten::all", "aten::all.dim", "aten::all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor"})
    ops.add({.schema = schema,
             .infer = inferAnyAll,
             .kernel = findKernel<false>,
             .convert = convertReduction<WideReduction::All>,
             .dtypes = kAllTypes,
             .cost = Cost::Reduction});
  for (auto schema : {"aten::count_nonzero", "aten::count_nonzero.dim_IntList"})
    ops.add({.schema = schema,
             .infer = inferCount,
             .kernel = countKernel,
             .convert = convertReduction<WideReduction::Count>,
             .dtypes = kAllTypes,
             .cost = Cost::Reduction});
  for (auto schema : {"aten::logsumexp", "aten::special_logsumexp"})
    ops.add({.schema = schema,
             .infer = inferLogSumExp,
             .kernel = logSumExpKernel,
             .convert = convertReduction<WideReduction::LogSumExp>,
             .dtypes = kAllTypes,
             .traits = {Trait::RoundsOnce},
             .cost = Cost::Reduction});
}

}  // namespace tscompile
