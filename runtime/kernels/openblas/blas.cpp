#include "runtime/kernels/openblas/blas.h"

#include <Eigen/Core>

#include <algorithm>
#include <cblas.h>
#include <climits>
#include <cstdlib>
#include <dlfcn.h>
#include <optional>
#include <string>
#include <string_view>

namespace tscompile::blas {
namespace {

// A variable of the environment while it lives.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value, 1);
  }
  ~ScopedVariable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

// The library is loaded at the first product: it costs milliseconds, and with more than one thread in force its idle
// workers would spin.
struct Library {
  static void* open() { return dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL); }

  // What it should have taken the processor for, if it has chosen kernels without the vectors that are there.
  const char* betterCore() const {
    auto name = handle ? reinterpret_cast<const char* (*)()>(dlsym(handle, "openblas_get_corename")) : nullptr;
    if (!name) return nullptr;
    const std::string_view chosen = name();
    for (std::string_view good : {"Haswell", "Zen", "Excavator", "SkylakeX", "Cooperlake", "SapphireRapids"})
      if (chosen == good) return nullptr;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) return "SkylakeX";
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
    return nullptr;
  }

  void* handle = nullptr;
  decltype(&cblas_sgemm) sgemm = nullptr;
  decltype(&cblas_dgemm) dgemm = nullptr;
  decltype(&cblas_cgemm) cgemm = nullptr;
  decltype(&cblas_zgemm) zgemm = nullptr;

  Library() {
    {
      const ScopedVariable threads("OPENBLAS_NUM_THREADS", "1");
      handle = open();
      // Processors that are newer than the library are taken for old ones, with a third of the speed.
      const char* core = std::getenv("OPENBLAS_CORETYPE") ? nullptr : betterCore();
      if (core) {
        dlclose(handle);
        const ScopedVariable type("OPENBLAS_CORETYPE", core);
        handle = open();
      }
    }
    if (!handle) return;
    sgemm = reinterpret_cast<decltype(sgemm)>(dlsym(handle, "cblas_sgemm"));
    dgemm = reinterpret_cast<decltype(dgemm)>(dlsym(handle, "cblas_dgemm"));
    cgemm = reinterpret_cast<decltype(cgemm)>(dlsym(handle, "cblas_cgemm"));
    zgemm = reinterpret_cast<decltype(zgemm)>(dlsym(handle, "cblas_zgemm"));
    if (auto setThreads = reinterpret_cast<void (*)(int)>(dlsym(handle, "openblas_set_num_threads"))) setThreads(1);
  }
};
const Library& library() {
  static const Library* l = new Library;
  return *l;
}

// Without the library, and for sizes that it cannot take. One product for all orders, as each takes the compiler
// seconds: transposed operands are copied. Eigen's product itself, whose expressions would bring products with vectors.
template <class T>
void eigenGemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda,
               const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  constexpr int kRows = Eigen::RowMajor;
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, kRows>;
  using Stride = Eigen::OuterStride<>;
  using Operand = Eigen::Map<const Matrix, 0, Stride>;
  Matrix copyA, copyB;
  auto operand = [](bool transpose, Matrix& copy, const T* data, int64_t rows, int64_t columns, int64_t stride) {
    if (!transpose) return Operand(data, rows, columns, Stride(stride));
    copy = Operand(data, columns, rows, Stride(stride)).transpose();
    return Operand(copy.data(), rows, columns, Stride(columns));
  };
  Operand x = operand(transposeA, copyA, a, m, k, lda), y = operand(transposeB, copyB, b, k, n, ldb);
  Eigen::Map<Matrix, 0, Stride> out(c, m, n, Stride(ldc));
  if (beta == T(0))
    out.setZero();
  else
    out *= beta;
  if (k == 0) return;
  using Product = Eigen::internal::general_matrix_matrix_product<int64_t, T, kRows, false, T, kRows, false, kRows, 1>;
  Eigen::internal::gemm_blocking_space<kRows, T, T, Eigen::Dynamic, Eigen::Dynamic, Eigen::Dynamic, 1, false> blocking(
      m, n, k, 1, true);
  Product::run(m, n, k, x.data(), x.outerStride(), y.data(), y.outerStride(), c, 1, ldc, alpha, blocking, nullptr);
}

template <class T, class Gemm>
void run(Gemm function, bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, T alpha, const T* a,
         int64_t lda, const T* b, int64_t ldb, T beta, T* c, int64_t ldc) {
  if (m == 0 || n == 0) return;
  lda = std::max<int64_t>(lda, 1);
  ldb = std::max<int64_t>(ldb, 1);
  // The interface takes 32-bit sizes.
  bool fits = std::max({m, n, k, lda, ldb, ldc}) <= INT_MAX;
  if (!function || !fits || k == 0)
    return eigenGemm(transposeA, transposeB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  auto i = [](int64_t v) { return static_cast<blasint>(v); };
  CBLAS_TRANSPOSE ta = transposeA ? CblasTrans : CblasNoTrans, tb = transposeB ? CblasTrans : CblasNoTrans;
  // Complex factors are passed by address.
  if constexpr (std::is_floating_point_v<T>)
    function(CblasRowMajor, ta, tb, i(m), i(n), i(k), alpha, a, i(lda), b, i(ldb), beta, c, i(ldc));
  else
    function(CblasRowMajor, ta, tb, i(m), i(n), i(k), &alpha, a, i(lda), b, i(ldb), &beta, c, i(ldc));
}

}  // namespace

void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc) {
  run(library().sgemm, transposeA, transposeB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc) {
  run(library().dgemm, transposeA, transposeB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, std::complex<float> alpha,
          const std::complex<float>* a, int64_t lda, const std::complex<float>* b, int64_t ldb,
          std::complex<float> beta, std::complex<float>* c, int64_t ldc) {
  run(library().cgemm, transposeA, transposeB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, std::complex<double> alpha,
          const std::complex<double>* a, int64_t lda, const std::complex<double>* b, int64_t ldb,
          std::complex<double> beta, std::complex<double>* c, int64_t ldc) {
  run(library().zgemm, transposeA, transposeB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

void* symbol(const char* name) {
  void* handle = library().handle;
  return handle ? dlsym(handle, name) : nullptr;
}

}  // namespace tscompile::blas
