// Systems of linear equations: solve, inverse, determinants, triangular systems, least squares.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/alone/factor_layer.h"
#include "runtime/kernels/openblas/lapack.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// ---- LU of square matrices ----

struct Lu {
  Tensor factors, pivots, info;
  bool ofTransposed;  // rows in memory were taken for columns, which saves a transposition
};

Lu factor(KernelCall& call, const Tensor& a) {
  bool transpose = a.isContiguous() && !isComplex(a.dtype());
  DimSpan batch = batchOf(a.sizes());
  Lu lu{copyColumns(transpose ? transposed(a, a.rank() - 2, a.rank() - 1) : a),
        Tensor::empty(DType::Int32, a.sizes().first(static_cast<size_t>(a.rank()) - 1)),
        Tensor::empty(DType::Int32, batch), transpose};
  visitMatrixType(a.dtype(), [&](auto sample) {
    Matrices<decltype(sample)> all(lu.factors);
    for (int64_t i = 0; i < all.count; ++i) {
      lu.info.data<int32_t>()[i] =
          lapack::getrf(all.rows, all.columns, all[i], lu.pivots.data<int32_t>() + i * all.rows);
      call.context().checkInterrupt(all.rows * all.columns * 8);
    }
  });
  return lu;
}

// Index of the first matrix that is singular, or -1.
int64_t firstSingular(const Lu& lu) {
  for (int64_t i = 0; i < lu.info.numel(); ++i)
    if (lu.info.data<int32_t>()[i] > 0) return i;
  return -1;
}

// Solves op(LU) X = B in place; the batch dimensions of the factors are broadcast to those of `b`.
void substitute(KernelCall& call, const Tensor& factors, const Tensor& pivots, char op, const Tensor& b) {
  DimSpan batch = batchOf(b.sizes());
  std::vector<int64_t> factorAt = batchOffsets(factors, batch), pivotsAt = batchOffsets(pivots, batch, 1);
  visitMatrixType(b.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Matrices<T> all(b);
    for (int64_t i = 0; i < all.count; ++i) {
      auto at = static_cast<size_t>(i);
      lapack::getrs(op, all.rows, all.columns, factors.data<T>() + factorAt[at], pivots.data<int32_t>() + pivotsAt[at],
                    all[i]);
      call.context().checkInterrupt(all.rows * all.columns * 8);
    }
  });
}

// The solution of op(A) X = B, or of X op(A) = B; op is the adjoint if `adjoint`. `sizes` are those of X.
Tensor solveWith(KernelCall& call, const Tensor& factors, const Tensor& pivots, bool left, bool transposedOp,
                 bool conjugatedOp, const Tensor& b, DimSpan sizes) {
  char transposeOp = conjugatedOp ? 'C' : 'T';
  if (left) {
    Tensor x = copyColumns(b, sizes);
    substitute(call, factors, pivots, transposedOp ? transposeOp : 'N', x);
    return x;
  }
  // X op(A) = B is op(A)^T X^T = B^T, or the same with adjoints.
  Dims swapped(sizes);
  std::swap(swapped[sizes.size() - 2], swapped[sizes.size() - 1]);
  auto flipped = [&](const Tensor& t) { return conjugatedOp ? adjoint(t) : transposed(t, t.rank() - 2, t.rank() - 1); };
  Tensor x = copyColumns(flipped(b), swapped);
  substitute(call, factors, pivots, transposedOp ? 'N' : transposeOp, x);
  return flipped(x);
}

// ---- solve ----

// Whether B holds vectors: it has one dimension, or those of A but for the last.
bool isVectorRhs(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  if (b.rank() == 1) return true;
  if (b.rank() + 1 != a.rank()) return false;
  bool unknown = false;
  for (size_t d = 0; d < b.rank(); ++d) {
    if (differ(a.sizes[d], b.sizes[d])) return false;
    unknown |= a.sizes[d] != b.sizes[d];
  }
  if (unknown && !call.isRun()) throw InferCall::NotKnown{};
  return true;
}

void requireFits(const InferCall& call, int64_t n, int64_t rows, int64_t columns, bool left) {
  call.require(!differ(n, left ? rows : columns),
               "incompatible shapes of A and B for the equation {} ({}x{} and {}x{})", left ? "AX = B" : "XA = B", n, n,
               rows, columns);
}

