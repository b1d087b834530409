#include "runtime/reference/matmul.h"

#include <Eigen/Core>

#include "ir/error.h"
#include "runtime/engine/blas.h"
#include "runtime/reference/copy.h"
#include "runtime/run_context.h"

namespace tscompile {
namespace {

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

// Integers: rows of b are added up, so that the inner loop runs along memory. Wraps.
template <class T>
void multiplyIntegers(int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c, int64_t alpha, int64_t beta) {
  using U = std::make_unsigned_t<T>;
  for (int64_t i = 0; i < m; ++i) {
    T* row = c + i * n;
    for (int64_t j = 0; j < n; ++j) row[j] = beta == 0 ? T(0) : static_cast<T>(static_cast<uint64_t>(row[j]) * static_cast<uint64_t>(beta));
    for (int64_t p = 0; p < k; ++p) {
      uint64_t x = static_cast<uint64_t>(static_cast<U>(a[i * k + p])) * static_cast<uint64_t>(alpha);
      const T* from = b + p * n;
      for (int64_t j = 0; j < n; ++j) row[j] = static_cast<T>(static_cast<uint64_t>(row[j]) + x * static_cast<uint64_t>(from[j]));
    }
  }
}

template <class T>
void multiplyComplex(int64_t m, int64_t n, int64_t k, const T* a, const T* b, T* c, double alpha, double beta) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Part = typename T::value_type;
  Eigen::Map<Matrix> out(c, m, n);
  Eigen::Map<const Matrix> x(a, m, k), y(b, k, n);
  if (beta == 0)
    out.noalias() = x * y * T(static_cast<Part>(alpha));
  else
    out = out * T(static_cast<Part>(beta)) + x * y * T(static_cast<Part>(alpha));
}

// Calls f(out, a, b offsets in elements) for each matrix of the batch.
template <class F>
void forEachMatrix(const Tensor& out, const Tensor& a, const Tensor& b, F&& f) {
  int batchRank = out.rank() - 2;
  int64_t count = 1;
  for (int d = 0; d < batchRank; ++d) count *= out.size(d);
  RunContext& context = RunContext::current();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, x = 0, y = 0, z = 0;
    for (int d = batchRank - 1; d >= 0; --d) {
      int64_t at = rest % out.size(d);
      rest /= out.size(d);
      z += at * out.stride(d);
      x += at * a.stride(d);
      y += at * b.stride(d);
    }
    f(z, x, y);
    context.checkInterrupt(out.size(batchRank) * out.size(batchRank + 1) * a.size(batchRank + 1) / 16);
  }
}

template <class T>
void onBlas(const Tensor& out, const Tensor& a, const Tensor& b, T alpha, T beta) {
  int r = out.rank();
  int64_t m = out.size(r - 2), n = out.size(r - 1), k = a.size(r - 1);
  Operand2 x = asOperand(a), y = asOperand(b);
  forEachMatrix(out, x.tensor, y.tensor, [&](int64_t o, int64_t p, int64_t q) {
    blas::gemm(x.transposed, y.transposed, m, n, k, alpha, x.tensor.data<T>() + p, x.leading, y.tensor.data<T>() + q,
               y.leading, beta, out.data<T>() + o, out.stride(r - 2));
  });
}

}  // namespace

void matmulInto(const Tensor& out, const Tensor& a, const Tensor& b, double alpha, double beta) {
  if (out.numel() == 0) return;
  int r = out.rank();
  int64_t m = out.size(r - 2), n = out.size(r - 1), k = a.size(r - 1);
  DType dtype = out.dtype();
  bool rowsAreRuns = (out.stride(r - 1) == 1 || n == 1) && (out.stride(r - 2) >= n || m == 1);
  if (!rowsAreRuns) {
    Tensor aside = beta == 0 ? Tensor::empty(dtype, out.sizes()) : cloneTensor(contiguous(out));
    matmulInto(aside, a, b, alpha, beta);
    return copyTensor(out, aside);
  }
  if (dtype == DType::Float32) return onBlas<float>(out, a, b, static_cast<float>(alpha), static_cast<float>(beta));
  if (dtype == DType::Float64) return onBlas<double>(out, a, b, alpha, beta);
  if (isFloating(dtype)) {
    Tensor aside = beta == 0 ? Tensor::empty(DType::Float32, out.sizes()) : convertTensor(out, DType::Float32);
    onBlas<float>(aside, convertTensor(a, DType::Float32), convertTensor(b, DType::Float32), static_cast<float>(alpha),
                  static_cast<float>(beta));
    return copyTensor(out, aside);
  }
  Tensor x = contiguous(a), y = contiguous(b), dense = contiguous(out);
  bool done = visitDType(dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
      forEachMatrix(dense, x, y, [&](int64_t o, int64_t p, int64_t q) {
        multiplyIntegers(m, n, k, x.data<T>() + p, y.data<T>() + q, dense.data<T>() + o, static_cast<int64_t>(alpha),
                         static_cast<int64_t>(beta));
      });
    } else if constexpr (!std::is_arithmetic_v<T> && !std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>) {
      forEachMatrix(dense, x, y, [&](int64_t o, int64_t p, int64_t q) {
        multiplyComplex(m, n, k, x.data<T>() + p, y.data<T>() + q, dense.data<T>() + o, alpha, beta);
      });
    } else {
      throw ExecutionError(ErrorKind::Unsupported, "matrix products are not implemented for bool");
    }
  });
  TS_CHECK(done);
  if (dense.impl() != out.impl()) copyTensor(out, dense);
}

}  // namespace tscompile
