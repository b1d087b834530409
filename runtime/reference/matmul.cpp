#include "runtime/reference/matmul.h"

#include "ir/values/error.h"
#include "runtime/call/run_context.h"
#include "runtime/kernels/openblas/blas.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

#include <Eigen/Core>

namespace tscompile {
namespace {

template <class T>
inline constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;

// A factor in the type that the products are computed in; an integer wraps to it.
template <class T>
T factor(const IValue& v) {
  if constexpr (kIsComplex<T>)
    return v.isComplex() ? T(v.toComplex()) : T(static_cast<typename T::value_type>(v.toDouble()));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v.isComplex() ? v.toComplex().real() : v.toDouble());
  else
    return static_cast<T>(v.isBool() ? int64_t{v.toBool()} : v.toInt());
}
bool isZero(const IValue& v) { return v.isComplex() ? v.toComplex() == 0.0 : v.toDouble() == 0; }

// A matrix as BLAS takes it: rows or columns are runs of neighbours.
struct Operand2 {
  Tensor tensor;  // keeps a copy alive
  bool transposed;
  int64_t leading;
};

Operand2 asOperand(const Tensor& t) {
  int r = t.rank();
  int64_t rows = t.size(r - 2), columns = t.size(r - 1), down = t.stride(r - 2), across = t.stride(r - 1);
  if ((across == 1 || columns == 1) && (down >= std::max<int64_t>(columns, 1) || rows == 1))
    return {t, false, rows == 1 ? std::max<int64_t>(columns, 1) : down};
  if ((down == 1 || rows == 1) && (across >= std::max<int64_t>(rows, 1) || columns == 1))
    return {t, true, columns == 1 ? std::max<int64_t>(rows, 1) : across};
  return {contiguous(t), false, std::max<int64_t>(columns, 1)};
}

// ---- one product: c = beta * c + alpha * op(a) @ op(b) ----

template <class T>
struct Product {
  int64_t m, n, k;
  bool transposeA, transposeB;
  int64_t lda, ldb, ldc;
  T alpha, beta;
};

// Too small for the overhead of a library call.
template <class T>
void multiplySmall(const Product<T>& p, const T* a, const T* b, T* c) {
  int64_t aDown = p.transposeA ? 1 : p.lda, aAcross = p.transposeA ? p.lda : 1;
  int64_t bDown = p.transposeB ? 1 : p.ldb, bAcross = p.transposeB ? p.ldb : 1;
  for (int64_t i = 0; i < p.m; ++i)
    for (int64_t j = 0; j < p.n; ++j) {
      T sum(0);
      for (int64_t l = 0; l < p.k; ++l) sum += a[i * aDown + l * aAcross] * b[l * bDown + j * bAcross];
      T& to = c[i * p.ldc + j];
      to = p.beta == T(0) ? p.alpha * sum : p.beta * to + p.alpha * sum;
    }
}

// y = beta * y + alpha * A @ x for a matrix of m rows and k columns, which is stored transposed if `transposed`.
// Elements of y are `stride` apart. Not for complex numbers, which the compiler would spend seconds on.
template <class T>
void multiplyVector(int64_t m, int64_t k, T alpha, const T* a, bool transposed, int64_t lda, const T* x, T beta, T* y,
                    int64_t stride) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Vector = Eigen::Matrix<T, Eigen::Dynamic, 1>;
  Eigen::Map<Vector, 0, Eigen::InnerStride<>> out(y, m, Eigen::InnerStride<>(stride));
  Eigen::Map<const Vector> in(x, k);
  Eigen::Map<const Matrix, 0, Eigen::OuterStride<>> matrix(a, transposed ? k : m, transposed ? m : k,
                                                           Eigen::OuterStride<>(lda));
  if (beta == T(0))
    out.setZero();
  else
    out *= beta;
  if (transposed)
    out.noalias() += alpha * matrix.transpose() * in;
  else
    out.noalias() += alpha * matrix * in;
}

template <class T>
void multiplyOne(const Product<T>& p, const T* a, const T* b, T* c) {
  // A column is a run of neighbours if the matrix is stored transposed, or if its rows have one element.
  bool columnOfB = p.n == 1 && (p.transposeB || p.ldb == 1 || p.k == 1),
       rowOfA = p.m == 1 && (!p.transposeA || p.lda == 1 || p.k == 1);
  if (p.m * p.n * p.k < 400) return multiplySmall(p, a, b, c);
  if constexpr (std::is_floating_point_v<T>) {
    if (columnOfB) return multiplyVector(p.m, p.k, p.alpha, a, p.transposeA, p.lda, b, p.beta, c, p.ldc);
    if (rowOfA) return multiplyVector(p.n, p.k, p.alpha, b, !p.transposeB, p.ldb, a, p.beta, c, int64_t{1});
  }
  // In panels of rows, so that a run can be interrupted.
  constexpr int64_t kWork = int64_t{1} << 31;
  int64_t panel = std::max<int64_t>(kWork / std::max<int64_t>(p.n * p.k, 1) / 64 * 64, 64);
  for (int64_t i = 0; i < p.m; i += panel) {
    blas::gemm(p.transposeA, p.transposeB, std::min(panel, p.m - i), p.n, p.k, p.alpha,
               a + i * (p.transposeA ? 1 : p.lda), p.lda, b, p.ldb, p.beta, c + i * p.ldc, p.ldc);
    if (p.m > panel) RunContext::current().checkInterrupt(kWork);
  }
}