void inferSolve(InferCall& call) {
  TensorInfo a = squareArgument(call, 0), b = call.rankedTensor(1);
  requireSameDType(call, a, b);
  bool vector = isVectorRhs(call, a, b), left = call.flag(2);
  call.require(left || !vector, "a vector cannot be solved for from the right: the shapes are {} and {}",
               dimsText(a.sizes), dimsText(b.sizes));
  Dims sizes(b.sizes);
  if (vector) sizes.push_back(1);
  call.require(sizes.size() >= 2, "the input tensor B must have at least 2 dimensions");
  int64_t n = a.sizes[a.rank() - 1], rows = sizes[sizes.size() - 2], columns = sizes[sizes.size() - 1];
  requireFits(call, n, rows, columns, left);
  Dims batch = broadcastBatches(a.sizes, sizes);
  call.result(a.dtype, vector ? withVector(batch, rows) : withMatrix(batch, rows, columns));
}
void inferSolveEx(InferCall& call) {
  inferSolve(call);
  call.result(DType::Int32, batchOf(call.tensor(0).sizes));
}
void inferSolveAll(InferCall& call) {
  inferSolve(call);
  TensorInfo a = call.tensor(0);
  call.result(a);
  call.result(DType::Int32, a.sizes.first(a.rank() - 1));
  call.result(DType::Int32, batchOf(a.sizes));
}

// Solves with arguments A, B, left.
Tensor solve(KernelCall& call, Lu& lu, bool check) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  lu = factor(call, a);
  if (int64_t i = firstSingular(lu); i >= 0 && check)
    call.fail("torch.{}The solver failed because the input matrix is singular.", batchPrefix(call, a, i));
  InferCall infer(call.op(), call.arguments(), call.size());
  bool vector = isVectorRhs(infer, infer.tensor(0), infer.tensor(1));
  Dims sizes = call.spec().sizes;
  if (vector) {
    b = unsqueezed(b, b.rank());
    sizes.push_back(1);
  }
  Tensor x = solveWith(call, lu.factors, lu.pivots, call.flag(2), lu.ofTransposed, false, b, sizes);
  return vector ? squeezedAt(x, x.rank() - 1) : x;
}

void solveKernel(KernelCall& call) {
  Lu lu;
  call.setResult(solve(call, lu, true));
}
void solveExKernel(KernelCall& call) {
  Lu lu;
  call.setResult(solve(call, lu, call.flag(3)));
  call.setResult(1, lu.info);
}
void solveAllKernel(KernelCall& call) {
  Lu lu;
  call.setResult(solve(call, lu, call.flag(3)));
  call.setResult(1, lu.factors);
  call.setResult(2, lu.pivots);
  call.setResult(3, lu.info);
}

// ---- lu_solve ----

// Arguments in the order of linalg_lu_solve; the older lu_solve has B first.
struct LuSolve {
  size_t lu, pivots, b;
  bool hasFlags;
};
inline constexpr LuSolve kLuSolve{0, 1, 2, true}, kOldLuSolve{1, 2, 0, false};

template <const LuSolve& kAt>
void inferLuSolve(InferCall& call) {
  TensorInfo lu = squareArgument(call, kAt.lu, "LU"), pivots = call.rankedTensor(kAt.pivots),
             b = matrixArgument(call, kAt.b, "B");
  requireSameDType(call, lu, b);
  call.require(pivots.dtype == DType::Int32 || pivots.dtype == DType::Undefined,
               "the pivots should be a tensor of int32, not {}", pythonName(pivots.dtype));
  bool left = !kAt.hasFlags || call.flag(3);
  int64_t rows = b.sizes[b.rank() - 2], columns = b.sizes[b.rank() - 1];
  requireFits(call, lu.sizes[lu.rank() - 1], rows, columns, left);
  bool same = pivots.rank() + 1 == lu.rank();
  for (size_t d = 0; same && d < pivots.rank(); ++d) same = !differ(pivots.sizes[d], lu.sizes[d]);
  call.require(same, "expected LU.shape[:-1] and pivots.shape to be the same, but got pivots with shape {}",
               dimsText(pivots.sizes));
  call.result(b.dtype, withMatrix(broadcastBatches(lu.sizes, b.sizes), rows, columns));
}

