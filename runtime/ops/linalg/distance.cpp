// Distances between vectors: pairwise, of all pairs, and their cosine.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/alone/distance_layer.h"
#include "runtime/engine/layers/half_tensors.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/views.h"

#include <Eigen/Core>

#include <cmath>

namespace tscompile {
namespace {

// ---- composites ----

// Two tensors, broadcast.
std::optional<Dims> broadcastPair(const InferCall& call) {
  TensorInfo a = call.tensor(0), b = call.tensor(1);
  if (!a.hasRank || !b.hasRank) return std::nullopt;
  Dims sizes(a.sizes);
  if (!broadcastInto(sizes, b.sizes)) refuseBroadcast(a.sizes, b.sizes);
  return sizes;
}

void inferCosineSimilarity(InferCall& call) {
  if (const IValue* eps = call.constant(3); eps && eps->isNumber())
    call.require(eps->toDouble() >= 0, "eps must be non-negative, got: {}", eps->toDouble());
  DType dtype = promotedDType(call, 2);
  call.require(dtype == DType::Undefined || isFloating(dtype),
               "expected common dtype to be floating point, yet common dtype is {}", graphName(dtype));
  // What has no dimensions is expanded first, so that its dtype counts like the other's.
  const DType a = call.tensor(0).dtype, b = call.tensor(1).dtype;
  if (isFloating(a) && isFloating(b)) dtype = promoteTypes(a, b);
  std::optional<Dims> sizes = broadcastPair(call);
  if (!sizes) return call.resultOfUnknownRank(dtype);
  if (int64_t dim = call.dim(2, sizes->size()); !sizes->empty()) sizes->erase(static_cast<size_t>(dim));
  call.result(dtype, *sizes);
}
// (x1, x2, dim, eps)
void cosineSimilarityKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 2);
  call.require(isFloating(dtype), "expected common dtype to be floating point, yet common dtype is {}",
               graphName(dtype));
  // Each norm is rounded to the dtype of its own tensor.
  auto ownFloat = [&](const Tensor& t) { return isFloating(t.dtype()) ? t : convertTensor(t, dtype); };
  Tensor a = ownFloat(call.tensor(0)), b = ownFloat(call.tensor(1));
  Dims sizes(a.sizes());
  if (!broadcastInto(sizes, b.sizes())) refuseBroadcast(a.sizes(), b.sizes());
  int64_t dim = call.dim(2, static_cast<int>(sizes.size()));
  IValue dims = intList(Dims{dim}), eps = call.number(3);
  auto direction = [&](const Tensor& t) {
    Tensor x = expandedTo(t, sizes);
    Tensor norm = invokeTensor(call, "aten::linalg_vector_norm", {x, 2.0, dims, true, IValue()});
    return invokeTensor(call, "aten::div.Tensor", {x, invokeTensor(call, "aten::clamp_min", {norm, eps})});
  };
  Tensor product = invokeTensor(call, "aten::mul.Tensor", {direction(a), direction(b)});
  call.setResult(invokeTensor(call, "aten::sum.dim_IntList", {product, dims, false, IValue()}));
}

void convertCosineSimilarity(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (isHalf(a.dtype()) && a.dtype() == b.dtype()) return convertByParts<cosineSimilarityKernel>(call);
  if (a.dtype() != DType::Float32 || b.dtype() != DType::Float32)
    return convertToKernel(call, "an argument is not float32");
  Dims sizes(a.sizes());
  if (!broadcastInto(sizes, b.sizes())) return convertToKernel(call, "they cannot be broadcast");
  if (sizes.empty() || checkedNumel(sizes).value_or(0) == 0) return convertToKernel(call, "a tensor has no elements");
  const int64_t dim = call.dim(2, static_cast<int>(sizes.size()));
  const IValue dims = intList(Dims{dim});
  auto direction = [&](const Tensor& t) {
    const bool hasWhole = t.rank() == static_cast<int64_t>(sizes.size()) && t.sizes()[dim] == sizes[dim];
    const IValue x = hasWhole ? IValue(t) : expandedTo(t, sizes);
    const IValue squares =
        call.compute("aten::sum.dim_IntList", {call.compute("aten::mul.Tensor", {x, x}), dims, true, IValue()});
    return call.compute(
        "aten::div.Tensor",
        {x, call.compute("aten::clamp_min", {call.compute("aten::sqrt", {squares}), call.argument(3)})});
  };
  const IValue product = call.compute("aten::mul.Tensor", {direction(a), direction(b)});
  call.setResult(call.compute("aten::sum.dim_IntList", {product, dims, false, IValue()}));
}

