// Factorizations of matrices: Cholesky, LU, LDL, QR, and what is solved or unpacked from them.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/alone/factor_layer.h"
#include "runtime/kernels/openblas/lapack.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// Runs f(T, matrices of `t`, index) for each matrix.
template <class F>
void forEachMatrix(KernelCall& call, const Tensor& t, F&& f) {
  visitMatrixType(t.dtype(), [&](auto sample) {
    Matrices<decltype(sample)> all(t);
    for (int64_t i = 0; i < all.count; ++i) {
      f(all, i);
      call.context().checkInterrupt(all.rows * all.columns * 8);
    }
  });
}

// Zeros above (or below) the diagonal of column-major matrices.
template <class T>
void clearTriangle(T* a, int64_t rows, int64_t columns, bool above) {
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t i = above ? 0 : j + 1; i < (above ? std::min(j, rows) : rows); ++i) a[j * rows + i] = T(0);
}

// ---- Cholesky ----

void inferCholesky(InferCall& call) { call.result(squareArgument(call, 0)); }
void inferCholeskyEx(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.result(a);
  call.result(DType::Int32, batchOf(a.sizes));
}

[[noreturn]] void failNotPositive(const KernelCall& call, const Tensor& a, int64_t i, int info) {
  call.fail(
      "{}The factorization could not be completed because the input is not positive-definite (the leading minor of "
      "order {} is not positive-definite).",
      batchPrefix(call, a, i), info);
}

// L, or the upper factor, of argument 0; info goes to `infos` if it is given, else a failure stops the run.
Tensor choleskyFactor(KernelCall& call, bool upper, int32_t* infos, bool check) {
  Tensor factor = copyColumns(call.tensor(0));
  forEachMatrix(call, factor, [&](auto& all, int64_t i) {
    clearTriangle(all[i], all.rows, all.rows, !upper);
    int info = lapack::potrf(upper ? 'U' : 'L', all.rows, all[i]);
    if (info && check) failNotPositive(call, factor, i, info);
    if (infos) infos[i] = info;
  });
  return factor;
}

void choleskyKernel(KernelCall& call) { call.setResult(choleskyFactor(call, call.flag(1), nullptr, true)); }
void choleskyExKernel(KernelCall& call) {
  Tensor info = call.out(1);
  call.setResult(choleskyFactor(call, call.flag(1), info.data<int32_t>(), call.flag(2)));
}

void choleskyInverseKernel(KernelCall& call) {
  bool upper = call.flag(1);
  Tensor inverse = copyColumns(call.tensor(0));
  forEachMatrix(call, inverse, [&](auto& all, int64_t m) {
    auto* a = all[m];
    int64_t n = all.rows;
    int info = lapack::potri(upper ? 'U' : 'L', n, a);
    if (info)
      call.fail(
          "{}The diagonal element {} is zero, the inversion could not be completed because the input matrix is "
          "singular.",
          batchPrefix(call, inverse, m), info);
    // LAPACK fills one triangle.
    for (int64_t j = 0; j < n; ++j)
      for (int64_t i = j + 1; i < n; ++i) {
        auto &lower = a[j * n + i], &above = a[i * n + j];
        if constexpr (std::is_floating_point_v<std::decay_t<decltype(lower)>>)
          upper ? lower = above : above = lower;
        else
          upper ? lower = std::conj(above) : above = std::conj(lower);
      }
  });
  call.setResult(inverse);
}

void inferCholeskySolve(InferCall& call) {
  TensorInfo b = matrixArgument(call, 0, "b"), a = squareArgument(call, 1, "A");
  int64_t n = a.sizes[a.rank() - 1], rows = b.sizes[b.rank() - 2];
  call.require(!differ(n, rows), "incompatible matrix sizes: each A matrix is {} by {} but each b matrix is {} by {}",
               n, n, rows, b.sizes[b.rank() - 1]);
  requireSameDType(call, a, b);
  call.result(b.dtype, withMatrix(broadcastBatches(a.sizes, b.sizes), rows, b.sizes[b.rank() - 1]));
}

