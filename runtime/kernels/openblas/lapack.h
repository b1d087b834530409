// LAPACK's factorizations of column-major matrices, out of OpenBLAS: pivots, signs and orders are those that PyTorch
// gets from the same routines.
#pragma once

#include <complex>
#include <cstdint>

namespace tscompile::lapack {

template <class T>
struct RealOf {
  using Type = T;
};
template <class T>
struct RealOf<std::complex<T>> {
  using Type = T;
};
template <class T>
using Real = typename RealOf<T>::Type;

// The functions bear LAPACK's names, are defined for float, double and their complex types, and return its `info`: 0,
// or the place where a factorization broke down, or below 0 for an argument that it refuses (NaN, say). Matrices are
// stored without gaps unless a leading dimension is given. They fail if the library is not installed, or if a size does
// not fit its 32-bit interface.

// LU with partial pivoting; pivots count from 1.
template <class T>
int getrf(int64_t m, int64_t n, T* a, int32_t* pivots);
// Solves op(A) X = B from it; `op` is 'N', 'T' or 'C'.
template <class T>
int getrs(char op, int64_t n, int64_t columns, const T* lu, const int32_t* pivots, T* b);

// Cholesky of the triangle that `uplo` ('L' or 'U') names; the inverse and solutions from it.
template <class T>
int potrf(char uplo, int64_t n, T* a);
template <class T>
int potri(char uplo, int64_t n, T* a);
template <class T>
int potrs(char uplo, int64_t n, int64_t columns, const T* a, T* b);

// QR: reflectors below the diagonal and `tau`; the first n columns of Q from k of them; Q times C.
template <class T>
int geqrf(int64_t m, int64_t n, T* a, T* tau);
template <class T>
int orgqr(int64_t m, int64_t n, int64_t k, T* a, const T* tau);
template <class T>
int ormqr(char side, char op, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, const T* tau, T* c);

// LDL^T, or LDL^H if `hermitian`, of the lower triangle.
template <class T>
int sytrf(bool hermitian, int64_t n, T* a, int32_t* pivots);
template <class T>
int sytrs(bool hermitian, int64_t n, int64_t columns, const T* a, const int32_t* pivots, T* b);

// Eigenvalues in ascending order of a Hermitian matrix, which its eigenvectors replace if they are wanted.
template <class T>
int syevd(bool vectors, char uplo, int64_t n, T* a, Real<T>* values);
// Eigenvalues and, if `vectors` is not null, right eigenvectors.
template <class T>
int geev(int64_t n, T* a, std::complex<Real<T>>* values, std::complex<Real<T>>* vectors);
// Singular values; `job` is 'N' (values only), 'S' (the first min(m, n) vectors) or 'A' (all).
template <class T>
int gesdd(char job, int64_t m, int64_t n, T* a, Real<T>* values, T* u, T* vh);

// Solves op(A) X = B or X op(A) = B for a triangular matrix.
template <class T>
void trsm(char side, char uplo, char op, char diagonal, int64_t m, int64_t n, const T* a, T* b);

// Least squares, by QR, by QR with pivoting, by divide-and-conquer SVD, by SVD. `b` has max(m, n) rows.
enum class LeastSquares { Gels, Gelsy, Gelsd, Gelss };
template <class T>
int leastSquares(LeastSquares driver, int64_t m, int64_t n, int64_t columns, T* a, T* b, double rcond,
                 Real<T>* singularValues, int32_t* rank);

}  // namespace tscompile::lapack
