// Functions of matrices that are made of products: powers, the exponential, chains, Vandermonde matrices.
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/tensor_math.h"
#include "runtime/reference/dense.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <cmath>
#include <limits>
#include <map>
#include <vector>

namespace tscompile {
namespace {

Tensor product(const KernelCall& call, const Tensor& a, const Tensor& b) {
  return invokeTensor(call, "aten::matmul", {a, b});
}

// Identity matrices of a tensor's sizes and dtype.
Tensor identityLike(const Tensor& t) {
  Tensor out = Tensor::zeros(t.dtype(), t.sizes());
  fillTensor(diagonalOf(out, 0, t.rank() - 2, t.rank() - 1), 1);
  return out;
}

void inferSquare(InferCall& call) { call.result(squareArgument(call, 0)); }

// ---- matrix_power ----

void matrixPowerKernel(KernelCall& call) {
  Tensor a = call.tensor(0);
  int64_t n = call.integer(1);
  if (n == 0) return call.setResult(identityLike(a));
  if (n < 0) a = invokeTensor(call, "aten::linalg_inv", {a});
  if (n == 1) a = invokeTensor(call, "aten::clone", {a, IValue()});
  uint64_t left = n < 0 ? -static_cast<uint64_t>(n) : static_cast<uint64_t>(n);
  Tensor power = a, result;  // a to the power of 1, 2, 4 ...
  while (true) {
    if (left & 1) result = result.defined() ? product(call, result, power) : power;
    left >>= 1;
    if (left == 0) break;
    power = product(call, power, power);
  }
  call.setResult(result);
}

// ---- matrix_exp ----

// Of each matrix the largest sum of magnitudes in a column.
Tensor columnNorms(const KernelCall& call, const Tensor& a) {
  Tensor norms = invokeTensor(call, "aten::linalg_matrix_norm", {a, 1, intList(Dims{-2, -1}), false, IValue()});
  return convertTensor(norms, DType::Float64);
}

// The first terms of the series of exp(a), up to a^degree / degree!: powers up to a^4 are computed, the rest is a
// polynomial in a^4 (Paterson and Stockmeyer).
Tensor seriesOf(const KernelCall& call, const Tensor& a, int degree) {
  constexpr int kStep = 4;
  TensorMath math(call);
  Tensor powers[kStep + 1] = {identityLike(a), a};
  for (int k = 2; k <= std::min(kStep, degree); ++k) powers[k] = product(call, powers[k - 1], a);
  double factor[32] = {1};  // of each power
  for (int k = 1; k <= degree; ++k) factor[k] = factor[k - 1] / k;
  Tensor sum;
  for (int first = degree / kStep * kStep; first >= 0; first -= kStep) {
    Tensor part = math.mul(powers[0], factor[first]);
    for (int k = 1; k < kStep && first + k <= degree; ++k)
      part = math.add(part, math.mul(powers[k], factor[first + k]));
    sum = sum.defined() ? math.add(product(call, sum, powers[kStep]), part) : part;
  }
  return sum;
}

// Up to which norm a degree gives all digits.
struct SeriesDegree {
  int degree;
  double singleNorm, doubleNorm;
};
constexpr SeriesDegree kDegrees[] = {{1, 1.1e-7, 2.2e-16}, {2, 5.9e-4, 2.5e-8}, {4, 5.1e-2, 3.3e-4},
                                     {8, 5.8e-1, 4.9e-2},  {12, 1.4, 2.9e-1},   {18, 3.0, 1.0}};

// Scaling and squaring of a Taylor series (Higham 2005): a matrix is halved until the series converges fast, the result
// squared as often.
struct ExponentialSteps {
  int degree, halvings;  // degree -1: infinite or not a number
  auto operator<=>(const ExponentialSteps&) const = default;
};
ExponentialSteps stepsFor(double norm, bool isWide) {
  if (!std::isfinite(norm)) return {-1, 0};
  auto most = [&](const SeriesDegree& d) { return isWide ? d.doubleNorm : d.singleNorm; };
  for (const SeriesDegree& d : kDegrees)
    if (norm <= most(d)) return {d.degree, 0};
  const SeriesDegree& last = *std::rbegin(kDegrees);
  return {last.degree, std::max(0, static_cast<int>(std::ceil(std::log2(norm / most(last)))))};
}

// Of matrices that need the same steps.
Tensor exponentials(const KernelCall& call, const Tensor& a, const ExponentialSteps& steps) {
  if (steps.degree < 0) {
    Tensor out = Tensor::empty(a.dtype(), a.sizes());
    fillTensor(out, std::numeric_limits<double>::quiet_NaN());
    return out;
  }
  Tensor halved = steps.halvings ? TensorMath(call).mul(a, std::ldexp(1.0, -steps.halvings)) : a;
  Tensor result = seriesOf(call, halved, steps.degree);
  for (int i = 0; i < steps.halvings; ++i) result = product(call, result, result);
  return result;
}

void inferMatrixExp(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.require(a.dtype == DType::Undefined || isFloating(a.dtype) || isComplex(a.dtype),
               "matrix_exp: expected a floating point or complex tensor as input, got {}", pythonName(a.dtype));
  call.result(a);
}
void matrixExpKernel(KernelCall& call) {
  Tensor in = call.tensor(0), out = call.out();
  if (in.numel() == 0) return;
  int64_t n = in.size(in.rank() - 1), count = in.numel() / (n * n);
  Tensor matrices = reshaped(denseTensor(in), Dims{count, n, n});
  Tensor results = reshaped(out, Dims{count, n, n});
  const Tensor norms = columnNorms(call, matrices);
  const bool isWide = realPart(in.dtype()) == DType::Float64;
  std::map<ExponentialSteps, std::vector<int64_t>> groups;
  for (int64_t i = 0; i < count; ++i) groups[stepsFor(norms.data<double>()[i], isWide)].push_back(i);
  if (groups.size() == 1) return copyTensor(results, exponentials(call, matrices, groups.begin()->first));
  for (const auto& [steps, members] : groups) {
    Tensor index = Tensor::empty(DType::Int64, Dims{static_cast<int64_t>(members.size())});
    std::copy(members.begin(), members.end(), index.data<int64_t>());
    Tensor some = exponentials(call, invokeTensor(call, "aten::index_select", {matrices, 0, index}), steps);
    for (size_t i = 0; i < members.size(); ++i)
      copyTensor(selected(results, 0, members[i]), selected(some, 0, static_cast<int64_t>(i)));
  }
}

// ---- multi_dot, chain_matmul ----

// Matrix-chain ordering by dynamic programming (Godbole 1973): the order in which a chain of matrices is multiplied
// with the fewest operations.
class ProductOrder {
 public:
  ProductOrder(const KernelCall& call, const std::vector<Tensor>& matrices) : n_(matrices.size()), split_(n_ * n_) {
    std::vector<double> sizes, cost(n_ * n_);
    for (const Tensor& m : matrices) sizes.push_back(static_cast<double>(m.sizes()[0]));
    sizes.push_back(static_cast<double>(matrices.back().sizes()[1]));
    for (size_t length = 1; length < n_; ++length) {
      for (size_t i = 0; i + length < n_; ++i) {
        size_t j = i + length;
        double& best = cost[i * n_ + j] = std::numeric_limits<double>::infinity();
        for (size_t k = i; k < j; ++k) {
          double c = cost[i * n_ + k] + cost[(k + 1) * n_ + j] + sizes[i] * sizes[k + 1] * sizes[j + 1];
          if (c < best) best = c, split_[i * n_ + j] = static_cast<uint32_t>(k);
        }
      }
      call.context().checkInterrupt(static_cast<int64_t>(n_ * length));
    }
  }
  // Matrices i to j are the product of those up to this one and those after it.
  size_t split(size_t i, size_t j) const { return split_[i * n_ + j]; }