void choleskySolveKernel(KernelCall& call) {
  Tensor x = copyColumns(call.tensor(0), call.spec().sizes), a = copyColumns(call.tensor(1));
  std::vector<int64_t> offsets = batchOffsets(a, batchOf(x.sizes()));
  char uplo = call.flag(2) ? 'U' : 'L';
  forEachMatrix(call, x, [&](auto& all, int64_t i) {
    using T = std::decay_t<decltype(*all.data)>;
    lapack::potrs(uplo, all.rows, all.columns, a.data<T>() + offsets[static_cast<size_t>(i)], all[i]);
  });
  call.setResult(x);
}

// ---- LU ----

struct LuFactors {
  Tensor factors, pivots, info;
};

LuFactors factorLu(KernelCall& call, const Tensor& a, bool pivot) {
  call.require(pivot || a.numel() == 0, "LU without pivoting is not implemented on the CPU");
  DimSpan batch = batchOf(a.sizes());
  LuFactors lu{copyColumns(a), Tensor::empty(DType::Int32, withVector(batch, std::min(rowsOf(a), columnsOf(a)))),
               Tensor::empty(DType::Int32, batch)};
  int64_t k = columnsOf(lu.pivots.rank() > 1 ? lu.pivots : unsqueezed(lu.pivots, 0));
  forEachMatrix(call, lu.factors, [&](auto& all, int64_t i) {
    lu.info.data<int32_t>()[i] = lapack::getrf(all.rows, all.columns, all[i], lu.pivots.data<int32_t>() + i * k);
  });
  return lu;
}

void requireNonsingular(const KernelCall& call, const LuFactors& lu) {
  for (int64_t i = 0; i < lu.info.numel(); ++i)
    if (int info = lu.info.data<int32_t>()[i])
      call.fail("{}U[{},{}] is zero and using it to solve would result in a division by zero",
                batchPrefix(call, lu.factors, i), info, info);
}

void inferLuFactor(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  int64_t m = a.sizes[a.rank() - 2], n = a.sizes[a.rank() - 1];
  call.result(a);
  call.result(DType::Int32, withVector(batchOf(a.sizes), leastSize(m, n)));
}
void inferLuFactorEx(InferCall& call) {
  inferLuFactor(call);
  call.result(DType::Int32, batchOf(call.tensor(0).sizes));
}

void luFactorKernel(KernelCall& call) {
  LuFactors lu = factorLu(call, call.tensor(0), call.flag(1));
  requireNonsingular(call, lu);
  call.setResult(0, lu.factors);
  call.setResult(1, lu.pivots);
}
// linalg_lu_factor_ex; the older _lu_with_info never fails.
template <bool kChecks>
void luFactorExKernel(KernelCall& call) {
  LuFactors lu = factorLu(call, call.tensor(0), call.flag(1));
  if (kChecks && call.flag(2)) requireNonsingular(call, lu);
  call.setResult(0, lu.factors);
  call.setResult(1, lu.pivots);
  call.setResult(2, lu.info);
}

void resultPlu(InferCall& call, const TensorInfo& a, bool unpackData, bool unpackPivots) {
  int64_t m = a.sizes[a.rank() - 2], n = a.sizes[a.rank() - 1], k = leastSize(m, n);
  DimSpan batch = batchOf(a.sizes);
  auto result = [&](bool wanted, int64_t rows, int64_t columns) {
    call.result(a.dtype, wanted ? withMatrix(batch, rows, columns) : Dims{0});
  };
  result(unpackPivots, m, m);
  result(unpackData, m, k);
  result(unpackData, k, n);
}

void inferLu(InferCall& call) { resultPlu(call, matrixArgument(call, 0), true, true); }

void inferLuUnpack(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0, "LU_data"), pivots = call.tensor(1);
  bool data = call.flag(2), permutation = call.flag(3);
  call.require(!permutation || pivots.dtype == DType::Int32 || pivots.dtype == DType::Undefined,
               "LU_pivots is expected to be a tensor of int32, not {}", pythonName(pivots.dtype));
  resultPlu(call, a, data, permutation);
}

