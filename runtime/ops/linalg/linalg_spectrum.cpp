// Eigenvalues and singular values, and what follows from them: pseudo-inverse, rank, condition number.
#include "runtime/engine/layers/alone/factor_layer.h"
#include "runtime/kernels/openblas/lapack.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/linalg.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/matmul.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

DType complexTypeOf(DType d) { return d == DType::Undefined ? d : complexOf(d); }
Dims vectorSizes(DimSpan matrices) { return Dims(matrices.first(matrices.size() - 1)); }

// ---- Hermitian matrices ----

char triangleOf(const InferCall& call, std::string_view text) {
  char c = text.size() == 1 ? static_cast<char>(text[0] & ~0x20) : '\0';
  call.require(c == 'L' || c == 'U', "expected UPLO argument to be 'L' or 'U', but got {}", text);
  return c;
}

// Eigenvalues in ascending order of the Hermitian matrices `a`, which the eigenvectors replace if they are wanted.
Tensor eigenHermitian(KernelCall& call, const Tensor& a, char uplo, bool vectors) {
  Tensor values = Tensor::empty(realPart(a.dtype()), vectorSizes(a.sizes()));
  visitMatrixType(a.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Matrices<T> all(a);
    for (int64_t i = 0; i < all.count && all.rows > 0; ++i) {
      int info = lapack::syevd(vectors, uplo, all.rows, all[i], values.data<lapack::Real<T>>() + i * all.rows);
      if (info)
        call.fail(
            "{}the algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
            "eigenvalues "
            "(error code: {})",
            batchPrefix(call, a, i), info);
      call.context().checkInterrupt(all.rows * all.rows * 16);
    }
  });
  return values;
}

void resultEigh(InferCall& call, bool vectors) {
  TensorInfo a = squareArgument(call, 0);
  call.result(realPart(a.dtype), vectorSizes(a.sizes));
  call.result(a.dtype, vectors ? Dims(a.sizes) : Dims{0});
}
void inferEigh(InferCall& call) {
  triangleOf(call, call.text(1));
  resultEigh(call, true);
}
void inferEighOptional(InferCall& call) {
  triangleOf(call, call.text(1));
  resultEigh(call, call.flag(2));
}
void inferEigvalsh(InferCall& call) {
  triangleOf(call, call.text(1));
  TensorInfo a = squareArgument(call, 0);
  call.result(realPart(a.dtype), vectorSizes(a.sizes));
}
void inferSymeig(InferCall& call) { resultEigh(call, call.flag(1)); }

void setEigh(KernelCall& call, char uplo, bool vectors) {
  Tensor a = copyColumns(call.tensor(0));
  call.setResult(0, eigenHermitian(call, a, uplo, vectors));
  if (vectors)
    call.setResult(1, a);
  else if (call.resultCount() > 1)
    call.out(1);
}
char triangle(KernelCall& call) { return static_cast<char>(call.text(1)[0] & ~0x20); }
void eighKernel(KernelCall& call) { setEigh(call, triangle(call), true); }
void eighOptionalKernel(KernelCall& call) { setEigh(call, triangle(call), call.flag(2)); }
void eigvalshKernel(KernelCall& call) { setEigh(call, triangle(call), false); }
void symeigKernel(KernelCall& call) { setEigh(call, call.flag(2) ? 'U' : 'L', call.flag(1)); }

// ---- general matrices ----

void inferEig(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.result(complexTypeOf(a.dtype), vectorSizes(a.sizes));
  call.result(complexTypeOf(a.dtype), a.sizes);
}
void inferEigvals(InferCall& call) {
  TensorInfo a = squareArgument(call, 0);
  call.result(complexTypeOf(a.dtype), vectorSizes(a.sizes));
}

