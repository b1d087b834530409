// Products of vectors: dot, vdot, vecdot, inner, outer, addr, cross, kron; and trace.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- dot, vdot, linalg_vecdot ----

void inferDot(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  call.require(a.rank() == 1 && b.rank() == 1, "1D tensors expected, but got {}D and {}D tensors", a.rank(), b.rank());
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "dot : expected both vectors to have same dtype, but found {} and {}", graphName(a.dtype),
               graphName(b.dtype));
  call.require(
      !differ(a.sizes[0], b.sizes[0]),
      "inconsistent tensor size, expected tensor {} and src {} to have the same number of elements, but got {} "
      "and {} elements respectively",
      dimsText(a.sizes), dimsText(b.sizes), a.sizes[0], b.sizes[0]);
  call.result(a.dtype, Dims{});
}

// The product of rows and columns: [..., k] and [..., k] -> [...].
void rowsTimesColumns(const Tensor& out, const Tensor& a, const Tensor& b) {
  matmulInto(unsqueezed(unsqueezed(out, out.rank()), out.rank()), unsqueezed(a, a.rank() - 1), unsqueezed(b, b.rank()));
}

void dotKernel(KernelCall& call) { rowsTimesColumns(call.out(), call.tensor(0), call.tensor(1)); }
void vdotKernel(KernelCall& call) { rowsTimesColumns(call.out(), conjugated(call.tensor(0)), call.tensor(1)); }

void inferVecdot(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  requireSameDType(call, a, b);
  Dims sizes;
  if (!broadcastInto(sizes, a.sizes) || !broadcastInto(sizes, b.sizes)) refuseBroadcast(a.sizes, b.sizes);
  int64_t dim = call.dim(2, sizes.size());
  if (!sizes.empty()) sizes.erase(static_cast<size_t>(dim));
  call.result(a.dtype, sizes);
}

void vecdotKernel(KernelCall& call) {
  Tensor a = conjugated(call.tensor(0)), b = call.tensor(1), out = call.out();
  Dims sizes;
  broadcastInto(sizes, a.sizes());
  broadcastInto(sizes, b.sizes());
  if (sizes.empty()) return multiplyElements(out, a, b);
  int64_t dim = call.dim(2, static_cast<int>(sizes.size()));
  Dims order;
  for (int64_t d = 0; d < static_cast<int64_t>(sizes.size()); ++d)
    if (d != dim) order.push_back(d);
  order.push_back(dim);
  rowsTimesColumns(out, expandedTo(a, sizes).permuted(order), expandedTo(b, sizes).permuted(order));
}

// ---- inner ----

void inferInner(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  if (a.rank() == 0 || b.rank() == 0) return inferBinary(call);
  requireSameDType(call, a, b);
  call.require(!differ(a.sizes.back(), b.sizes.back()),
               "the last dimension must match on both tensors, but their sizes are {} and {}", dimsText(a.sizes),
               dimsText(b.sizes));
  Dims sizes(a.sizes.first(a.rank() - 1));
  sizes.append(b.sizes.begin(), b.sizes.end() - 1);
  call.result(a.dtype, sizes);
}

void innerKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.rank() == 0 || b.rank() == 0) return call.setResult(invoke(call, "aten::mul.Tensor", {a, b}));
  Tensor out = call.out();
  auto rows = [](const Tensor& t) {
    int64_t k = t.size(t.rank() - 1), count = 1;
    for (int d = 0; d + 1 < t.rank(); ++d) count *= t.size(d);
    return reshaped(t, Dims{count, k});
  };
  Tensor x = rows(a), y = rows(b);
  matmulInto(reshaped(out, Dims{x.size(0), y.size(0)}), x, transposed(y, 0, 1));
}

// ---- outer, ger, addr ----

void requireVector(const InferCall& call, const TensorInfo& t, const char* name) {
  std::string_view op = call.op().kind().name();
  call.require(t.rank() == 1, "{}: Expected 1-D argument {}, but got {}-D", op.starts_with("addr") ? "addr" : "outer",
               name, t.rank());
}

void inferOuter(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  requireVector(call, a, "self");
  requireVector(call, b, "vec2");
  ResultType type;
  type.add(a);
  type.add(b);
  call.result(type.get(), Dims{a.sizes[0], b.sizes[0]});
}