template <const LuSolve& kAt>
void luSolveKernel(KernelCall& call) {
  Tensor lu = copyColumns(call.tensor(kAt.lu)), pivots = contiguous(call.tensor(kAt.pivots));
  int64_t n = rowsOf(lu);
  for (int64_t i = 0; i < pivots.numel(); ++i) {
    int32_t p = pivots.data<int32_t>()[i];
    call.require(p >= 1 && p <= n, "the pivots must be between 1 and {}, the number of rows, but one is {}", n, p);
  }
  bool left = !kAt.hasFlags || call.flag(3), adjointOp = kAt.hasFlags && call.flag(4);
  call.setResult(solveWith(call, lu, pivots, left, adjointOp, true, call.tensor(kAt.b), call.spec().sizes));
}

// ---- inverse ----

void inferInverse(InferCall& call) { call.result(squareArgument(call, 0)); }
void inferInverseEx(InferCall& call) {
  inferInverse(call);
  call.result(DType::Int32, batchOf(call.tensor(0).sizes));
}

Tensor invert(KernelCall& call, const Lu& lu, bool check) {
  if (int64_t i = firstSingular(lu); i >= 0 && check)
    call.fail(
        "{}The diagonal element {} is zero, the inversion could not be completed because the input matrix is singular.",
        batchPrefix(call, lu.factors, i), lu.info.data<int32_t>()[i]);
  Tensor x = zeroColumns(lu.factors.dtype(), lu.factors.sizes());
  visitMatrixType(x.dtype(), [&](auto sample) {
    Matrices<decltype(sample)> all(x);
    for (int64_t m = 0; m < all.count; ++m)
      for (int64_t i = 0; i < all.rows; ++i) all[m][i * all.rows + i] = 1;
  });
  substitute(call, lu.factors, lu.pivots, lu.ofTransposed ? 'T' : 'N', x);
  return x;
}

void inverseKernel(KernelCall& call) { call.setResult(invert(call, factor(call, call.tensor(0)), true)); }
void inverseExKernel(KernelCall& call) {
  Lu lu = factor(call, call.tensor(0));
  call.setResult(invert(call, lu, call.flag(1)));
  call.setResult(1, lu.info);
}

// ---- determinants ----

void inferDet(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.result(a.dtype, batchOf(a.sizes));
}
void inferDetAll(InferCall& call) {
  inferDet(call);
  TensorInfo a = call.tensor(0);
  call.result(a);
  call.result(DType::Int32, a.sizes.first(a.rank() - 1));
}
void inferSlogdet(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.result(a.dtype, batchOf(a.sizes));
  call.result(a.dtype == DType::Undefined ? a.dtype : realPart(a.dtype), batchOf(a.sizes));
}
void inferSlogdetAll(InferCall& call) {
  inferSlogdet(call);
  TensorInfo a = call.tensor(0);
  call.result(a);
  call.result(DType::Int32, a.sizes.first(a.rank() - 1));
}

// Calls f(index, the diagonal as f(i), n, whether rows were exchanged an odd number of times) for each matrix.
template <class T, class F>
void forEachDiagonal(const Lu& lu, F&& f) {
  Matrices<T> all(lu.factors);
  for (int64_t m = 0; m < all.count; ++m) {
    const int32_t* pivots = lu.pivots.data<int32_t>() + m * all.rows;
    bool odd = false;
    for (int64_t i = 0; i < all.rows; ++i) odd ^= pivots[i] != i + 1;
    f(
        m, [&](int64_t i) { return all[m][i * all.rows + i]; }, all.rows, odd);
  }
}

void determinant(const Lu& lu, const Tensor& out) {
  visitMatrixType(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    forEachDiagonal<T>(lu, [&](int64_t m, auto&& diagonal, int64_t n, bool odd) {
      T product(1);
      for (int64_t i = 0; i < n; ++i) product *= diagonal(i);
      out.data<T>()[m] = odd ? -product : product;
    });
  });
}

// Factors of absolute value 1, and the logarithms of the absolute values.
void signAndLog(const Lu& lu, const Tensor& sign, const Tensor& logarithm) {
  visitMatrixType(sign.dtype(), [&](auto sample) {
    using T = decltype(sample);
    using R = lapack::Real<T>;
    forEachDiagonal<T>(lu, [&](int64_t m, auto&& diagonal, int64_t n, bool odd) {
      T s(1);
      R sum(0);
      for (int64_t i = 0; i < n; ++i) {
        T d = diagonal(i);
        R size = std::abs(d);
        if constexpr (std::is_floating_point_v<T>)
          s *= static_cast<T>((d > 0) - (d < 0));  // 0 for NaN
        else
          s *= size == 0 ? T(0) : d / size;
        sum += std::log(size);
      }
      sign.data<T>()[m] = odd ? -s : s;
      logarithm.data<R>()[m] = sum;
    });
  });
}

