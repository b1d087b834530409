// Matrix products on OpenBLAS, one thread a call. Nothing else names cblas.
#pragma once

#include <cstdint>

namespace tscompile::blas {

// C = alpha * op(A) * op(B) + beta * C, row-major; op(A) is m x k, op(B) is k x n. Leading dimensions are those of the
// matrices as stored. With beta = 0, C is not read.
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
          const float* b, int64_t ldb, float beta, float* c, int64_t ldc);
void gemm(bool transposeA, bool transposeB, int64_t m, int64_t n, int64_t k, double alpha, const double* a, int64_t lda,
          const double* b, int64_t ldb, double beta, double* c, int64_t ldc);

// "OpenBLAS 0.3.21", or what takes its place if the library is not installed.
const char* implementation();

}  // namespace tscompile::blas