void inferPairwiseDistance(InferCall& call) {
  DType dtype = promotedDType(call, 2);
  if (dtype != DType::Undefined) dtype = isIntegral(dtype, true) ? DType::Float32 : realPart(dtype);
  std::optional<Dims> sizes = broadcastPair(call);
  if (!sizes) return call.resultOfUnknownRank(dtype);
  if (!sizes->empty()) {
    sizes->pop_back();
    if (call.flag(4)) sizes->push_back(1);
  }
  call.result(dtype, *sizes);
}
// (x1, x2, p, eps, keepdim): of the last dimension.
void pairwiseDistanceKernel(KernelCall& call) {
  Tensor difference = invokeTensor(call, "aten::sub.Tensor", {call.tensor(0), call.tensor(1), 1});
  Tensor moved = invokeTensor(call, "aten::add.Scalar", {difference, call.argument(3), 1});
  call.setResult(invokeTensor(call, "aten::norm.ScalarOpt_dim",
                              {moved, call.argument(2), intList(Dims{moved.rank() - 1}), call.argument(4)}));
}

void convertPairwiseDistance(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (a.dtype() != DType::Float32 || b.dtype() != DType::Float32)
    return convertToKernel(call, "an argument is not float32");
  if (a.rank() == 0 || b.rank() == 0 || a.numel() == 0 || b.numel() == 0)
    return convertToKernel(call, "a tensor has no elements");
  const IValue moved =
      call.compute("aten::add.Scalar", {call.compute("aten::sub.Tensor", {a, b, 1}), call.argument(3), 1});
  call.setResult(0, call.compute("aten::linalg_vector_norm",
                                 {moved, call.argument(2), intList(Dims{-1}), call.argument(4), IValue()}));
}

// ---- the distance of two rows ----

template <class T>
T distanceOf(const T* x, const T* y, int64_t n, double p) {
  using Row = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>;
  Row a(x, n), b(y, n);
  if (n == 0) return T(0);
  auto difference = (a - b).abs();
  // The number of places that differ; NaN where nobody knows.
  if (p == 0) return (difference != difference).select(difference, (difference != T(0)).template cast<T>()).sum();
  if (p == 1) return difference.sum();
  if (p == 2) return std::sqrt(difference.square().sum());
  if (std::isinf(p)) return difference.template maxCoeff<Eigen::PropagateNaN>();
  return static_cast<T>(std::pow(static_cast<double>(difference.pow(static_cast<T>(p)).sum()), 1 / p));
}

void checkExponent(const InferCall& call, size_t i) {
  double p = call.number(i);
  call.require(p >= 0, "{} only supports non-negative p values, got {}", call.op().kind().name(), p);
}

void refuseHalves(DType dtype) {
  if (itemSize(dtype) == 2) refuseDType(dtype);
}

// ---- cdist(x1, x2, p, compute_mode): of every row of one matrix to every row of another, in batches ----

void inferCdist(InferCall& call) {
  TensorInfo a = call.tensor(0), b = call.tensor(1);
  checkExponent(call, 2);
  if (!call.isNone(3)) {
    int64_t mode = call.integer(3);
    call.require(mode >= 0 && mode <= 2, "possible modes of cdist are 0, 1 and 2, but it was {}", mode);
  }
  for (size_t i = 0; i < 2; ++i) {
    const TensorInfo& t = i == 0 ? a : b;
    call.require(t.dtype == DType::Undefined || isFloating(t.dtype),
                 "cdist only supports floating-point dtypes, got {}", pythonName(t.dtype));
    call.require(!t.hasRank || t.rank() >= 2, "cdist only supports at least 2D tensors, X{} got: {}D", i + 1, t.rank());
  }
  if (!a.hasRank || !b.hasRank) return call.resultOfUnknownRank(a.dtype);
  call.require(!differ(a.sizes.back(), b.sizes.back()), "X1 and X2 must have the same number of columns. X1: {} X2: {}",
               a.sizes.back(), b.sizes.back());
  Dims sizes(a.sizes.first(a.rank() - 2));
  call.require(broadcastInto(sizes, b.sizes.first(b.rank() - 2)), "the batches {} and {} cannot be broadcast together",
               dimsText(a.sizes.first(a.rank() - 2)), dimsText(b.sizes.first(b.rank() - 2)));
  sizes.push_back(a.sizes[a.rank() - 2]);
  sizes.push_back(b.sizes[b.rank() - 2]);
  call.result(a.dtype, sizes);
}