void detKernel(KernelCall& call) { determinant(factor(call, call.tensor(0)), call.out()); }
void detAllKernel(KernelCall& call) {
  Lu lu = factor(call, call.tensor(0));
  determinant(lu, call.out());
  call.setResult(1, lu.factors);
  call.setResult(2, lu.pivots);
}
void slogdetKernel(KernelCall& call) { signAndLog(factor(call, call.tensor(0)), call.out(0), call.out(1)); }
void slogdetAllKernel(KernelCall& call) {
  Lu lu = factor(call, call.tensor(0));
  signAndLog(lu, call.out(0), call.out(1));
  call.setResult(2, lu.factors);
  call.setResult(3, lu.pivots);
}
void logdetKernel(KernelCall& call) {
  Tensor out = call.out(), sign = Tensor::empty(out.dtype(), out.sizes()),
         logarithm = Tensor::empty(realPart(out.dtype()), out.sizes());
  signAndLog(factor(call, call.tensor(0)), sign, logarithm);
  visitMatrixType(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    using R = lapack::Real<T>;
    for (int64_t i = 0; i < out.numel(); ++i) {
      T s = sign.data<T>()[i];
      R sum = logarithm.data<R>()[i];
      if constexpr (std::is_floating_point_v<T>)
        out.data<T>()[i] = s == T(-1) ? std::numeric_limits<T>::quiet_NaN() : sum;
      else
        out.data<T>()[i] = std::log(s) + sum;
    }
  });
}

// ---- triangular systems ----

// Solves op(A) X = B (or X op(A) = B) in place for the triangle that `upper` names.
void substituteTriangle(KernelCall& call, const Tensor& a, const Tensor& x, bool left, bool upper, char op, bool unit) {
  std::vector<int64_t> offsets = batchOffsets(a, batchOf(x.sizes()));
  visitMatrixType(x.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Matrices<T> all(x);
    for (int64_t i = 0; i < all.count && x.numel() > 0; ++i) {
      lapack::trsm(left ? 'L' : 'R', upper ? 'U' : 'L', op, unit ? 'U' : 'N', all.rows, all.columns,
                   a.data<T>() + offsets[static_cast<size_t>(i)], all[i]);
      call.context().checkInterrupt(all.rows * all.columns * 8);
    }
  });
}

void inferTriangularSolve(InferCall& call) {
  TensorInfo b = matrixArgument(call, 0, "b"), a = squareArgument(call, 1);
  requireSameDType(call, a, b);
  int64_t n = a.sizes[a.rank() - 1], rows = b.sizes[b.rank() - 2], columns = b.sizes[b.rank() - 1];
  requireFits(call, n, rows, columns, true);
  Dims batch = broadcastBatches(a.sizes, b.sizes);
  call.result(b.dtype, withMatrix(batch, rows, columns));
  call.result(a.dtype, withMatrix(batch, n, n));
}

void triangularSolveKernel(KernelCall& call) {
  Tensor x = copyColumns(call.tensor(0), call.spec(0).sizes), a = copyColumns(call.tensor(1), call.spec(1).sizes);
  substituteTriangle(call, a, x, true, call.flag(2), call.flag(3) ? 'T' : 'N', call.flag(4));
  call.setResult(0, x);
  call.setResult(1, a);
}

// B takes the dtype of A.
void inferSolveTriangular(InferCall& call) {
  TensorInfo a = squareArgument(call, 0), b = matrixArgument(call, 1, "B");
  int64_t rows = b.sizes[b.rank() - 2], columns = b.sizes[b.rank() - 1];
  requireFits(call, a.sizes[a.rank() - 1], rows, columns, call.flag(3));
  call.result(a.dtype, withMatrix(broadcastBatches(a.sizes, b.sizes), rows, columns));
}

void solveTriangularKernel(KernelCall& call) {
  Tensor a = copyColumns(call.tensor(0)), x = copyColumns(convertTensor(call.tensor(1), a.dtype()), call.spec().sizes);
  substituteTriangle(call, a, x, call.flag(3), call.flag(2), 'N', call.flag(4));
  call.setResult(x);
}