template <bool kVectors>
void eigKernel(KernelCall& call) {
  Tensor a = copyColumns(call.tensor(0)), values = call.out(0);
  Tensor vectors = kVectors ? emptyColumns(values.dtype(), a.sizes()) : Tensor();
  visitMatrixType(a.dtype(), [&](auto sample) {
    using T = decltype(sample);
    using C = std::complex<lapack::Real<T>>;
    Matrices<T> all(a);
    for (int64_t i = 0; i < a.numel(); ++i)
      call.require(std::isfinite(std::real(all.data[i])) && std::isfinite(std::imag(all.data[i])),
                   "the input tensor should not contain infs or NaNs");
    int64_t n = all.rows;
    for (int64_t i = 0; i < all.count && n > 0; ++i) {
      int info = lapack::geev(n, all[i], values.data<C>() + i * n, kVectors ? vectors.data<C>() + i * n * n : nullptr);
      if (info) call.fail("{}the algorithm failed to converge (error code: {})", batchPrefix(call, a, i), info);
      call.context().checkInterrupt(n * n * 16);
    }
  });
  if (kVectors) call.setResult(1, vectors);
}

// ---- singular values ----

struct Svd {
  Tensor u, s, vh;
};

// LAPACK ends where it finds a NaN, but may turn about infinities without end: what comes of them is no number.
template <class T>
bool holdsInfinity(const T* elements, int64_t count) {
  bool infinite = false;
  for (int64_t i = 0; i < count; ++i) {
    const auto re = std::real(elements[i]), im = std::imag(elements[i]);
    if (std::isnan(re) || std::isnan(im)) return false;
    infinite |= std::isinf(re) || std::isinf(im);
  }
  return infinite;
}
template <class T>
void setToNan(T* elements, int64_t count) {
  std::fill_n(elements, count, std::numeric_limits<lapack::Real<T>>::quiet_NaN());
}

// With `job` 'N', only s.
Svd decompose(KernelCall& call, const Tensor& t, char job) {
  DimSpan batch = batchOf(t.sizes());
  int64_t m = rowsOf(t), n = columnsOf(t), k = std::min(m, n);
  DType dtype = t.dtype();
  Svd svd{{}, Tensor::empty(realPart(dtype), withVector(batch, k)), {}};
  if (job != 'N') {
    svd.u = zeroColumns(dtype, withMatrix(batch, m, job == 'S' ? k : m));
    svd.vh = zeroColumns(dtype, withMatrix(batch, job == 'S' ? k : n, n));
  }
  Tensor a = copyColumns(t);
  visitMatrixType(dtype, [&](auto sample) {
    using T = decltype(sample);
    Matrices<T> all(a);
    for (int64_t i = 0; i < all.count; ++i) {
      T *u = nullptr, *vh = nullptr;
      if (job != 'N') {
        Matrices<T> us(svd.u), vhs(svd.vh);
        u = us[i], vh = vhs[i];
        // Of an empty matrix: the identity.
        for (int64_t d = 0; k == 0 && d < us.columns; ++d) u[d * m + d] = 1;
        for (int64_t d = 0; k == 0 && d < vhs.rows; ++d) vh[d * n + d] = 1;
      }
      if (holdsInfinity(all[i], m * n)) {
        setToNan(svd.s.data<lapack::Real<T>>() + i * k, k);
        if (job != 'N') setToNan(u, m * Matrices<T>(svd.u).columns), setToNan(vh, Matrices<T>(svd.vh).rows * n);
        continue;
      }
      int info = k == 0 ? 0 : lapack::gesdd(job, m, n, all[i], svd.s.data<lapack::Real<T>>() + i * k, u, vh);
      if (info < 0)
        call.fail("{}the algorithm failed to converge because the input matrix contained non-finite values",
                  batchPrefix(call, t, i));
      if (info > 0)
        call.fail(
            "{}the algorithm failed to converge because the input matrix is ill-conditioned or has too many repeated "
            "singular "
            "values (error code: {})",
            batchPrefix(call, t, i), info);
      call.context().checkInterrupt(m * n * 16);
    }
  });
  return svd;
}

void requireNoDriver(const InferCall& call, size_t i) {
  call.require(call.isNone(i), "the keyword argument `driver` is only supported on CUDA");
}