 private:
  size_t n_;
  std::vector<uint32_t> split_;
};

// Multiplies the chain without recursion: a range is taken apart on the way down and multiplied on the way up.
Tensor chainProduct(const KernelCall& call, const std::vector<Tensor>& matrices) {
  ProductOrder order(call, matrices);
  struct Range {
    size_t first, last;
    bool expanded;
  };
  std::vector<Range> pending{{0, matrices.size() - 1, false}};
  std::vector<Tensor> done;
  while (!pending.empty()) {
    Range r = pending.back();
    pending.pop_back();
    if (r.first == r.last) {
      done.push_back(matrices[r.first]);
    } else if (r.expanded) {
      Tensor right = done.back();
      done.pop_back();
      done.back() = product(call, done.back(), right);
    } else {
      size_t k = order.split(r.first, r.last);
      pending.push_back({r.first, r.last, true});
      pending.push_back({k + 1, r.last, false});
      pending.push_back({r.first, k, false});
    }
  }
  return done.back();
}

constexpr size_t kMaxChain = 2000;  // the order takes a table of n by n entries

void inferMultiDot(InferCall& call) {
  std::vector<TensorInfo> t = call.tensors(0);
  call.require(t.size() >= 2 && t.size() <= kMaxChain, "multi_dot(): expected 2 to {} tensors but got {}", kMaxChain,
               t.size());
  if (!t.front().hasRank || !t.back().hasRank) return call.resultOfUnknownRank(t[0].dtype);
  Dims sizes;
  if (t.front().rank() == 2) sizes.push_back(t.front().sizes[0]);
  if (t.back().rank() == 2) sizes.push_back(t.back().sizes[1]);
  call.result(t[0].dtype, sizes);
}
void inferChainMatmul(InferCall& call) {
  std::vector<TensorInfo> t = call.tensors(0);
  call.require(!t.empty(), "chain_matmul(): expected one or more matrices");
  t.size() == 1 ? call.result(t[0]) : inferMultiDot(call);
}
void multiDotKernel(KernelCall& call) {
  std::vector<Tensor> t = call.tensors(0);
  call.require(t.size() >= 2 && t.size() <= kMaxChain, "multi_dot(): expected 2 to {} tensors but got {}", kMaxChain,
               t.size());
  for (size_t i = 0; i < t.size(); ++i) {
    call.require(t[i].defined(), "multi_dot(): tensor {} is None", i);
    bool outer = i == 0 || i + 1 == t.size();
    call.require(t[i].rank() == 2 || (outer && t[i].rank() == 1),
                 "multi_dot(): tensor {} must have {} dimensions but has {}", i, outer ? "1 or 2" : "2", t[i].rank());
    call.require(t[i].dtype() == t[0].dtype(),
                 "multi_dot(): all tensors must be of the same dtype but tensor 0 is {} and tensor {} is {}",
                 pythonName(t[0].dtype()), i, pythonName(t[i].dtype()));
  }
  bool rowVector = t.front().rank() == 1, columnVector = t.back().rank() == 1;
  if (rowVector) t.front() = unsqueezed(t.front(), 0);
  if (columnVector) t.back() = unsqueezed(t.back(), 1);
  for (size_t i = 0; i + 1 < t.size(); ++i)
    call.require(t[i].sizes()[1] == t[i + 1].sizes()[0],
                 "multi_dot(): tensors {} and {} with shapes {} and {} cannot be multiplied", i, i + 1,
                 dimsText(t[i].sizes()), dimsText(t[i + 1].sizes()));
  Tensor result = chainProduct(call, t);
  if (columnVector) result = squeezedAt(result, 1);
  if (rowVector) result = squeezedAt(result, 0);
  call.setResult(result);
}

void chainMatmulKernel(KernelCall& call) {
  std::vector<Tensor> t = call.tensors(0);
  call.require(!t.empty(), "chain_matmul(): expected one or more matrices");
  for (const Tensor& m : t)
    call.require(m.defined() && m.rank() == 2, "chain_matmul(): expected matrices, but got a tensor of {} dimensions",
                 m.defined() ? m.rank() : 0);
  if (t.size() == 1) return call.setResult(cloneTensor(t[0]));
  multiDotKernel(call);
}

// ---- vander ----

void inferVander(InferCall& call) {
  TensorInfo x = call.rankedTensor(0);
  constexpr DTypeSet kTypes = DTypeSet{DType::Float32, DType::Float64} | kIntegerTypes | kComplexTypes;
  call.require(x.dtype == DType::Undefined || kTypes.contains(x.dtype),
               "linalg.vander supports floating point, complex and integer tensors, but got {}", pythonName(x.dtype));
  Dims sizes(x.sizes);
  if (sizes.empty()) sizes.push_back(1);
  int64_t n = call.isNone(1) ? sizes[sizes.size() - 1] : call.integer(1);
  call.require(!isKnownSize(n) || n > 1, "N must be greater than 1, but is {}", n);
  sizes.push_back(n);
  call.result(isIntegral(x.dtype, false) ? DType::Int64 : x.dtype, sizes);
}
void vanderKernel(KernelCall& call) {
  Tensor x = call.tensor(0), out = call.out();
  int64_t last = out.rank() - 1, n = out.sizes()[last];
  if (x.rank() == 0) x = unsqueezed(x, 0);
  fillTensor(narrowed(out, last, 0, 1), 1);
  Tensor rest = narrowed(out, last, 1, n - 1);
  Tensor repeated = expandedTo(unsqueezed(x, last), rest.sizes());
  copyTensor(rest, invokeTensor(call, "aten::cumprod", {repeated, last, IValue()}));
}

}  // namespace

void registerMatrixFunctionsOps(OpRegistry& ops) {
  for (auto schema : {"aten::matrix_power", "aten::linalg_matrix_power"})
    ops.add({.schema = schema,
             .infer = inferSquare,
             .kernel = matrixPowerKernel,
             .convert = convertByParts<matrixPowerKernel>,
             .dtypes = kRealTypes | kComplexTypes,
             .traits = {Trait::OwnStrides}});
  for (auto schema : {"aten::matrix_exp", "aten::linalg_matrix_exp"})
    ops.add({.schema = schema, .infer = inferMatrixExp, .kernel = matrixExpKernel, .dtypes = kAllTypes});
  ops.add({.schema = "aten::linalg_multi_dot",
           .infer = inferMultiDot,
           .kernel = multiDotKernel,
           .convert = convertByParts<multiDotKernel>,
           .dtypes = kAllTypes});
  ops.add(
      {.schema = "aten::chain_matmul", .infer = inferChainMatmul, .kernel = chainMatmulKernel, .dtypes = kAllTypes});
  ops.add({.schema = "aten::linalg_vander", .infer = inferVander, .kernel = vanderKernel, .dtypes = kAllTypes});
}

}  // namespace tscompile