// Rows times rows.
void convertInner(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.rank() == 0 || b.rank() == 0 || a.numel() == 0 || b.numel() == 0 || call.spec().dtype != DType::Float32)
    return convertToKernel(call, "an argument has no dimensions, no elements, or is not float32");
  auto rows = [&](const Tensor& t) {
    return call.compute("aten::reshape", {t, intList(Dims{-1, t.size(t.rank() - 1)})});
  };
  const IValue made = call.compute("aten::matmul", {rows(a), call.compute("aten::t", {rows(b)})});
  call.setResult(0, call.compute("aten::reshape", {made, intList(call.spec().sizes)}));
}

void convertOuter(ConvertCall& call) {
  call.setResult(0, call.compute("aten::mul.Tensor",
                                 {call.compute("aten::unsqueeze", {call.argument(0), int64_t{1}}), call.argument(1)}));
}

void outerKernel(KernelCall& call) { multiplyElements(call.out(), unsqueezed(call.tensor(0), 1), call.tensor(1)); }

void inferAddr(InferCall& call) {
  TensorInfo self = call.rankedTensor(0), a = call.rankedTensor(1), b = call.rankedTensor(2);
  requireVector(call, a, "vec1");
  requireVector(call, b, "vec2");
  Dims sizes{a.sizes[0], b.sizes[0]};
  requireExpandable(call, self.sizes, sizes);
  ResultType type;
  for (const TensorInfo& t : {self, a, b}) type.add(t);
  DType dtype = type.get();
  for (size_t i = 3; i < 5; ++i) {
    DType factor = call.scalarType(i);
    call.require(!isIntegral(dtype, true) || isIntegral(factor, true),
                 "for integral input tensors, beta and alpha must not be floating point numbers");
    call.require(dtype == DType::Bool || factor != DType::Bool,
                 "boolean beta and alpha are only supported for boolean results");
  }
  call.result(dtype, sizes);
}

// beta self + alpha a b; self is not looked at where beta is 0, not even for NaN.
template <class T>
auto rankOneUpdate(T beta, T alpha) {
  return [=](T self, T a, T b) {
    T product = times(times(alpha, a), b);
    return beta == T(0) ? product : plus(times(beta, self), product);
  };
}

// Of 16 bits every step is rounded, the factors as well.
template <class T>
void updateRounded(KernelCall& call, const Tensor& out, const Tensor& self, const Tensor& a, const Tensor& b) {
  const ScalarArgument givenBeta(call, 3, out.dtype()), givenAlpha(call, 4, out.dtype());
  const T beta = static_cast<T>(givenBeta.as<float>()), alpha = static_cast<T>(givenAlpha.as<float>());
  const auto product = [](T x, T y) { return static_cast<T>(static_cast<float>(x) * static_cast<float>(y)); };
  auto update = [=](float self, float a, float b) {
    const T added = product(product(alpha, T(a)), T(b));
    if (static_cast<float>(beta) == 0) return static_cast<float>(added);
    return static_cast<float>(product(beta, T(self))) + static_cast<float>(added);
  };
  mapTensors<kF32>(out.dtype(), update, out, self, a, b);
}

void addrKernel(KernelCall& call) {
  DType dtype = call.spec().dtype;
  Tensor self = call.tensor(0), a = unsqueezed(call.tensor(1), 1), b = call.tensor(2);
  Tensor out = elementwiseOutput(call, {&self, &a, &b});
  if (isComplex(dtype))
    return mapTensors<kC128>(dtype, rankOneUpdate(call.complex(3), call.complex(4)), out, self, a, b);
  if (dtype == DType::BFloat16) return updateRounded<BFloat16>(call, out, self, a, b);
  if (dtype == DType::Float16) return updateRounded<Half>(call, out, self, a, b);
  ScalarArgument beta(call, 3, dtype), alpha(call, 4, dtype);
  switch (computeTypeOf(dtype)) {
    case Compute::F32:
      return mapTensors<kF32>(dtype, rankOneUpdate(beta.as<float>(), alpha.as<float>()), out, self, a, b);
    case Compute::F64:
      return mapTensors<kF64>(dtype, rankOneUpdate(beta.as<double>(), alpha.as<double>()), out, self, a, b);
    default:
      return mapTensors<kI64>(dtype, rankOneUpdate(beta.as<int64_t>(), alpha.as<int64_t>()), out, self, a, b);
  }
}