// U, S, and Vh, or V if `adjointV`.
void resultSvd(InferCall& call, const TensorInfo& a, bool full, bool adjointV) {
  int64_t m = a.sizes[a.rank() - 2], n = a.sizes[a.rank() - 1], k = leastSize(m, n), columns = full ? n : k;
  DimSpan batch = batchOf(a.sizes);
  call.result(a.dtype, withMatrix(batch, m, full ? m : k));
  call.result(realPart(a.dtype), withVector(batch, k));
  call.result(a.dtype, adjointV ? withMatrix(batch, n, columns) : withMatrix(batch, columns, n));
}

void inferLinalgSvd(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  requireNoDriver(call, 2);
  resultSvd(call, a, call.flag(1), false);
}
void linalgSvdKernel(KernelCall& call) {
  Svd svd = decompose(call, call.tensor(0), call.flag(1) ? 'A' : 'S');
  call.setResult(0, svd.u);
  call.setResult(1, svd.s);
  call.setResult(2, svd.vh);
}

void inferSvdOptional(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  requireNoDriver(call, 3);
  if (call.flag(2)) return resultSvd(call, a, call.flag(1), false);
  call.result(a.dtype, Dims{0});
  call.result(realPart(a.dtype), withVector(batchOf(a.sizes), leastSize(a.sizes[a.rank() - 2], a.sizes[a.rank() - 1])));
  call.result(a.dtype, Dims{0});
}
void svdOptionalKernel(KernelCall& call) {
  if (call.flag(2)) return linalgSvdKernel(call);
  call.out(0);
  call.setResult(1, decompose(call, call.tensor(0), 'N').s);
  call.out(2);
}

void inferSvdvals(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  requireNoDriver(call, 1);
  call.result(realPart(a.dtype), withVector(batchOf(a.sizes), leastSize(a.sizes[a.rank() - 2], a.sizes[a.rank() - 1])));
}
void svdvalsKernel(KernelCall& call) { call.setResult(decompose(call, call.tensor(0), 'N').s); }

// polar: A = U H, of the decomposition u s vh the products u vh and vh^H s vh.
void inferPolar(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  const int64_t rows = a.sizes[a.rank() - 2], columns = a.sizes[a.rank() - 1];
  call.require(!isKnownSize(rows) || !isKnownSize(columns) || rows >= columns,
               "linalg.polar: input must have at least as many rows as columns, but got {} by {} matrices", rows,
               columns);
  call.result(a);
  call.result(a.dtype, withMatrix(batchOf(a.sizes), columns, columns));
}
void polarKernel(KernelCall& call) {
  const Svd svd = decompose(call, call.tensor(0), 'S');
  const Tensor values = invokeTensor(call, "aten::unsqueeze", {svd.s, -2});
  const Tensor scaled = invokeTensor(call, "aten::mul.Tensor", {adjoint(svd.vh), values});
  call.setResult(0, invokeTensor(call, "aten::matmul", {svd.u, svd.vh}));
  call.setResult(1, invokeTensor(call, "aten::matmul", {scaled, svd.vh}));
}

// The older form: V instead of its adjoint, zeros instead of vectors that are not wanted.
void inferSvd(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0);
  resultSvd(call, a, !call.flag(1) || !call.flag(2), true);
}
void svdKernel(KernelCall& call) {
  bool some = call.flag(1), vectors = call.flag(2);
  Svd svd = decompose(call, call.tensor(0), !vectors ? 'N' : some ? 'S' : 'A');
  call.setResult(0, vectors ? svd.u : Tensor::zeros(call.spec(0).dtype, call.spec(0).sizes));
  call.setResult(1, svd.s);
  call.setResult(2, vectors ? adjoint(svd.vh) : Tensor::zeros(call.spec(2).dtype, call.spec(2).sizes));
}

// ---- tolerances of pinv and matrix_rank ----