Tensor batches(const Tensor& t, DimSpan like, DType dtype) {
  Dims sizes(like.first(like.size() - 2));
  sizes.push_back(t.size(t.rank() - 2));
  sizes.push_back(t.size(t.rank() - 1));
  return denseTensor(contiguous(expandedTo(t, sizes)), dtype);
}

// Whether Euclidean distances come from a product of matrices, which is faster and less exact; PyTorch's modes.
bool usesProduct(const KernelCall& call, int64_t rows, int64_t others) {
  int64_t mode = call.isNone(3) ? 0 : call.integer(3);
  return call.number(2) == 2 && (mode == 1 || (mode == 0 && (rows > 25 || others > 25)));
}

// |x - y|^2 = |x|^2 + |y|^2 - 2 x y
void euclideanByProduct(const KernelCall& call, const Tensor& out, const Tensor& a, const Tensor& b) {
  auto squares = [&](const Tensor& t) {
    Tensor square = invokeTensor(call, "aten::mul.Tensor", {t, t});
    return invokeTensor(call, "aten::sum.dim_IntList", {square, intList(Dims{t.rank() - 1}), true, IValue()});
  };
  matmulInto(out, a, transposed(b, b.rank() - 2, b.rank() - 1), -2);
  mapTensors<kFloats>(
      out.dtype(),
      [](auto product, auto x, auto y) {
        auto square = product + x + y;
        return std::sqrt(square < 0 ? decltype(square)(0) : square);
      },
      out, out, squares(a), transposed(squares(b), b.rank() - 2, b.rank() - 1));
}

// PyTorch's promise ends where there is something to compute.
void requireSameDType(const KernelCall& call, DType a, DType b, bool byProduct) {
  if (a == b) return;
  if (byProduct) call.fail("expected m1 and m2 to have the same dtype, but got: {} != {}", cppName(a), cppName(b));
  refuseHalves(a);
  call.fail("expected scalar type {} but found {}", graphName(a), graphName(b));
}

void cdistKernel(KernelCall& call) {
  DenseResult out(call.out());
  const Tensor& result = out.tensor();
  int64_t rows = result.size(result.rank() - 2), others = result.size(result.rank() - 1);
  if (result.numel() == 0) return out.store();
  if (call.tensor(0).size(call.tensor(0).rank() - 1))
    requireSameDType(call, call.tensor(0).dtype(), call.tensor(1).dtype(), usesProduct(call, rows, others));
  Tensor a = batches(call.tensor(0), result.sizes(), result.dtype()),
         b = batches(call.tensor(1), result.sizes(), result.dtype());
  int64_t n = a.size(a.rank() - 1);
  double p = call.number(2);
  if (usesProduct(call, rows, others)) {
    euclideanByProduct(call, result, a, b);
    return out.store();
  }
  refuseHalves(call.out().dtype());
  withFloating(result.dtype(), [&](auto sample) {
    using T = decltype(sample);
    for (int64_t i = 0; i < result.numel() / others; ++i) {
      const T *x = a.data<T>() + i * n, *y = b.data<T>() + i / rows * others * n;
      for (int64_t j = 0; j < others; ++j) {
        out.data<T>()[i * others + j] = distanceOf(x, y + j * n, n, p);
        call.context().checkInterrupt(n);
      }
    }
  });
  out.store();
}

// As PyTorch makes them, where there are more than a few: |x - y|^2 = |x|^2 + |y|^2 - 2 x y.
IValue distancesByProduct(ConvertCall& call, const IValue& a, const IValue& b) {
  auto squares = [&](const IValue& t) {
    return call.compute("aten::sum.dim_IntList",
                        {call.compute("aten::mul.Tensor", {t, t}), intList(Dims{-1}), true, IValue()});
  };
  // In one batch at least: products with a constant matrix may be rounded, which differences of squares make much of.
  auto batched = [&](const IValue& t) {
    return t.toTensor().rank() == 2 ? call.compute("aten::unsqueeze", {t, 0}) : t;
  };
  const IValue product =
      call.compute("aten::matmul", {batched(a), call.compute("aten::transpose.int", {batched(b), -2, -1})});
  const IValue others = call.compute("aten::transpose.int", {squares(b), -2, -1});
  const IValue square =
      call.compute("aten::add.Tensor", {call.compute("aten::add.Tensor", {squares(a), product, -2}), others, 1});
  const IValue distances = call.compute("aten::sqrt", {call.compute("aten::clamp_min", {square, 0.0})});
  return call.compute("aten::reshape", {distances, intList(call.spec().sizes)});
}