// The unit lower and the upper triangle of each LU, in any dtype.
void unpackFactors(const Tensor& lu, const Tensor& lower, const Tensor& upper) {
  Tensor dense = contiguous(lu);
  int64_t m = rowsOf(lu), n = columnsOf(lu), k = std::min(m, n), count = k ? lu.numel() / (m * n) : 0;
  visitDType(lu.dtype(), [&](auto sample) {
    using T = decltype(sample);
    const T zero{}, one = T(1.0f);
    const T* from = dense.data<T>();
    T *l = lower.data<T>(), *u = upper.data<T>();
    for (int64_t b = 0; b < count; ++b, from += m * n, l += m * k, u += k * n) {
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < k; ++j) l[i * k + j] = i > j ? from[i * n + j] : i == j ? one : zero;
      for (int64_t i = 0; i < k; ++i)
        for (int64_t j = 0; j < n; ++j) u[i * n + j] = i <= j ? from[i * n + j] : zero;
    }
  });
}

// Permutation matrices P with A = P L U, from LAPACK's exchanges of rows.
void unpackPivots(KernelCall& call, const Tensor& pivots, int64_t m, const Tensor& p) {
  DimSpan batch = batchOf(p.sizes());
  int64_t k = pivots.size(pivots.rank() - 1), count = 1;
  for (int64_t size : batch) count *= size;
  const int32_t* from = pivots.data<int32_t>();
  for (int64_t i = 0; i < pivots.numel(); ++i)
    call.require(from[i] >= 1 && from[i] <= m, "the pivots must be between 1 and {}, the number of rows, but one is {}",
                 m, from[i]);
  std::vector<int64_t> order(static_cast<size_t>(m));
  visitDType(p.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* out = p.data<T>();
    std::fill_n(out, p.numel(), T{});
    for (int64_t b = 0; b < count; ++b, from += k, out += m * m) {
      for (int64_t i = 0; i < m; ++i) order[static_cast<size_t>(i)] = i;
      for (int64_t i = 0; i < k; ++i) std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(from[i]) - 1]);
      for (int64_t i = 0; i < m; ++i) out[order[static_cast<size_t>(i)] * m + i] = T(1.0f);
    }
  });
}

void luKernel(KernelCall& call) {
  LuFactors lu = factorLu(call, call.tensor(0), call.flag(1));
  unpackPivots(call, lu.pivots, rowsOf(lu.factors), call.out(0));
  unpackFactors(lu.factors, call.out(1), call.out(2));
}

void luUnpackKernel(KernelCall& call) {
  Tensor lu = call.tensor(0), pivots = contiguous(call.tensor(1)), p = call.out(0), lower = call.out(1),
         upper = call.out(2);
  if (call.flag(3)) {
    int64_t m = rowsOf(lu), k = std::min(m, columnsOf(lu));
    Dims wanted = withVector(batchOf(lu.sizes()), k);
    call.require(std::equal(wanted.begin(), wanted.end(), pivots.sizes().begin(), pivots.sizes().end()),
                 "expected pivots of size {} but got {}", dimsText(wanted), dimsText(pivots.sizes()));
    unpackPivots(call, pivots, m, p);
  }
  if (call.flag(2)) unpackFactors(lu, lower, upper);
}

// ---- LDL ----

void inferLdlFactor(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.result(a);
  call.result(DType::Int32, a.sizes.first(a.rank() - 1));
}
void inferLdlFactorEx(InferCall& call) {
  inferLdlFactor(call);
  call.result(DType::Int32, batchOf(call.tensor(0).sizes));
}

template <bool kEx>
void ldlFactorKernel(KernelCall& call) {
  Tensor factors = copyColumns(call.tensor(0)), pivots = call.out(1);
  bool check = !kEx || call.flag(2);
  int32_t* infos = kEx ? call.out(2).template data<int32_t>() : nullptr;
  forEachMatrix(call, factors, [&](auto& all, int64_t i) {
    clearTriangle(all[i], all.rows, all.rows, true);
    int info = lapack::sytrf(call.flag(1), all.rows, all[i], pivots.data<int32_t>() + i * all.rows);
    if (info && check)
      call.fail("{}D[{},{}] is zero: the matrix is singular", batchPrefix(call, factors, i), info, info);
    if (infos) infos[i] = info;
  });
  call.setResult(factors);
}