// Integers: rows of b are added up, so that the inner loop runs along memory. Wraps.
template <class T>
void multiplyIntegers(int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c, T alpha, T beta) {
  using U = std::make_unsigned_t<T>;
  // In 32 bits or more: narrower operands would be promoted to int, which must not overflow.
  using Wide = std::conditional_t<(sizeof(U) < 4), uint32_t, U>;
  auto wide = [](T v) { return static_cast<Wide>(static_cast<U>(v)); };
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] = beta == 0 ? T(0) : static_cast<T>(wide(row[j]) * wide(beta));
    for (int64_t p = 0; p < k; ++p) {
      Wide x = wide(a[i * k + p]) * wide(alpha);
      const T* from = b + p * n;
      for (int64_t j = 0; j < n; ++j) row[j] = static_cast<T>(wide(row[j]) + x * wide(from[j]));
    }
  }
}

// ---- batches ----

// Calls f(out, a, b offsets in elements) for each matrix of the batch.
template <class F>
void forEachMatrix(const Tensor& out, const Tensor& a, const Tensor& b, F&& f) {
  int batchRank = out.rank() - 2;
  int64_t count = 1;
  for (int d = 0; d < batchRank; ++d) count *= out.size(d);
  int64_t work = out.size(batchRank) * out.size(batchRank + 1) * a.size(batchRank + 1) / 16;
  RunContext& context = RunContext::current();
  int64_t index[kMaxRank] = {};
  int64_t x = 0, y = 0, z = 0;
  for (int64_t i = 0; i < count; ++i) {
    f(z, x, y);
    context.checkInterrupt(work);
    for (int d = batchRank - 1; d >= 0; --d) {
      z += out.stride(d);
      x += a.stride(d);
      y += b.stride(d);
      if (++index[d] < out.size(d)) break;
      z -= out.stride(d) * out.size(d);
      x -= a.stride(d) * out.size(d);
      y -= b.stride(d) * out.size(d);
      index[d] = 0;
    }
  }
}

template <class T>
void multiplyFloats(const Tensor& out, const Tensor& a, const Tensor& b, const IValue& alpha, const IValue& beta) {
  int r = out.rank();
  Operand2 x = asOperand(a), y = asOperand(b);
  // BLAS does not read the operands of a product that counts for nothing.
  int64_t k = r == 2 && isZero(alpha) ? 0 : a.size(r - 1);
  Product<T> p{out.size(r - 2),  out.size(r - 1), k,         x.transposed,
               y.transposed,     x.leading,       y.leading, out.size(r - 2) == 1 ? out.size(r - 1) : out.stride(r - 2),
               factor<T>(alpha), factor<T>(beta)};
  forEachMatrix(out, x.tensor, y.tensor, [&](int64_t o, int64_t i, int64_t j) {
    multiplyOne(p, x.tensor.data<T>() + i, y.tensor.data<T>() + j, out.data<T>() + o);
  });
}

void multiplyStored(const Tensor& out, const Tensor& a, const Tensor& b, const IValue& alpha, const IValue& beta) {
  visitDType(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    if constexpr (kIsComplex<T> || std::is_floating_point_v<T>) {
      multiplyFloats<T>(out, a, b, alpha, beta);
    } else if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      Tensor x = contiguous(a), y = contiguous(b), dense = contiguous(out);
      int r = out.rank();
      forEachMatrix(dense, x, y, [&](int64_t o, int64_t i, int64_t j) {
        multiplyIntegers(out.size(r - 2), out.size(r - 1), a.size(r - 1), x.data<T>() + i, y.data<T>() + j,
                         dense.data<T>() + o, factor<T>(alpha), factor<T>(beta));
      });
      copyTensor(out, dense);
    } else {
      throw DTypeRefused(DType::Bool);
    }
  });
}

}  // namespace

void matmulInto(const Tensor& out, const Tensor& a, const Tensor& b, const IValue& alpha, const IValue& beta) {
  if (out.numel() == 0) return;
  int r = out.rank();
  int64_t m = out.size(r - 2), n = out.size(r - 1);
  DType dtype = out.dtype();
  if (a.size(r - 1) == 0 && isZero(beta)) return fillTensor(out, 0);
  bool half = isFloating(dtype) && itemSize(dtype) == 2;
  bool rowsAreRuns = (out.stride(r - 1) == 1 || n == 1) && (out.stride(r - 2) >= n || m == 1);
  if (rowsAreRuns && !half) return multiplyStored(out, a, b, alpha, beta);
  DType computed = half ? DType::Float32 : dtype;
  Tensor aside = Tensor::empty(computed, out.sizes());
  if (!isZero(beta)) copyTensor(aside, out);
  multiplyStored(aside, half ? convertTensor(a, computed) : a, half ? convertTensor(b, computed) : b, alpha, beta);
  copyTensor(out, aside);
}

void multiplyBatches(const Tensor& out, const Tensor& a, const Tensor& b) {
  if (b.rank() == 2 && a.rank() > 2 && a.isContiguous() && out.isContiguous()) {
    // One matrix for the whole batch: its rows follow each other.
    int64_t k = a.size(a.rank() - 1), n = out.size(out.rank() - 1), rows = k ? a.numel() / k : 0;
    if (k) return matmulInto(reshaped(out, Dims{rows, n}), reshaped(a, Dims{rows, k}), b);
  }
  auto withBatch = [&](const Tensor& t) {
    Dims sizes(out.sizes());
    sizes[sizes.size() - 2] = t.size(t.rank() - 2);
    sizes[sizes.size() - 1] = t.size(t.rank() - 1);
    return expandedTo(t, sizes);
  };
  matmulInto(out, withBatch(a), withBatch(b));
}

}  // namespace tscompile