// ---- cross products ----

int64_t crossDim(const InferCall& call, const TensorInfo& a) {
  // Without a dimension, aten::cross takes the first one of size 3.
  if (call.op().kind().text() != "aten::cross" || !call.isNone(2)) {
    call.require(a.rank() > 0, "the tensors have no dimensions");
    return call.dim(2, a.rank());
  }
  for (size_t d = 0; d < a.rank(); ++d) {
    if (!isKnownSize(a.sizes[d])) throw InferCall::NotKnown{};
    if (a.sizes[d] == 3) return static_cast<int64_t>(d);
  }
  call.fail("no dimension of size 3 in the input of size {}", dimsText(a.sizes));
}

void inferCross(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  call.require(a.rank() == b.rank(), "inputs must have the same number of dimensions, but they have {} and {}",
               a.rank(), b.rank());
  auto dim = static_cast<size_t>(crossDim(call, a));
  const int64_t given = call.isNone(2) ? static_cast<int64_t>(dim) : call.integer(2);
  call.require(!differ(a.sizes[dim], 3) && !differ(b.sizes[dim], 3),
               "linalg.cross: inputs dimension {} must have length 3. Got {} and {}", given, a.sizes[dim],
               b.sizes[dim]);
  requireSameDType(call, a, b);
  Dims sizes;
  if (!broadcastInto(sizes, a.sizes) || !broadcastInto(sizes, b.sizes)) refuseBroadcast(a.sizes, b.sizes);
  call.result(a.dtype, sizes);
}

void crossKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  int64_t dim = crossDim(infer, infer.tensor(0));
  Tensor out = call.out(), a = expandedTo(call.tensor(0), out.sizes()), b = expandedTo(call.tensor(1), out.sizes());
  for (int64_t i = 0; i < 3; ++i) {
    int64_t j = (i + 1) % 3, k = (i + 2) % 3;
    mapTensors<kNumbers>(
        out.dtype(), [](auto p, auto q, auto r, auto s) { return minus(times(p, q), times(r, s)); },
        selected(out, dim, i), selected(a, dim, j), selected(b, dim, k), selected(a, dim, k), selected(b, dim, j));
  }
}

void convertCross(ConvertCall& call) {
  const int64_t dim = crossDim(InferCall(call.op(), call.arguments(), call.size()),
                               InferCall(call.op(), call.arguments(), call.size()).tensor(0));
  if (call.spec().dtype != DType::Float32 || checkedNumel(call.spec().sizes).value_or(0) == 0)
    return convertToKernel(call, "the elements are not float32, or there are none");
  auto part = [&](size_t of, int64_t i) { return call.compute("aten::select.int", {call.argument(of), dim, i % 3}); };
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < 3; ++i) {
    const IValue left = call.compute("aten::mul.Tensor", {part(0, i + 1), part(1, i + 2)});
    const IValue right = call.compute("aten::mul.Tensor", {part(0, i + 2), part(1, i + 1)});
    parts.push_back(call.compute("aten::sub.Tensor", {left, right, int64_t{1}}).toTensor());
  }
  call.setResult(0, call.compute("aten::stack", {tensorList(std::move(parts)), dim}));
}

// ---- kron ----

void inferKron(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  Dims sizes(std::max(a.rank(), b.rank()), 1);
  for (const TensorInfo& t : {a, b})
    for (size_t d = 0; d < t.rank(); ++d) {
      int64_t& size = sizes[sizes.size() - t.rank() + d];
      size = elementCount(Dims{size, t.sizes[d]}).size();
      call.require(isKnownSize(size) || !call.isRun(), "the result would be too large");
    }
  // Both count as tensors with dimensions.
  bool known = a.dtype != DType::Undefined && b.dtype != DType::Undefined;
  call.result(known ? promoteTypes(a.dtype, b.dtype) : DType::Undefined, sizes);
}

// [a0, 1, a1, 1, ...] times [1, b0, 1, b1, ...]: each pair of dimensions is one of the result.
struct KronFactors {
  Tensor a, b;
  Dims sizes, strides;  // of the products
  Dims joined;          // strides of the result, which is a view of them
};