void inferLdlSolve(InferCall& call) {
  TensorInfo a = squareArgument(call, 0, "LD"), pivots = call.rankedTensor(1), b = matrixArgument(call, 2, "B");
  int64_t n = a.sizes[a.rank() - 1];
  call.require(isIntegral(pivots.dtype, false) || pivots.dtype == DType::Undefined,
               "expected pivots to be integers, got {}", pythonName(pivots.dtype));
  bool same = pivots.rank() + 1 == a.rank();
  for (size_t d = 0; same && d < pivots.rank(); ++d) same = !differ(pivots.sizes[d], a.sizes[d]);
  call.require(same, "expected LD.shape[:-1] and pivots.shape to be the same, but got pivots with shape {}",
               dimsText(pivots.sizes));
  call.require(!differ(n, b.sizes[b.rank() - 2]),
               "incompatible matrix sizes: each A matrix is {} by {} but each b matrix is {} by {}", n, n,
               b.sizes[b.rank() - 2], b.sizes[b.rank() - 1]);
  requireSameDType(call, a, b);
  call.result(b.dtype, withMatrix(broadcastBatches(a.sizes, b.sizes), n, b.sizes[b.rank() - 1]));
}

// Negative pivots come in pairs, for blocks of two rows.
void checkLdlPivots(KernelCall& call, const int32_t* pivots, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    int64_t p = std::abs(int64_t{pivots[i]});
    bool pair = pivots[i] < 0;
    bool good = p >= 1 && p <= n && (!pair || (i + 1 < n && pivots[i + 1] < 0 && -int64_t{pivots[i + 1]} <= n));
    call.require(good, "the pivots are not those of an LDL factorization: {} at position {}", pivots[i], i);
    i += pair;
  }
}

void ldlSolveKernel(KernelCall& call) {
  Tensor x = copyColumns(call.tensor(2), call.spec().sizes), ld = copyColumns(call.tensor(0));
  Tensor pivots = convertTensor(call.tensor(1), DType::Int32);
  std::vector<int64_t> factorAt = batchOffsets(ld, batchOf(x.sizes())),
                       pivotsAt = batchOffsets(pivots, batchOf(x.sizes()), 1);
  forEachMatrix(call, x, [&](auto& all, int64_t i) {
    using T = std::decay_t<decltype(*all.data)>;
    auto at = static_cast<size_t>(i);
    const int32_t* p = pivots.data<int32_t>() + pivotsAt[at];
    checkLdlPivots(call, p, all.rows);
    lapack::sytrs(call.flag(3), all.rows, all.columns, ld.data<T>() + factorAt[at], p, all[i]);
  });
  call.setResult(x);
}

// ---- QR ----

// The sizes of Q and R.
void resultQr(InferCall& call, const TensorInfo& a, bool complete, bool onlyR) {
  int64_t m = a.sizes[a.rank() - 2], n = a.sizes[a.rank() - 1], k = complete ? m : leastSize(m, n);
  DimSpan batch = batchOf(a.sizes);
  call.result(a.dtype, onlyR ? Dims{0} : withMatrix(batch, m, k));
  call.result(a.dtype, withMatrix(batch, k, n));
}

void inferQr(InferCall& call) { resultQr(call, matrixArgument(call, 0), !call.flag(1), false); }
void inferLinalgQr(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  std::string_view mode = call.text(1);
  call.require(mode == "reduced" || mode == "complete" || mode == "r",
               "unrecognized mode '{}': expected 'reduced' (the default), 'r' or 'complete'", mode);
  resultQr(call, a, mode == "complete", mode == "r");
}