// ---- least squares ----

struct LeastSquaresCall {
  lapack::LeastSquares driver = lapack::LeastSquares::Gelsy;
  bool vector = false;
  int64_t m, n, columns;
  Dims batch, inputBatch;  // of the solution; of the matrices, which have ranks
  bool hasRank() const { return driver != lapack::LeastSquares::Gels; }
  bool hasSingularValues() const {
    return driver == lapack::LeastSquares::Gelsd || driver == lapack::LeastSquares::Gelss;
  }
};

LeastSquaresCall describe(const InferCall& call) {
  LeastSquaresCall p;
  TensorInfo a = matrixArgument(call, 0, "input"), b = call.rankedTensor(1);
  requireSameDType(call, a, b);
  call.require(a.rank() == b.rank() || a.rank() == b.rank() + 1,
               "the input must have as many dimensions as the other tensor, or one more, but they have {} and {}",
               a.rank(), b.rank());
  if (!call.isNone(3)) {
    std::string name(call.text(3));
    for (char& c : name) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c);
    constexpr std::string_view kNames[] = {"gels", "gelsy", "gelsd", "gelss"};
    auto at = std::find(std::begin(kNames), std::end(kNames), name);
    call.require(at != std::end(kNames), "parameter `driver` should be one of (gels, gelsy, gelsd, gelss), not {}",
                 name);
    p.driver = static_cast<lapack::LeastSquares>(at - kNames);
  }
  p.m = a.sizes[a.rank() - 2];
  p.n = a.sizes[a.rank() - 1];
  p.inputBatch = batchOf(a.sizes);
  p.vector = a.rank() != b.rank();
  int64_t rows = b.sizes[b.rank() - (p.vector ? 1 : 2)];
  call.require(!differ(p.m, rows), "the input has {} rows, but the other tensor has {}", p.m, rows);
  p.columns = p.vector ? 1 : b.sizes[b.rank() - 1];
  if (p.vector) {
    for (size_t d = 0; d + 1 < b.rank(); ++d)
      call.require(!differ(a.sizes[d], b.sizes[d]), "the batch dimensions of {} and {} differ", dimsText(a.sizes),
                   dimsText(b.sizes));
    p.batch = batchOf(a.sizes);
  } else {
    p.batch = broadcastBatches(a.sizes, b.sizes);
  }
  return p;
}

void inferLstsq(InferCall& call) {
  LeastSquaresCall p = describe(call);
  DType dtype = call.tensor(0).dtype, real = dtype == DType::Undefined ? dtype : realPart(dtype);
  call.result(dtype, p.vector ? withVector(p.batch, p.n) : withMatrix(p.batch, p.n, p.columns));
  // Whether there are residuals depends on the ranks.
  if (call.isRun())
    call.result(real, Dims{0});
  else
    call.resultUnknown();
  call.result(DType::Int64, p.hasRank() ? p.inputBatch : Dims{0});
  int64_t least = leastSize(p.m, p.n);
  call.result(real, p.hasSingularValues() ? withVector(p.inputBatch, least) : Dims{0});
}

template <class T>
bool allFinite(const T* p, int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!std::isfinite(std::real(p[i])) || !std::isfinite(std::imag(p[i]))) return false;
  return true;
}

// The squared sizes of what is left, which LAPACK stores below the solution; empty if a matrix has not full rank.
template <class T>
Tensor residuals(const LeastSquaresCall& p, const Tensor& solution, const Tensor& ranks) {
  using R = lapack::Real<T>;
  bool full = p.m > p.n && p.driver != lapack::LeastSquares::Gelsy;
  for (int64_t i = 0; full && p.hasSingularValues() && i < ranks.numel(); ++i) full = ranks.data<int64_t>()[i] == p.n;
  if (!full) return Tensor::empty(kDTypeOf<R>, Dims{0});
  Tensor out = Tensor::empty(kDTypeOf<R>, withVector(p.batch, p.columns));
  const T* column = solution.data<T>();
  for (int64_t i = 0; i < out.numel(); ++i, column += p.m) {
    R sum(0);
    for (int64_t k = p.n; k < p.m; ++k) sum += std::norm(column[k]);
    out.data<R>()[i] = sum;
  }
  return out;
}