// Singular values up to max(absolute, relative * largest) count as zero.
struct Tolerance {
  Tensor absolute, relative;  // float64
};

Tensor number(double v) {
  Tensor t = Tensor::empty(DType::Float64, {});
  *t.data<double>() = v;
  return t;
}
template <class R>
double machineEpsilon(int64_t m, int64_t n) {
  return std::numeric_limits<R>::epsilon() * static_cast<double>(std::max(m, n));
}
double defaultRelative(const Tensor& a) {
  bool wide = realPart(a.dtype()) == DType::Float64;
  return wide ? machineEpsilon<double>(rowsOf(a), columnsOf(a)) : machineEpsilon<float>(rowsOf(a), columnsOf(a));
}
// As an element of A's real dtype.
double rounded(const Tensor& a, double v) { return realPart(a.dtype()) == DType::Float64 ? v : static_cast<float>(v); }

// Arguments i and i + 1: numbers or tensors, both optional. Without either, or with an absolute one of zero, the
// relative one is the machine's epsilon times the larger size.
Tolerance toleranceArguments(KernelCall& call, size_t i) {
  Tensor a = call.tensor(0);
  auto read = [&](size_t k) {
    if (call.isNone(k)) return Tensor();
    if (!call.argument(k).isTensor()) return number(rounded(a, call.number(k)));
    return convertTensor(call.tensor(k), DType::Float64);
  };
  Tolerance t{read(i), read(i + 1)};
  if (!t.relative.defined()) {
    double standard = rounded(a, defaultRelative(a));
    if (t.absolute.defined()) {
      t.relative = Tensor::empty(DType::Float64, t.absolute.sizes());
      for (int64_t k = 0; k < t.absolute.numel(); ++k)
        t.relative.data<double>()[k] = t.absolute.data<double>()[k] > 0 ? 0 : standard;
    } else {
      t.relative = number(standard);
    }
  }
  if (!t.absolute.defined()) t.absolute = number(0);
  return t;
}
// A tolerance that stands for one of the two.
Tensor toleranceArgument(KernelCall& call, size_t i) {
  if (call.argument(i).isTensor()) return convertTensor(call.tensor(i), DType::Float64);
  return number(rounded(call.tensor(0), call.number(i)));
}

// The batch dimensions of the result.
Dims toleranceBatch(const InferCall& call, const TensorInfo& a, std::initializer_list<size_t> tolerances) {
  Dims batch(batchOf(a.sizes));
  for (size_t i : tolerances) {
    if (call.isNone(i) || !call.isTensor(i)) continue;
    TensorInfo t = call.rankedTensor(i);
    call.require(!isComplex(t.dtype), "a tolerance of complex type is not supported, got {}", pythonName(t.dtype));
    call.require(broadcastInto(batch, t.sizes), "the tolerance of size {} cannot be broadcast with matrices of size {}",
                 dimsText(t.sizes), dimsText(a.sizes));
  }
  return batch;
}

// Calls f(index of the result, of the values, the bound up to which they count as zero) for each matrix of the result.
template <class F>
void forEachBound(const Tensor& a, const Tensor& values, const Tolerance& t, DimSpan batch, F&& f) {
  Tensor wide = convertTensor(values, DType::Float64);
  int64_t k = wide.size(wide.rank() - 1), item = std::max<int64_t>(k, 1), at = 0;
  std::vector<int64_t> from = batchOffsets(wide, batch, 1), absolute = batchOffsets(t.absolute, batch, 0),
                       relative = batchOffsets(t.relative, batch, 0);
  for (size_t i = 0; i < from.size(); ++i, ++at) {
    const double* v = wide.data<double>() + from[i];
    // NaN is the largest of all.
    auto larger = [](double x, double y) { return x > y || std::isnan(x) ? x : y; };
    double largest = 0;
    for (int64_t j = 0; j < k; ++j) largest = larger(largest, std::fabs(v[j]));
    const double bound =
        larger(t.absolute.data<double>()[absolute[i]], rounded(a, t.relative.data<double>()[relative[i]] * largest));
    f(at, from[i] / item, v, k, bound);
  }
}