void qrKernel(KernelCall& call) {
  Tensor reflectors = copyColumns(call.tensor(0));
  int64_t m = rowsOf(reflectors), n = columnsOf(reflectors), k = std::min(m, n);
  bool wantsQ = call.spec(0).sizes.size() >= 2;
  Tensor r = zeroColumns(reflectors.dtype(), call.spec(1).sizes), tau = Tensor::empty(reflectors.dtype(), Dims{k});
  Tensor q = wantsQ ? zeroColumns(reflectors.dtype(), call.spec(0).sizes) : call.out(0);
  forEachMatrix(call, reflectors, [&](auto& all, int64_t b) {
    using T = std::decay_t<decltype(*all.data)>;
    T *a = all[b], *t = tau.data<T>();
    lapack::geqrf(m, n, a, t);
    int64_t rRows = rowsOf(r);
    T* upper = r.data<T>() + b * rRows * n;
    for (int64_t j = 0; j < n; ++j) std::copy_n(a + j * m, std::min(j + 1, k), upper + j * rRows);
    if (!wantsQ) return;
    int64_t qColumns = columnsOf(q);
    T* to = q.data<T>() + b * m * qColumns;
    std::copy_n(a, m * std::min(n, qColumns), to);
    lapack::orgqr(m, qColumns, k, to, t);
  });
  call.setResult(0, q);
  call.setResult(1, r);
}

void inferGeqrf(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  call.result(a);
  call.result(a.dtype, withVector(batchOf(a.sizes), leastSize(a.sizes[a.rank() - 2], a.sizes[a.rank() - 1])));
}

void geqrfKernel(KernelCall& call) {
  Tensor a = copyColumns(call.tensor(0)), tau = call.out(1);
  int64_t k = std::min(rowsOf(a), columnsOf(a));
  forEachMatrix(call, a, [&](auto& all, int64_t i) {
    using T = std::decay_t<decltype(*all.data)>;
    lapack::geqrf(all.rows, all.columns, all[i], tau.data<T>() + i * k);
  });
  call.setResult(a);
}

// `tau` holds at most as many numbers as the matrix has columns, one row for each matrix.
void requireTau(const InferCall& call, const TensorInfo& a, const TensorInfo& tau) {
  requireSameDType(call, a, tau);
  bool same = tau.rank() + 1 == a.rank();
  for (size_t d = 0; same && d + 1 < tau.rank(); ++d) same = !differ(tau.sizes[d], a.sizes[d]);
  call.require(
      same,
      "expected the dimensions of tau to be those of the input but for the last two, and a last one, but got {} and {}",
      dimsText(tau.sizes), dimsText(a.sizes));
  int64_t k = tau.sizes.back(), n = a.sizes[a.rank() - 1];
  call.require(!isKnownSize(k) || !isKnownSize(n) || k <= n, "tau has {} reflectors, but the input has {} columns", k,
               n);
}

void inferHouseholder(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0, "input");
  int64_t m = a.sizes[a.rank() - 2], n = a.sizes[a.rank() - 1];
  call.require(!isKnownSize(m) || !isKnownSize(n) || m >= n,
               "the input must have at least as many rows as columns, but it is {} by {}", m, n);
  requireTau(call, a, call.rankedTensor(1));
  call.result(a);
}

void householderKernel(KernelCall& call) {
  Tensor q = copyColumns(call.tensor(0)), tau = contiguous(call.tensor(1));
  int64_t k = tau.size(tau.rank() - 1);
  forEachMatrix(call, q, [&](auto& all, int64_t i) {
    using T = std::decay_t<decltype(*all.data)>;
    lapack::orgqr(all.rows, all.columns, k, all[i], tau.data<T>() + i * k);
  });
  call.setResult(q);
}

void inferOrmqr(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0, "input"), tau = call.rankedTensor(1), c = matrixArgument(call, 2, "other");
  requireSameDType(call, a, c);
  int64_t side = c.sizes[c.rank() - (call.flag(3) ? 2 : 1)], k = tau.rank() ? tau.sizes.back() : 0;
  call.require(!isKnownSize(side) || !isKnownSize(k) || side >= k,
               "tau has {} reflectors, but the other matrix has {} rows or columns", k, side);
  call.require(!differ(side, a.sizes[a.rank() - 2]),
               "the reflectors have {} rows, but the other matrix has {} rows or columns", a.sizes[a.rank() - 2], side);
  requireTau(call, a, tau);
  bool same = a.rank() == c.rank();
  for (size_t d = 0; same && d + 2 < a.rank(); ++d) same = !differ(a.sizes[d], c.sizes[d]);
  call.require(same, "the batch dimensions of {} and {} differ", dimsText(a.sizes), dimsText(c.sizes));
  call.result(c);
}

