// Norms of vectors and matrices.
#include "runtime/engine/network/convert_call.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tensor_math.h"
#include "runtime/reference/extrema.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/reduce.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/reduction_call.h"

#include <Eigen/Core>

#include <cmath>

namespace tscompile {
namespace {

using C128 = std::complex<double>;

// ---- the loops ----

// How magnitudes are joined: counted, summed up as they are, squared or raised to a power, or the extreme one is taken.
enum class Order { Zero, One, Two, Power, Largest, Smallest };

// A reducer; see reduceInto. Sums are rounded to `dtype` before the root is taken, so that they overflow where
// PyTorch's do.
template <class T, Order kOrder>
struct Norm {
  static constexpr bool kComplex = std::is_same_v<T, C128>;
  static constexpr bool kExtreme = kOrder == Order::Largest || kOrder == Order::Smallest;
  using Real = std::conditional_t<kComplex, double, T>;
  using In = T;
  using Part = Real;
  using Acc = double;
  using Out = Real;
  double order;
  DType dtype;

  Real startPart() const { return static_cast<Real>(start()); }
  double start() const { return kOrder == Order::Smallest ? std::numeric_limits<double>::infinity() : 0; }
  Real run(const T* p, int64_t n) const {
    Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>> x(p, n);
    if constexpr (kOrder == Order::Zero) return static_cast<Real>((x != T(0)).count());
    if constexpr (kOrder == Order::One) return x.abs().sum();
    if constexpr (kOrder == Order::Two) return x.abs2().sum();
    if constexpr (kOrder == Order::Power) return x.abs().pow(static_cast<Real>(order)).sum();
    Real part = startPart();
    for (int64_t i = 0; i < n; ++i) join(part, term(p[i]));
    return part;
  }
  void rows(Real* into, const T* row, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) join(into[i], term(row[i]));
  }
  void add(double& into, Real part) const { join(into, static_cast<double>(part)); }
  Real finish(double acc, int64_t) const {
    double sum = dtype == DType::Float64 ? acc : static_cast<double>(static_cast<float>(acc));
    if (kOrder == Order::Two) return static_cast<Real>(std::sqrt(sum));
    if (kOrder == Order::Power) return static_cast<Real>(std::pow(sum, 1 / order));
    return static_cast<Real>(sum);
  }