KronFactors kronFactors(const KernelCall& call, const Tensor& a, const Tensor& b, DimSpan result) {
  const auto rank = static_cast<int>(result.size());
  call.require(2 * rank <= kMaxRank, "tensors of {} dimensions have too many for kron", rank);
  auto spread = [rank](const Tensor& t, bool first) {
    Dims sizes;
    for (int d = 0; d < rank; ++d) {
      const int own = d - (rank - t.rank());
      for (bool here : {first, !first}) sizes.push_back(here && own >= 0 ? t.size(own) : 1);
    }
    return t.withGeometry(sizes, viewStrides(t, sizes).value(), t.offset());
  };
  KronFactors f{spread(a, true), spread(b, false), {}, {}, {}};
  broadcastInto(f.sizes, f.a.sizes());
  broadcastInto(f.sizes, f.b.sizes());
  const Tensor* factors[] = {&f.a, &f.b};
  f.strides = elementwiseStrides(f.sizes, factors);
  const std::optional<Dims> joined = viewStrides(f.sizes, f.strides, result);
  call.require(joined.has_value(), "{}", kNoSuchView);
  f.joined = *joined;
  return f;
}

void kronKernel(KernelCall& call) {
  const Tensor out = call.out();
  const KronFactors f = kronFactors(call, call.tensor(0), call.tensor(1), out.sizes());
  if (f.strides == contiguousStrides(f.sizes))
    return multiplyElements(out.withGeometry(f.sizes, f.strides, out.offset()), f.a, f.b);
  const Tensor products = Tensor::emptyStrided(out.dtype(), f.sizes, f.strides);
  multiplyElements(products, f.a, f.b);
  call.setResult(products.withGeometry(out.sizes(), f.joined, products.offset()));
}

void convertKron(ConvertCall& call) {
  const DimSpan sizes = call.spec().sizes;
  const KronFactors f = kronFactors(call, call.tensor(0), call.tensor(1), sizes);
  auto spread = [&](const Tensor& t, const Tensor& factor) {
    return call.compute("aten::reshape", {t, intList(Dims(factor.sizes()))});
  };
  const IValue products = call.compute("aten::mul.Tensor", {spread(call.tensor(0), f.a), spread(call.tensor(1), f.b)});
  call.setResult(0, call.compute("aten::reshape", {products, intList(sizes)}));
}

// ---- trace ----

void inferTrace(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.require(t.rank() == 2, "trace: expected a matrix, but got tensor with dim {}", t.rank());
  call.result(isIntegral(t.dtype, false) ? DType::Int64 : t.dtype, Dims{});
}

void traceKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  int64_t n = std::min(t.size(0), t.size(1));
  Tensor diagonal = t.withGeometry(Dims{n}, Dims{t.stride(0) + t.stride(1)}, t.offset());
  if (isComplex(out.dtype()))  // by parts: a product would spread a NaN
    return call.setResult(invokeTensor(call, "aten::sum", {diagonal, IValue()}));
  Tensor one = Tensor::empty(out.dtype(), {});
  fillTensor(one, 1);
  rowsTimesColumns(out, convertTensor(diagonal, out.dtype()), expandedTo(one, Dims{n}));
}
// (self, vec1, vec2, beta, alpha)
void convertAddr(ConvertCall& call) {
  const DType d = call.tensor(0).dtype();
  const bool isFloat =
      (d == DType::Float32 || d == DType::Float64) && call.tensor(1).dtype() == d && call.tensor(2).dtype() == d;
  if (!isFloat || checkedNumel(call.spec().sizes) == 0 || call.tensor(1).numel() == 0)
    return convertToKernel(call, "an argument is neither float32 nor float64, or empty");
  const IValue product =
      call.compute("aten::mul.Tensor", {call.compute("aten::unsqueeze", {call.argument(1), 1}), call.argument(2)});
  setSum(call, product, 0, call.number(3), call.number(4));
}

void convertTrace(ConvertCall& call) {
  const Tensor t = call.tensor(0);
  if (t.dtype() != DType::Float32 || t.numel() == 0) return convertToKernel(call, "it has no elements of float32");
  call.setResult(0, call.compute("aten::sum", {call.compute("aten::diagonal", {t, 0, 0, 1}), IValue()}));
}