// ---- pinv ----

void inferPinvWith(InferCall& call, std::initializer_list<size_t> tolerances) {
  TensorInfo a = matrixArgument(call, 0);
  call.result(a.dtype, withMatrix(toleranceBatch(call, a, tolerances), a.sizes[a.rank() - 1], a.sizes[a.rank() - 2]));
}
void inferPinv(InferCall& call) { inferPinvWith(call, {1}); }
void inferPinvTolerances(InferCall& call) { inferPinvWith(call, {1, 2}); }
void inferPinverse(InferCall& call) { inferPinvWith(call, {}); }

// The columns of `left`, divided by the values that do not count as zero, times the adjoint of `right`.
void pinv(KernelCall& call, const Tolerance& t, bool hermitian) {
  Tensor a = call.tensor(0), out = call.out(), left, right, values;
  if (out.numel() == 0) return;
  if (hermitian) {
    left = right = copyColumns(a);
    call.require(rowsOf(a) == columnsOf(a), "A must be batches of square matrices, but they are {} by {} matrices",
                 rowsOf(a), columnsOf(a));
    values = eigenHermitian(call, left, 'L', true);
  } else {
    Svd svd = decompose(call, a, 'S');
    left = copyColumns(adjoint(svd.vh));
    right = svd.u;
    values = svd.s;
  }
  DimSpan batch = batchOf(out.sizes());
  Tensor scaled = emptyColumns(a.dtype(), withMatrix(batch, rowsOf(left), columnsOf(left)));
  visitMatrixType(a.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Matrices<T> from(left), to(scaled);
    forEachBound(a, values, t, batch, [&](int64_t i, int64_t matrix, const double* v, int64_t k, double bound) {
      for (int64_t j = 0; j < k; ++j) {
        auto factor =
            std::fabs(v[j]) > bound ? lapack::Real<T>(1) / static_cast<lapack::Real<T>>(v[j]) : lapack::Real<T>(0);
        for (int64_t r = 0; r < to.rows; ++r) to[i][j * to.rows + r] = from[matrix][j * to.rows + r] * factor;
      }
    });
  });
  multiplyBatches(out, scaled, adjoint(right));
}

void pinvTolerancesKernel(KernelCall& call) { pinv(call, toleranceArguments(call, 1), call.flag(3)); }
void pinvKernel(KernelCall& call) { pinv(call, {number(0), toleranceArgument(call, 1)}, call.flag(2)); }
void pinverseKernel(KernelCall& call) { pinv(call, {number(0), toleranceArgument(call, 1)}, false); }

// ---- matrix_rank ----

void inferRankWith(InferCall& call, std::initializer_list<size_t> tolerances) {
  TensorInfo a = matrixArgument(call, 0, "input");
  call.result(DType::Int64, toleranceBatch(call, a, tolerances));
}
void inferRank(InferCall& call) { inferRankWith(call, {1}); }
void inferRankTolerances(InferCall& call) { inferRankWith(call, {1, 2}); }

void matrixRank(KernelCall& call, const Tolerance& t, bool hermitian) {
  Tensor a = call.tensor(0), out = call.out();
  if (hermitian)
    call.require(rowsOf(a) == columnsOf(a), "A must be batches of square matrices, but they are {} by {} matrices",
                 rowsOf(a), columnsOf(a));
  Tensor values = hermitian ? eigenHermitian(call, copyColumns(a), 'L', false) : decompose(call, a, 'N').s;
  forEachBound(a, values, t, out.sizes(), [&](int64_t i, int64_t, const double* v, int64_t k, double bound) {
    int64_t rank = 0;
    for (int64_t j = 0; j < k; ++j) rank += std::fabs(v[j]) > bound;
    out.data<int64_t>()[i] = rank;
  });
}