 private:
  Real term(const T& v) const {
    if constexpr (kOrder == Order::Zero) return v != T(0);
    if constexpr (kOrder == Order::Two) return Eigen::numext::abs2(v);
    if constexpr (kOrder == Order::Power) return std::pow(std::abs(v), static_cast<Real>(order));
    return std::abs(v);
  }
  template <class U>
  static void join(U& into, U v) {
    if constexpr (kExtreme)
      into = beats<kOrder == Order::Largest>(v, into) ? v : into;
    else
      into += v;
  }
};

template <class T>
void normOf(const Tensor& in, DimSpan dims, const Tensor& out, double order) {
  auto reduce = [&]<Order kOrder>() { reduceInto(in, dims, out, Norm<T, kOrder>{order, out.dtype()}); };
  if (order == 0) return reduce.template operator()<Order::Zero>();
  if (order == 1) return reduce.template operator()<Order::One>();
  if (order == 2) return reduce.template operator()<Order::Two>();
  if (!std::isinf(order)) return reduce.template operator()<Order::Power>();
  order > 0 ? reduce.template operator()<Order::Largest>() : reduce.template operator()<Order::Smallest>();
}

// Into the contiguous `out`, whose dtype is real.
void vectorNorm(const Tensor& in, DimSpan dims, const Tensor& out, double order) {
  if (isComplex(in.dtype())) return normOf<C128>(in, dims, out, order);
  in.dtype() == DType::Float64 ? normOf<double>(in, dims, out, order) : normOf<float>(in, dims, out, order);
}

Dims listed(int rank) {
  Dims all;
  for (int64_t d = 0; d < rank; ++d) all.push_back(d);
  return all;
}

bool isFloatingOrComplex(DType d) { return isFloating(d) || isComplex(d); }

// ---- linalg_vector_norm ----

// The dtype that a norm is computed in: the argument `dtype`, or the input's.
DType normDType(const InferCall& call) {
  std::string_view name = call.op().kind().text();
  DType in = call.tensor(0).dtype, dtype = reductionDType(call, [](DType d) { return d; });
  if (in == DType::Undefined || dtype == DType::Undefined) return dtype;
  if (!isFloatingOrComplex(in))
    call.fail("linalg.{}: Expected a floating point or complex tensor as input. Got {}",
              call.op().kind().name().ends_with("matrix_norm") ? "matrix_norm" : "vector_norm", graphName(in));
  call.require(isFloatingOrComplex(dtype), "{}: dtype should be floating point or complex, but got {}", name,
               pythonName(dtype));
  call.require(isComplex(in) == isComplex(dtype), "{}: dtype should be {} for {} inputs, but got {}", name,
               isComplex(in) ? "complex" : "real", isComplex(in) ? "complex" : "real", pythonName(dtype));
  call.require(promoteTypes(in, dtype) == dtype,
               "{}: the dtype of the input ({}) should be convertible without narrowing to the specified dtype ({})",
               name, pythonName(in), pythonName(dtype));
  return dtype;
}

// The order, which must be a real number; 2 for None.
double orderArgument(const KernelCall& call) {
  if (call.isNone(1)) return 2;
  call.require(!call.argument(1).isComplex(), "the order of a norm must be a real number");
  return call.number(1);
}

void inferVectorNorm(InferCall& call) { inferReduction(call, realPart(normDType(call))); }

// Orders that have no value for no elements.
void requireElements(const KernelCall& call, const Tensor& in, const Dims& dims, double order) {
  if (in.numel() != 0 || (order >= 0 && order != std::numeric_limits<double>::infinity())) return;
  bool named = false;
  for (int64_t d : dims) named |= in.sizes()[d] == 0;
  bool all = call.isNone(2) || call.integers(2).empty();
  call.require(!all && !named,
               "cannot compute the {} norm on an empty tensor because the operation does not have an identity", order);
}

void runVectorNorm(KernelCall& call, double order) {
  ReductionCall r(call);
  requireElements(call, r.in, r.dims, order);
  DType dtype = isComplex(r.in.dtype()) ? complexOf(r.out.dtype()) : r.out.dtype();
  vectorNorm(convertTensor(r.in, dtype), r.dims, r.out, order);
}
void vectorNormKernel(KernelCall& call) { runVectorNorm(call, orderArgument(call)); }

// As operators on f32 or f64: sums of powers of magnitudes, or an extreme one of these.
IValue normInNetwork(ConvertCall& call, const Tensor& x, double order, const IValue& dims, const IValue& keep) {
  auto sum = [&](const IValue& v) { return call.compute("aten::sum.dim_IntList", {v, dims, keep, IValue()}); };
  if (order == 2) return call.compute("aten::sqrt", {sum(call.compute("aten::mul.Tensor", {x, x}))});
  if (order == 0) {
    const IValue count = sum(call.compute("aten::ne.Scalar", {x, 0.0}));
    return call.compute("aten::to.dtype", {count, static_cast<int64_t>(x.dtype()), false, false, IValue()});
  }
  const IValue magnitudes = call.compute("aten::abs", {x});
  if (order == 1) return sum(magnitudes);
  if (std::isinf(order)) return call.compute(order > 0 ? "aten::amax" : "aten::amin", {magnitudes, dims, keep});
  const IValue powers = call.compute("aten::pow.Tensor_Scalar", {magnitudes, order});
  return call.compute("aten::pow.Tensor_Scalar", {sum(powers), 1 / order});
}
void convertVectorNorm(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if ((x.dtype() != DType::Float32 && x.dtype() != DType::Float64) || call.spec().dtype != x.dtype())
    return convertToKernel(call, "it is neither float32 nor float64, or gives another dtype");
  if (x.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  const bool all = call.size() < 4 || call.isNone(2);
  IValue dims = all ? intList(Dims()) : call.argument(2), keep = call.size() < 4 ? IValue(false) : call.argument(3);
  call.setResult(0, normInNetwork(call, x, orderArgument(call), dims, keep));
}

// ---- renorm: slices along a dimension whose norm is above maxnorm are scaled down to it ----

void inferRenorm(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  call.require(!isComplex(call.scalarType(1)), "renorm: p must be real-valued");
  call.require(call.number(1) > 0, "renorm: non-positive norm not supported");
  call.require(x.rank() > 1, "renorm: input needs at least 2 dimensions, got {} dimensions", x.rank());
  call.dim(2, x.rank());
  call.require(!isComplex(call.scalarType(3)), "renorm: maxnorm must be real-valued");
  call.require(call.number(3) >= 0, "renorm: expected maxnorm to be >= 0 but got {}", call.number(3));
  call.result(x);
}
void renormKernel(KernelCall& call) {
  Tensor x = call.tensor(0);
  const double most = call.number(3);
  const DType dtype = realPart(x.dtype()), accumulated = dtype == DType::Float64 ? dtype : DType::Float32;
  Dims dims = listed(x.rank()), sizes(static_cast<size_t>(x.rank()), 1);
  const int64_t kept = call.dim(2, x.rank());
  dims.erase(static_cast<size_t>(kept));
  sizes[kept] = x.size(kept);
  call.require(!std::isinf(call.number(1)) || x.numel() != 0 || x.size(kept) == 0,
               "cannot compute the inf norm on a dimension that is empty");
  Tensor factor = Tensor::empty(accumulated, sizes);
  vectorNorm(x, dims, factor, call.number(1));
  auto scale = [&]<class T>(T* norms) {
    for (int64_t i = 0; i < factor.numel(); ++i)
      norms[i] = norms[i] > static_cast<T>(most) ? static_cast<T>(most) / (norms[i] + static_cast<T>(1e-7)) : T(1);
  };
  accumulated == DType::Float64 ? scale(factor.data<double>()) : scale(factor.data<float>());
  const Tensor rows = Tensor::empty(x.dtype(), x.sizes());
  copyTensor(rows, invokeTensor(call, "aten::mul.Tensor", {x, convertTensor(factor, dtype)}));
  call.setResult(rows);
}
void convertRenorm(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (x.dtype() != DType::Float32) return convertToKernel(call, "an argument is not float32");
  if (x.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  Dims dims = listed(x.rank());
  dims.erase(static_cast<size_t>(call.dim(2, x.rank())));
  const IValue norm = normInNetwork(call, x, call.number(1), intList(dims), true);
  const IValue most = call.number(3);
  IValue scaled =
      call.compute("aten::mul.Scalar",
                   {call.compute("aten::reciprocal", {call.compute("aten::add.Scalar", {norm, 1e-7, 1})}), most});
  IValue factor = call.compute("aten::where.ScalarOther", {call.compute("aten::gt.Scalar", {norm, most}), scaled, 1.0});
  call.setResult(0, call.compute("aten::mul.Tensor", {x, factor}));
}

// ---- norm ----

// Older than linalg_vector_norm: any floating or complex dtype may be asked for, and the norm of nothing is 0.
void inferNorm(InferCall& call) {
  DType in = call.tensor(0).dtype, dtype = reductionDType(call, realPart);
  bool given = argumentIndex(call.op(), "dtype") < call.size();
  call.require(given || in == DType::Undefined || isFloatingOrComplex(in),
               "norm(): input dtype should be either floating point or complex. Got {} instead.", graphName(in));
  call.require(dtype == DType::Undefined || isFloatingOrComplex(dtype),
               "norm(): the desired output dtype should be either floating point or complex, got {}",
               pythonName(dtype));
  inferReduction(call, dtype);
}
void runNorm(KernelCall& call, double order) {
  ReductionCall r(call);
  if (r.in.numel() == 0) return fillTensor(r.out, 0);
  bool given = argumentIndex(call.op(), "dtype") < call.size();
  Tensor in = given ? convertTensor(r.in, r.out.dtype()) : r.in;
  if (!isComplex(r.out.dtype())) return vectorNorm(in, r.dims, r.out, order);
  Tensor real = Tensor::empty(realPart(r.out.dtype()), r.out.sizes());
  vectorNorm(in, r.dims, real, order);
  copyTensor(r.out, real);
}
void normKernel(KernelCall& call) { runNorm(call, orderArgument(call)); }

void inferFrobenius(InferCall& call) {
  if (call.size() > 1) {
    size_t count = call.integers(1).size();
    call.require(count <= 2, "expected at most 2 dimensions, but got {} dimensions", count);
  }
  inferNorm(call);
}
void frobeniusKernel(KernelCall& call) { runNorm(call, 2); }

void inferDist(InferCall& call) {
  ResultType dtype;
  dtype.add(call, 0);
  dtype.add(call, 1);
  call.result(realPart(dtype.get()), Dims{});
}
void distKernel(KernelCall& call) {
  Tensor difference = TensorMath(call).sub(call.tensor(0), call.tensor(1));
  call.setResult(invokeTensor(call, "aten::norm.Scalar", {difference, call.argument(2)}));
}

// The norm over all dimensions but one, which the result keeps; over all of them for dimension -1.
template <class Call>
Dims allDimsExcept(const Call& call, int64_t rank, size_t except) {
  Dims dims = listed(rank);
  if (call.integer(except) == -1) return dims;
  call.require(rank > 0, "norm_except_dim of a tensor without dimensions needs dim to be -1");
  dims.erase(static_cast<size_t>(call.dim(except, rank)));
  return dims;
}
void resultNormExceptDim(InferCall& call, const TensorInfo& v, size_t except) {
  Dims dims = allDimsExcept(call, static_cast<int64_t>(v.rank()), except);
  call.result(v.dtype == DType::Undefined ? v.dtype : realPart(v.dtype),
              reducedSizes(v.sizes, dims, call.integer(except) != -1));
}
void inferNormExceptDim(InferCall& call) {
  TensorInfo v = call.rankedTensor(0);
  call.require(v.dtype == DType::Undefined || isFloatingOrComplex(v.dtype),
               "norm(): input dtype should be either floating point or complex, got {}", pythonName(v.dtype));
  resultNormExceptDim(call, v, 2);
}
void normExceptDimKernel(KernelCall& call) {
  Tensor v = call.tensor(0), out = Tensor::empty(call.spec().dtype, call.spec().sizes);
  double order = static_cast<double>(call.integer(1));
  Dims dims = allDimsExcept(call, v.rank(), 2);
  if (v.numel() == 0)
    fillTensor(out, 0);
  else if (dims.empty())  // of a vector: nothing is reduced
    copyTensor(out, invokeTensor(call, "aten::abs", {v}));
  else
    vectorNorm(v, dims, out, order);
  call.setResult(out);
}

// v * g / |v|, a norm for each index of dimension `dim`.
void inferWeightNorm(InferCall& call) {
  const TensorInfo v = call.tensor(0), g = call.tensor(1);
  const DType dtype = promotedDType(call, 2);
  if (!v.hasRank || !g.hasRank) return call.resultOfUnknownRank(dtype);
  const Dims dims = allDimsExcept(call, static_cast<int64_t>(v.rank()), 2);
  Dims factors = reducedSizes(v.sizes, dims, call.integer(2) != -1), sizes(v.sizes);
  if (!broadcastInto(factors, g.sizes)) refuseBroadcast(g.sizes, factors);
  if (!broadcastInto(sizes, factors)) refuseBroadcast(sizes, factors);
  call.result(dtype, sizes);
}
void weightNormKernel(KernelCall& call) {
  Tensor v = call.tensor(0);
  Tensor norm = invokeTensor(call, "aten::norm_except_dim", {v, 2, call.argument(2)});
  call.setResult(0, TensorMath(call).mul(v, TensorMath(call).div(call.tensor(1), norm)));
}
void inferWeightNormInterface(InferCall& call) {
  const TensorInfo v = call.rankedTensor(0);
  requireSameScalarType(call, v, call.tensor(1));
  call.result(v);
  resultNormExceptDim(call, v, 2);
}
void weightNormInterfaceKernel(KernelCall& call) {
  weightNormKernel(call);
  call.setResult(1, invokeTensor(call, "aten::norm_except_dim", {call.tensor(0), 2, call.argument(2)}));
}

// ---- norms of matrices ----

// Singular values of the matrices that two dimensions make up, as a last dimension.
Tensor singularValues(const KernelCall& call, const Tensor& t, int64_t rows, int64_t columns) {
  Dims order;
  for (int64_t d = 0; d < t.rank(); ++d)
    if (d != rows && d != columns) order.push_back(d);
  order.push_back(rows);
  order.push_back(columns);
  Tensor matrices = invokeTensor(call, "aten::permute", {t, intList(order)});
  return invokeTensor(call, "aten::linalg_svdvals", {matrices, IValue()});
}

void extremeInto(const KernelCall& call, const Tensor& in, int64_t dim, const Tensor& out, bool largest) {
  call.require(in.sizes()[dim] != 0 || out.numel() == 0,
               "expected the dimension that is reduced to have non-zero size");
  auto reduce = [&](auto sample) {
    using T = decltype(sample);
    largest ? reduceInto(in, Dims{dim}, out, Extreme<T, true>()) : reduceInto(in, Dims{dim}, out, Extreme<T, false>());
  };
  out.dtype() == DType::Float64 ? reduce(double{}) : reduce(float{});
}

void nuclearNorm(const KernelCall& call, const Tensor& in, const Dims& dims, const Tensor& out) {
  Tensor values = singularValues(call, in, dims[0], dims[1]);
  vectorNorm(values, Dims{values.rank() - 1}, out, 1);
}

// Of order 1, 2 or infinity, or the negative of one. `in` has the dtype that it is computed in.
void matrixNorm(const KernelCall& call, const Tensor& in, const Dims& dims, const Tensor& out, double order) {
  if (std::fabs(order) == 2) {
    Tensor values = singularValues(call, in, dims[0], dims[1]);
    return extremeInto(call, values, values.rank() - 1, out, order > 0);
  }
  int64_t summed = std::isinf(order) ? dims[1] : dims[0], other = std::isinf(order) ? dims[0] : dims[1];
  Tensor sums = Tensor::empty(out.dtype(), reducedSizes(in.sizes(), Dims{summed}, true));
  vectorNorm(in, Dims{summed}, sums, 1);
  extremeInto(call, sums, other, out, order > 0);
}

// What the order of a matrix norm is: a number or a name, at argument 1.
struct MatrixOrder {
  double number = 2;
  bool isFrobenius = false, isNuclear = false;
  template <class Call>
  static MatrixOrder read(const Call& call, const IValue& v) {
    MatrixOrder order;
    if (v.isString()) {
      order.isFrobenius = v.toString() == "fro";
      order.isNuclear = v.toString() == "nuc";
      call.require(order.isFrobenius || order.isNuclear, "linalg.matrix_norm: order {} not supported", v.toString());
      return order;
    }
    call.require(v.isNumber() && !v.isComplex(), "the order of a norm must be a real number");
    order.number = v.toDouble();
    double size = std::fabs(order.number);
    call.require(size == 1 || size == 2 || std::isinf(size), "linalg.matrix_norm: order {} not supported",
                 order.number);
    return order;
  }
  bool needsValues() const { return isNuclear || (!isFrobenius && std::fabs(number) == 2); }
};

void inferMatrixNormOver(InferCall& call, size_t dimCount) {
  DType dtype = normDType(call);
  TensorInfo t = call.tensor(0);
  call.require(!t.hasRank || t.rank() >= 2,
               "linalg.matrix_norm: the input tensor must have at least 2 dimensions, but has {}", t.rank());
  call.require(dimCount == 2, "linalg.matrix_norm: dim must have 2 entries, but has {}", dimCount);
  if (const IValue* v = call.constant(1)) {
    bool low = t.dtype == DType::Float16 || t.dtype == DType::BFloat16;
    call.require(!MatrixOrder::read(call, *v).needsValues() || !low,
                 "linalg.matrix_norm: low precision dtypes not supported, got {}", pythonName(t.dtype));
  }
  inferReduction(call, realPart(dtype));
}
void inferMatrixNorm(InferCall& call) { inferMatrixNormOver(call, call.integers(2).size()); }

void matrixNormKernel(KernelCall& call) {
  MatrixOrder order = MatrixOrder::read(call, call.argument(1));
  if (order.isFrobenius) return runVectorNorm(call, 2);
  ReductionCall r(call);
  Tensor in = convertTensor(r.in, isComplex(r.in.dtype()) ? complexOf(r.out.dtype()) : r.out.dtype());
  order.isNuclear ? nuclearNorm(call, in, r.dims, r.out) : matrixNorm(call, in, r.dims, r.out, order.number);
}

// Of a matrix where an order is given and there are two dimensions, else of a vector.
template <class Call>
bool isMatrixNorm(const Call& call, size_t rank) {
  if (call.isNone(2)) {
    call.require(call.isNone(1) || rank == 1 || rank == 2,
                 "linalg.norm: if dim is not specified but ord is, the input must have 1 or 2 dimensions, not {}",
                 rank);
    return !call.isNone(1) && rank == 2;
  }
  size_t count = call.integers(2).size();
  call.require(count == 1 || count == 2, "linalg.norm: if dim is specified, it must be of length 1 or 2, not {}",
               count);
  return !call.isNone(1) && count == 2;
}

template <bool kNamed>
void inferLinalgNorm(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  size_t count = call.isNone(2) ? 2 : call.integers(2).size();
  if (isMatrixNorm(call, t.rank()) || kNamed)
    inferMatrixNormOver(call, count);
  else
    inferVectorNorm(call);
}
template <bool kNamed>
void linalgNormKernel(KernelCall& call) {
  if (isMatrixNorm(call, static_cast<size_t>(call.tensor(0).rank())) || kNamed)
    matrixNormKernel(call);
  else
    vectorNormKernel(call);
}

template <size_t kDim>
void inferNuclear(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (kDim == 0)
    call.require(!t.hasRank || t.rank() == 2, "expected a tensor with 2 dimensions, but got a tensor with {}",
                 t.rank());
  else
    call.require(call.integers(kDim).size() == 2, "nuclear norm requires a 'dim' argument of size 2");
  inferReduction(call, realPart(t.dtype));
}
void nuclearKernel(KernelCall& call) {
  ReductionCall r(call);
  nuclearNorm(call, r.in, r.dims, r.out);
}

}  // namespace

void registerNormsOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kAllTypes,
             .traits = {Trait::RoundsOnce}});
  };
  add("aten::linalg_vector_norm", inferVectorNorm, vectorNormKernel, convertVectorNorm);
  add("aten::linalg_matrix_norm", inferMatrixNorm, matrixNormKernel);
  add("aten::linalg_matrix_norm.str_ord", inferMatrixNorm, matrixNormKernel);
  add("aten::linalg_norm", inferLinalgNorm<false>, linalgNormKernel<false>);
  add("aten::linalg_norm.ord_str", inferLinalgNorm<true>, linalgNormKernel<true>);
  for (auto schema : {"aten::norm.Scalar", "aten::norm.ScalarOpt_dim"})
    add(schema, inferNorm, normKernel, convertVectorNorm);
  for (auto schema : {"aten::norm.ScalarOpt_dtype", "aten::norm.ScalarOpt_dim_dtype"})
    add(schema, inferNorm, normKernel);
  add("aten::frobenius_norm", inferFrobenius, frobeniusKernel);
  add("aten::frobenius_norm.dim", inferFrobenius, frobeniusKernel);
  ops.add({.schema = "aten::nuclear_norm",
           .infer = inferNuclear<0>,
           .kernel = nuclearKernel,
           .dtypes = kFloatingTypes | kComplexTypes});
  ops.add({.schema = "aten::nuclear_norm.dim",
           .infer = inferNuclear<1>,
           .kernel = nuclearKernel,
           .dtypes = kFloatingTypes | kComplexTypes});
  ops.add({.schema = "aten::renorm(Tensor self, Scalar p, int dim, Scalar maxnorm) -> Tensor",
           .infer = inferRenorm,
           .kernel = renormKernel,
           .convert = convertRenorm,
           .dtypes = kFloatingTypes | kComplexTypes,
           .inplace = InPlace::ByCopy,
           .traits = {Trait::SetsStrides}});
  add("aten::dist", inferDist, distKernel);
  add("aten::norm_except_dim", inferNormExceptDim, normExceptDimKernel);
  add("aten::_weight_norm", inferWeightNorm, weightNormKernel);
  add("aten::_weight_norm_interface", inferWeightNormInterface, weightNormInterfaceKernel);
}

}  // namespace tscompile
