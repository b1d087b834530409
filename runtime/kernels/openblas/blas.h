// Matrix products on OpenBLAS, one thread a call. Nothing else names cblas.
#pragma once

#include <complex>
#include <cstdint>

namespace tscompile::blas {

// C = alpha * op(A) * op(B) + beta * C, row-major; op(A) is m x k, op(B) is k x n. Leading dimensions are those of the
// matrices as stored. With beta = 0, C is not read.
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc);
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, std::complex<float> alpha,
          const std::complex<float>* a, int64_t lda, const std::complex<float>* b, int64_t ldb,
          std::complex<float> beta, std::complex<float>* c, int64_t ldc);
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, std::complex<double> alpha,
          const std::complex<double>* a, int64_t lda, const std::complex<double>* b, int64_t ldb,
          std::complex<double> beta, std::complex<double>* c, int64_t ldc);

// A function of the library, or null if it is not installed. For lapack.cpp.
void* symbol(const char* name);

}  // namespace tscompile::blas