// ---- dot, vdot, vecdot in engines: sums of products of real numbers ----

void convertDot(ConvertCall& call) {
  const Tensor x = call.tensor(0), y = call.tensor(1);
  const bool isFloat = x.dtype() == DType::Float32 || x.dtype() == DType::Float64;
  if (!isFloat || y.dtype() != x.dtype() || x.numel() == 0)
    return convertToKernel(call, "an argument is neither float32 nor float64, or empty");
  call.setResult(0, call.compute("aten::matmul", {x, y}));
}

void convertVecdot(ConvertCall& call) {
  const Tensor x = call.tensor(0), y = call.tensor(1);
  const bool isFloat = x.dtype() == DType::Float32 || x.dtype() == DType::Float64;
  const int rank = std::max(x.rank(), y.rank());
  if (!isFloat || rank == 0 || checkedNumel(call.spec().sizes) == 0 || x.numel() == 0)
    return convertToKernel(call, "an argument is neither float32 nor float64, or empty");
  const IValue product = call.compute("aten::mul.Tensor", {x, y});
  call.setResult(0,
                 call.compute("aten::sum.dim_IntList", {product, intList(Dims{call.dim(2, rank)}), false, IValue()}));
}

}  // namespace

void registerVectorProductOps(OpRegistry& ops) {
  constexpr DTypeSet kNumbers = kRealTypes | kComplexTypes;
  ops.add({.schema = "aten::dot(Tensor self, Tensor tensor) -> Tensor",
           .infer = inferDot,
           .kernel = dotKernel,
           .convert = convertDot,
           .dtypes = kNumbers});
  ops.add({.schema = "aten::vdot(Tensor self, Tensor other) -> Tensor",
           .infer = inferDot,
           .kernel = vdotKernel,
           .convert = convertDot,
           .dtypes = kNumbers});
  ops.add({.schema = "aten::linalg_vecdot(Tensor x, Tensor y, *, int dim=-1) -> Tensor",
           .infer = inferVecdot,
           .kernel = vecdotKernel,
           .convert = convertVecdot,
           .dtypes = kFloatingTypes | kComplexTypes});
  ops.add({.schema = "aten::inner(Tensor self, Tensor other) -> Tensor",
           .infer = inferInner,
           .kernel = innerKernel,
           .convert = convertInner,
           .dtypes = kAllTypes});
  ops.add({.schema = "aten::outer(Tensor self, Tensor vec2) -> Tensor",
           .infer = inferOuter,
           .kernel = outerKernel,
           .convert = convertOuter,
           .dtypes = kAllTypes});
  ops.add({.schema = "aten::ger(Tensor self, Tensor vec2) -> Tensor",
           .infer = inferOuter,
           .kernel = outerKernel,
           .convert = convertOuter,
           .dtypes = kAllTypes});
  ops.add({.schema = "aten::addr(Tensor self, Tensor vec1, Tensor vec2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
           .infer = inferAddr,
           .kernel = addrKernel,
           .convert = convertAddr,
           .dtypes = kAllTypes,
           .inplace = InPlace::ByCopy});
  ops.add({.schema = "aten::cross(Tensor self, Tensor other, int? dim=None) -> Tensor",
           .infer = inferCross,
           .kernel = crossKernel,
           .convert = convertCross,
           .dtypes = kNumbers});
  ops.add({.schema = "aten::linalg_cross(Tensor self, Tensor other, *, int dim=-1) -> Tensor",
           .infer = inferCross,
           .kernel = crossKernel,
           .convert = convertCross,
           .dtypes = kNumbers});
  ops.add({.schema = "aten::kron(Tensor self, Tensor other) -> Tensor",
           .infer = inferKron,
           .kernel = kronKernel,
           .convert = convertKron,
           .dtypes = kAllTypes,
           .traits = {Trait::OwnStrides, Trait::MindsStrides}});
  ops.add({.schema = "aten::trace(Tensor self) -> Tensor",
           .infer = inferTrace,
           .kernel = traceKernel,
           .convert = convertTrace,
           .dtypes = kNumbers});
}

}  // namespace tscompile