void ormqrKernel(KernelCall& call) {
  Tensor a = copyColumns(call.tensor(0)), tau = contiguous(call.tensor(1)), c = copyColumns(call.tensor(2));
  bool left = call.flag(3), transpose = call.flag(4);
  int64_t k = tau.size(tau.rank() - 1), lda = rowsOf(a), item = rowsOf(a) * columnsOf(a);
  char op = !transpose ? 'N' : isComplex(a.dtype()) ? 'C' : 'T';
  if (c.numel() > 0)
    forEachMatrix(call, c, [&](auto& all, int64_t i) {
      using T = std::decay_t<decltype(*all.data)>;
      lapack::ormqr(left ? 'L' : 'R', op, all.rows, all.columns, k, a.data<T>() + i * item, lda, tau.data<T>() + i * k,
                    all[i]);
    });
  call.setResult(c);
}

}  // namespace

void registerLinalgFactorOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMatrixTypes,
             .traits = {Trait::OwnStrides}});
  };
  add("aten::cholesky(Tensor self, bool upper=False) -> Tensor", inferCholesky, choleskyKernel, convertCholesky);
  add("aten::linalg_cholesky(Tensor self, *, bool upper=False) -> Tensor", inferCholesky, choleskyKernel,
      convertCholesky);
  add("aten::linalg_cholesky_ex", inferCholeskyEx, choleskyExKernel, convertCholeskyEx);
  add("aten::cholesky_inverse(Tensor self, bool upper=False) -> Tensor", inferCholesky, choleskyInverseKernel,
      convertCholeskyInverse);
  add("aten::cholesky_solve(Tensor self, Tensor input2, bool upper=False) -> Tensor", inferCholeskySolve,
      choleskySolveKernel, convertCholeskySolve);

  add("aten::linalg_lu_factor(Tensor A, *, bool pivot=True) -> (Tensor LU, Tensor pivots)", inferLuFactor,
      luFactorKernel, [](ConvertCall& call) { convertLuFactor(call, true); });
  add("aten::linalg_lu_factor_ex", inferLuFactorEx, luFactorExKernel<true>,
      [](ConvertCall& call) { convertLuFactor(call, call.flag(2)); });
  add("aten::_lu_with_info", inferLuFactorEx, luFactorExKernel<false>,
      [](ConvertCall& call) { convertLuFactor(call, false); });
  add("aten::linalg_lu(Tensor A, *, bool pivot=True) -> (Tensor P, Tensor L, Tensor U)", inferLu, luKernel, convertLu);
  ops.add({.schema = "aten::lu_unpack", .infer = inferLuUnpack, .kernel = luUnpackKernel, .dtypes = kAllTypes});

  add("aten::linalg_ldl_factor(Tensor self, *, bool hermitian=False) -> (Tensor LD, Tensor pivots)", inferLdlFactor,
      ldlFactorKernel<false>);
  add("aten::linalg_ldl_factor_ex", inferLdlFactorEx, ldlFactorKernel<true>);
  add("aten::linalg_ldl_solve(Tensor LD, Tensor pivots, Tensor B, *, bool hermitian=False) -> Tensor", inferLdlSolve,
      ldlSolveKernel);

  add("aten::linalg_qr(Tensor A, str mode=\"reduced\") -> (Tensor Q, Tensor R)", inferLinalgQr, qrKernel, convertQr);
  add("aten::qr(Tensor self, bool some=True) -> (Tensor Q, Tensor R)", inferQr, qrKernel, convertQr);
  add("aten::geqrf(Tensor self) -> (Tensor a, Tensor tau)", inferGeqrf, geqrfKernel);
  add("aten::linalg_householder_product(Tensor input, Tensor tau) -> Tensor", inferHouseholder, householderKernel);
  add("aten::orgqr(Tensor self, Tensor input2) -> Tensor", inferHouseholder, householderKernel);
  add("aten::ormqr", inferOrmqr, ormqrKernel);
}

}  // namespace tscompile