template <class T>
void leastSquares(KernelCall& call, const LeastSquaresCall& p, Tensor b) {
  using R = lapack::Real<T>;
  Tensor a = copyColumns(call.tensor(0), withMatrix(p.batch, p.m, p.n));
  Tensor x = zeroColumns(a.dtype(), withMatrix(p.batch, std::max(p.m, p.n), p.columns)), ranks = call.out(2),
         values = call.out(3);
  copyTensor(narrowed(x, x.rank() - 2, 0, p.m), b);
  call.require(!p.hasSingularValues() || p.columns > 0,
               "gelsd and gelss need at least one column on the right-hand side");
  double rcond =
      call.isNone(2) ? std::numeric_limits<R>::epsilon() * static_cast<R>(std::max(p.m, p.n)) : call.number(2);
  Matrices<T> matrices(a), columns(x);
  std::vector<int64_t> rankAt, valuesAt;
  if (p.hasRank()) rankAt = batchOffsets(ranks, p.batch, 0);
  if (p.hasSingularValues()) valuesAt = batchOffsets(values, p.batch, 1);
  for (int64_t i = 0; i < matrices.count; ++i) {
    int32_t rank = 0;
    R* s = p.hasSingularValues() ? values.data<R>() + valuesAt[static_cast<size_t>(i)] : nullptr;
    int info = p.hasSingularValues() && !allFinite(matrices[i], p.m * p.n)
                   ? 2
                   : lapack::leastSquares(p.driver, p.m, p.n, p.columns, matrices[i], columns[i], rcond, s, &rank);
    if (info)
      call.fail(
          "{}the least squares solution could not be computed because the input matrix does not have full rank (error "
          "code: {})",
          batchPrefix(call, a, i), info);
    if (p.hasRank()) ranks.data<int64_t>()[rankAt[static_cast<size_t>(i)]] = rank;
    call.context().checkInterrupt(p.m * p.n * 8);
  }
  Tensor solution = narrowed(x, x.rank() - 2, 0, p.n);
  call.setResult(0, p.vector ? squeezedAt(solution, solution.rank() - 1) : solution);
  call.setResult(1, residuals<T>(p, x, ranks));
}

void lstsqKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  LeastSquaresCall p = describe(infer);
  Tensor b = call.tensor(1);
  if (p.vector) b = unsqueezed(b, b.rank());
  visitMatrixType(b.dtype(), [&](auto sample) { leastSquares<decltype(sample)>(call, p, b); });
}

// ---- tensorinv, tensorsolve: tensors seen as matrices ----

int64_t productOf(const InferCall& call, DimSpan sizes) {
  std::optional<int64_t> count = knownNumel(sizes);
  if (!count && !call.isRun()) throw InferCall::NotKnown{};
  call.require(count.has_value(), "a tensor of size {} has too many elements", dimsText(sizes));
  return *count;
}

void inferTensorinv(InferCall& call) {
  TensorInfo a = call.rankedTensor(0);
  int64_t ind = call.integer(1);
  call.require(ind > 0, "expected a strictly positive integer for 'ind', but got {}", ind);
  call.require(ind <= static_cast<int64_t>(a.rank()), "'ind' is {}, but the tensor has {} dimensions", ind, a.rank());
  auto at = static_cast<size_t>(ind);
  DimSpan first = a.sizes.first(at), last = a.sizes.subspan(at);
  int64_t rows = productOf(call, first), columns = productOf(call, last);
  call.require(
      rows == columns,
      "expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), but got {} != {}",
      columns, rows);
  Dims sizes(last);
  sizes.append(first.begin(), first.end());
  call.result(a.dtype, sizes);
}

void tensorinvKernel(KernelCall& call) {
  Tensor a = call.tensor(0);
  int64_t n = 1;
  for (int64_t d = 0; d < call.integer(1); ++d) n *= a.size(static_cast<int>(d));
  Tensor inverse = invokeTensor(call, "aten::linalg_inv", {reshaped(a, Dims{n, n})});
  call.setResult(reshaped(inverse, call.spec().sizes));
}

// The dimensions of A in the order in which it is seen as a matrix: those in `dims` go to the end.
Dims solveOrder(const InferCall& call, const TensorInfo& a) {
  Dims moved, order;
  if (!call.isNone(2)) moved = call.dims(2, a.rank(), false);
  for (int64_t d = 0; d < static_cast<int64_t>(a.rank()); ++d)
    if (std::find(moved.begin(), moved.end(), d) == moved.end()) order.push_back(d);
  order.append(moved.begin(), moved.end());
  return order;
}