void rankTolerancesKernel(KernelCall& call) { matrixRank(call, toleranceArguments(call, 1), call.flag(3)); }
void rankKernel(KernelCall& call) { matrixRank(call, {toleranceArgument(call, 1), number(0)}, call.flag(2)); }

// ---- cond ----

void inferCond(InferCall& call) {
  TensorInfo a = matrixArgument(call, 0, "input");
  call.result(realPart(a.dtype), batchOf(a.sizes));
}

// The ratio of the largest and the smallest singular value, or its inverse for `order` -2.
void condBySvd(KernelCall& call, double order) {
  Tensor a = call.tensor(0), out = call.out(), s = decompose(call, a, 'N').s;
  int64_t k = s.size(s.rank() - 1);
  visitMatrixType(out.dtype(), [&](auto sample) {
    using R = lapack::Real<decltype(sample)>;
    for (int64_t i = 0; i < out.numel(); ++i) {
      const R* v = s.data<R>() + i * k;
      out.data<R>()[i] = k == 0 ? R(0) : order < 0 ? v[k - 1] / v[0] : v[0] / v[k - 1];
    }
  });
}

// The norm of A times that of its inverse; infinite where that is not a number.
void condByNorms(KernelCall& call, const IValue& order) {
  Tensor a = call.tensor(0), out = call.out();
  call.require(rowsOf(a) == columnsOf(a), "A must be batches of square matrices, but they are {} by {} matrices",
               rowsOf(a), columnsOf(a));
  if (a.numel() == 0) return fillTensor(out, 0);
  const char* norm = order.isString() ? "aten::linalg_matrix_norm.str_ord" : "aten::linalg_matrix_norm";
  auto normOf = [&](const Tensor& t) {
    return invokeTensor(call, norm, {t, order, intList(Dims{-2, -1}), false, IValue()});
  };
  std::vector<IValue> inverse = invokeAll(call, "aten::linalg_inv_ex", {a, false});
  Tensor inverted = inverse[0].toTensor(), info = inverse[1].toTensor();
  for (int64_t i = 0; i < info.numel(); ++i)
    if (info.data<int32_t>()[i] > 0) {
      // The norm of infinities is infinite, whatever its order.
      Tensor matrix = contiguous(inverted);
      visitMatrixType(matrix.dtype(), [&](auto sample) {
        using T = decltype(sample);
        int64_t item = rowsOf(a) * columnsOf(a);
        std::fill_n(matrix.data<T>() + i * item, item, T(std::numeric_limits<lapack::Real<T>>::infinity()));
      });
      inverted = matrix;
    }
  multiplyElements(out, normOf(a), normOf(inverted));
  visitMatrixType(out.dtype(), [&](auto sample) {
    using R = lapack::Real<decltype(sample)>;
    for (int64_t i = 0; i < out.numel(); ++i)
      if (std::isnan(out.data<R>()[i])) out.data<R>()[i] = std::numeric_limits<R>::infinity();
  });
}

void condKernel(KernelCall& call) {
  if (call.isNone(1)) return condBySvd(call, 2);
  double order = call.number(1), size = std::fabs(order);
  if (size == 2) return condBySvd(call, order);
  call.require(size == 1 || std::isinf(size), "invalid norm type: {}", order);
  condByNorms(call, call.argument(1));
}
void condNamedKernel(KernelCall& call) {
  call.require(call.text(1) == "fro" || call.text(1) == "nuc", "invalid norm type: {}", call.text(1));
  condByNorms(call, call.argument(1));
}

// ---- in engines ----

// Where eigenvectors are wanted.
void convertOptionalEigen(ConvertCall& call) {
  call.flag(2) ? convertSymmetricEigen(call) : convertToKernel(call, "the eigenvectors are not wanted");
}

void convertFullSvd(ConvertCall& call) { convertSingularValues(call, call.flag(1) ? 'A' : 'S'); }
void convertOptionalSvd(ConvertCall& call) {
  call.flag(2) ? convertFullSvd(call) : convertToKernel(call, "the singular vectors are not wanted");
}
void convertOlderSvd(ConvertCall& call) {
  if (!call.flag(2)) return convertToKernel(call, "the singular vectors are not wanted");
  convertSingularValues(call, call.flag(1) ? 'S' : 'A', true);
}