// Layers read what lies in rows.
Tensor dense(ConvertCall& call, const IValue& t) { return call.compute("aten::contiguous", {t}).toTensor(); }
Tensor columnsOf(ConvertCall& call, const IValue& t) {
  return dense(call, call.compute("aten::transpose.int", {t, int64_t{-2}, int64_t{-1}}));
}

bool areDoubles(const Tensor& a, const Tensor& b) { return a.dtype() == DType::Float64 && b.dtype() == a.dtype(); }

void convertCdist(ConvertCall& call) {
  const Tensor a = call.tensor(0), b = call.tensor(1);
  if (!areDoubles(a, b) && (a.dtype() != DType::Float32 || b.dtype() != DType::Float32))
    return convertToKernel(call, "the arguments are neither float32 nor float64");
  const Dims& sizes = call.spec().sizes;
  if (checkedNumel(sizes).value_or(0) == 0 || a.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  if (usesProduct(call, a.size(a.rank() - 2), b.size(b.rank() - 2)))
    return call.setResult(distancesByProduct(call, a, b));
  auto batched = [&](const Tensor& t) {
    Dims all(sizes.begin(), sizes.end() - 2);
    for (int64_t d : {t.rank() - 2, t.rank() - 1}) all.push_back(t.size(d));
    return call.compute("aten::expand", {t, intList(all), false});
  };
  addDistances(call, dense(call, batched(a)), columnsOf(call, batched(b)), call.number(2), false);
}

// ---- pdist(self, p): of every row to those after it ----

void inferPdist(InferCall& call) {
  TensorInfo t = call.tensor(0);
  checkExponent(call, 1);
  if (!t.hasRank) return call.result(t.dtype, Dims{kUnknownSize});
  call.require(t.rank() == 2, "pdist only supports 2D tensors, got: {}D", t.rank());
  int64_t n = t.sizes[0];
  SizeExpression rows = SizeExpression::ofSize(n);
  int64_t pairs = floorDiv(rows * (rows - 1), 2).size();
  if (isKnownSize(n)) {
    int64_t product = multiplySizes(n, std::max<int64_t>(n - 1, 0));
    call.require(isKnownSize(product), "pdist of {} rows has too many pairs", n);
    pairs = product / 2;
  }
  call.result(t.dtype, Dims{pairs});
}

void pdistKernel(KernelCall& call) {
  DenseResult out(call.out());
  if (call.out().numel()) refuseHalves(call.out().dtype());
  Tensor x = denseTensor(call.tensor(0));
  int64_t rows = x.size(0), n = x.size(1);
  double p = call.number(1);
  withFloating(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* to = out.data<T>();
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = i + 1; j < rows; ++j) {
        *to++ = distanceOf(x.data<T>() + i * n, x.data<T>() + j * n, n, p);
        call.context().checkInterrupt(n);
      }
  });
  out.store();
}

void convertPdist(ConvertCall& call) {
  const Tensor x = call.tensor(0);
  if (x.dtype() != DType::Float32 && !areDoubles(x, x))
    return convertToKernel(call, "the argument is neither float32 nor float64");
  if (checkedNumel(call.spec().sizes).value_or(0) == 0 || x.numel() == 0)
    return convertToKernel(call, "a tensor has no elements");
  addDistances(call, dense(call, x), columnsOf(call, x), call.number(1), true);
}

}  // namespace

void registerDistanceOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, DTypeSet dtypes,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = name, .infer = infer, .kernel = kernel, .convert = convert, .dtypes = dtypes});
  };
  add("aten::cosine_similarity", inferCosineSimilarity, cosineSimilarityKernel, kRealAndBool, convertCosineSimilarity);
  add("aten::pairwise_distance", inferPairwiseDistance, pairwiseDistanceKernel, kAllTypes, convertPairwiseDistance);
  add("aten::cdist", inferCdist, cdistKernel, kFloatingTypes, convertCdist);
  add("aten::_cdist_forward", inferCdist, cdistKernel, kFloatingTypes, convertCdist);
  add("aten::pdist", inferPdist, pdistKernel, kFloatingTypes, convertPdist);
  add("aten::_pdist_forward", inferPdist, pdistKernel, kFloatingTypes, convertPdist);
}

}  // namespace tscompile