void inferTensorsolve(InferCall& call) {
  TensorInfo a = call.rankedTensor(0), b = call.rankedTensor(1);
  requireSameDType(call, a, b);
  Dims sizes;
  for (int64_t d : solveOrder(call, a)) sizes.push_back(a.sizes[static_cast<size_t>(d)]);
  call.require(b.rank() <= a.rank(), "the right-hand side has {} dimensions, more than the {} of the tensor", b.rank(),
               a.rank());
  DimSpan first = DimSpan(sizes).first(b.rank()), last = DimSpan(sizes).subspan(b.rank());
  int64_t rows = productOf(call, first), columns = productOf(call, last);
  call.require(rows == columns,
               "expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
               "prod(self.shape[:other.ndim]), but got {} != {}",
               columns, rows);
  call.result(a.dtype, last);
}

void tensorsolveKernel(KernelCall& call) {
  InferCall infer(call.op(), call.arguments(), call.size());
  Tensor a = call.tensor(0).permuted(solveOrder(infer, infer.tensor(0))), b = call.tensor(1);
  int64_t n = 1;
  for (int64_t size : call.spec().sizes) n *= size;
  call.require(b.numel() == n, "the right-hand side has {} elements, but {} are needed", b.numel(), n);
  Tensor x = invokeTensor(call, "aten::linalg_solve", {reshaped(a, Dims{n, n}), reshaped(b, Dims{n}), true});
  call.setResult(reshaped(x, call.spec().sizes));
}

}  // namespace

void registerLinalgSolveOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMatrixTypes,
             .traits = {Trait::OwnStrides}});
  };
  add("aten::linalg_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor", inferSolve, solveKernel, convertSolve);
  add("aten::linalg_solve_ex", inferSolveEx, solveExKernel, convertSolveEx);
  add("aten::_linalg_solve_ex", inferSolveAll, solveAllKernel, convertSolveEx);
  add("aten::linalg_lu_solve", inferLuSolve<kLuSolve>, luSolveKernel<kLuSolve>);
  add("aten::lu_solve(Tensor self, Tensor LU_data, Tensor LU_pivots) -> Tensor", inferLuSolve<kOldLuSolve>,
      luSolveKernel<kOldLuSolve>);

  add("aten::inverse(Tensor self) -> Tensor", inferInverse, inverseKernel, convertInverse);
  add("aten::linalg_inv(Tensor A) -> Tensor", inferInverse, inverseKernel, convertInverse);
  add("aten::linalg_inv_ex(Tensor A, *, bool check_errors=False) -> (Tensor inverse, Tensor info)", inferInverseEx,
      inverseExKernel, convertInverseEx);

  add("aten::det(Tensor self) -> Tensor", inferDet, detKernel, convertDeterminant);
  add("aten::linalg_det(Tensor A) -> Tensor", inferDet, detKernel, convertDeterminant);
  add("aten::_linalg_det(Tensor A) -> (Tensor result, Tensor LU, Tensor pivots)", inferDetAll, detAllKernel,
      convertDeterminant);
  add("aten::slogdet(Tensor self) -> (Tensor sign, Tensor logabsdet)", inferSlogdet, slogdetKernel,
      convertSignAndLogarithm);
  add("aten::linalg_slogdet(Tensor A) -> (Tensor sign, Tensor logabsdet)", inferSlogdet, slogdetKernel,
      convertSignAndLogarithm);
  add("aten::_linalg_slogdet", inferSlogdetAll, slogdetAllKernel, convertSignAndLogarithm);
  add("aten::logdet(Tensor self) -> Tensor", inferDet, logdetKernel, convertLogDeterminant);

  add("aten::triangular_solve", inferTriangularSolve, triangularSolveKernel);
  add("aten::linalg_solve_triangular", inferSolveTriangular, solveTriangularKernel, convertSolveTriangular);
  add("aten::linalg_lstsq", inferLstsq, lstsqKernel);
  add("aten::linalg_tensorinv(Tensor self, int ind=2) -> Tensor", inferTensorinv, tensorinvKernel);
  add("aten::linalg_tensorsolve(Tensor self, Tensor other, int[]? dims=None) -> Tensor", inferTensorsolve,
      tensorsolveKernel);
}

}  // namespace tscompile