// Tolerances are arguments from 1 up to `end`, then it is said whether matrices are Hermitian.
template <size_t kEnd, bool kHasHermitian>
void convertPinv(ConvertCall& call) {
  for (size_t i = 1; i < kEnd; ++i)
    if (!call.isNone(i) && !call.argument(i).isNumber()) return convertToKernel(call, "a tolerance is a tensor");
  if constexpr (kHasHermitian)
    if (call.flag(kEnd)) return convertToKernel(call, "the matrices are Hermitian");
  const Tolerance t = kEnd > 2 ? toleranceArguments(call, 1) : Tolerance{number(0), toleranceArgument(call, 1)};
  const double absolute = *t.absolute.data<double>(), relative = *t.relative.data<double>();
  if (std::isnan(absolute) || std::isnan(relative)) return convertToKernel(call, "a tolerance is not a number");
  convertPseudoInverse(call, absolute, relative);
}

}  // namespace

void registerLinalgSpectrumOps(OpRegistry& ops) {
  auto add = [&](const char* schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMatrixTypes,
             .traits = {Trait::OwnStrides}});
  };
  add("aten::linalg_eigh(Tensor self, str UPLO=\"L\") -> (Tensor eigenvalues, Tensor eigenvectors)", inferEigh,
      eighKernel, convertSymmetricEigen);
  add("aten::_linalg_eigh", inferEighOptional, eighOptionalKernel, convertOptionalEigen);
  add("aten::linalg_eigvalsh(Tensor self, str UPLO=\"L\") -> Tensor", inferEigvalsh, eigvalshKernel,
      convertSymmetricEigen);
  add("aten::symeig", inferSymeig, symeigKernel);
  add("aten::linalg_eig(Tensor self) -> (Tensor eigenvalues, Tensor eigenvectors)", inferEig, eigKernel<true>,
      convertEigen);
  add("aten::linalg_eigvals(Tensor self) -> Tensor", inferEigvals, eigKernel<false>, convertEigen);

  add("aten::linalg_svd", inferLinalgSvd, linalgSvdKernel, convertFullSvd);
  add("aten::_linalg_svd", inferSvdOptional, svdOptionalKernel, convertOptionalSvd);
  add("aten::linalg_svdvals(Tensor A, *, str? driver=None) -> Tensor", inferSvdvals, svdvalsKernel,
      [](ConvertCall& call) { convertSingularValues(call, 'N'); });
  add("aten::svd", inferSvd, svdKernel, convertOlderSvd);
  add("aten::linalg_polar", inferPolar, polarKernel);

  add("aten::linalg_pinv", inferPinv, pinvKernel, convertPinv<2, true>);
  add("aten::linalg_pinv.rcond_tensor", inferPinv, pinvKernel);
  add("aten::linalg_pinv.atol_rtol_float", inferPinvTolerances, pinvTolerancesKernel, convertPinv<3, true>);
  add("aten::linalg_pinv.atol_rtol_tensor", inferPinvTolerances, pinvTolerancesKernel);
  add("aten::pinverse", inferPinverse, pinverseKernel, convertPinv<2, false>);
  add("aten::linalg_matrix_rank", inferRank, rankKernel);
  add("aten::linalg_matrix_rank.tol_tensor", inferRank, rankKernel);
  add("aten::linalg_matrix_rank.atol_rtol_float", inferRankTolerances, rankTolerancesKernel);
  add("aten::linalg_matrix_rank.atol_rtol_tensor", inferRankTolerances, rankTolerancesKernel);
  add("aten::linalg_cond(Tensor self, Scalar? p=None) -> Tensor", inferCond, condKernel);
  add("aten::linalg_cond.p_str(Tensor self, str p) -> Tensor", inferCond, condNamedKernel);
}

}  // namespace tscompile
