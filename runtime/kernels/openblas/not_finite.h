#pragma once
// Factors of matrices with NaN or infinity, by the plain loops of LAPACK's definition: OpenBLAS leaves out products
// with what it takes for zeros, so that elements which NaN should reach would look like results.

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstdint>
#include <type_traits>

namespace tscompile::lapack::loops {

template <class T>
bool isFinite(int64_t count, const T* a) {
  T sum(0);
  for (int64_t i = 0; i < count; ++i) sum += a[i] * decltype(std::real(T()))(0);
  return sum == T(0);
}

// Of the lower (L) or the upper triangle of n columns.
template <class T>
bool isFiniteTriangle(char uplo, int64_t n, const T* a) {
  for (int64_t j = 0; j < n; ++j)
    if (!(uplo == 'L' ? isFinite(n - j, a + j * n + j) : isFinite(j + 1, a + j * n))) return false;
  return true;
}

// A product of complex numbers whose parts are what the definition says: no infinity is recovered.
template <class T>
T times(T a, T b) {
  if constexpr (std::is_floating_point_v<T>)
    return a * b;
  else
    return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}
template <class T>
T conjugate(T a) {
  if constexpr (std::is_floating_point_v<T>)
    return a;
  else
    return std::conj(a);
}
// What pivots are chosen by.
template <class T>
auto magnitude(T a) {
  return std::abs(std::real(a)) + std::abs(std::imag(a));
}

template <class T>
int factor(int64_t m, int64_t n, T* a, int32_t* pivots) {
  int info = 0;
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    T* column = a + k * m;
    int64_t pivot = k;
    for (int64_t i = k + 1; i < m; ++i)
      if (magnitude(column[i]) > magnitude(column[pivot])) pivot = i;
    pivots[k] = static_cast<int32_t>(pivot + 1);
    if (column[pivot] == T(0)) {
      if (info == 0) info = static_cast<int>(k + 1);
      continue;
    }
    if (pivot != k)
      for (int64_t j = 0; j < n; ++j) std::swap(a[j * m + k], a[j * m + pivot]);
    for (int64_t i = k + 1; i < m; ++i) column[i] /= column[k];
    for (int64_t j = k + 1; j < n; ++j)
      for (int64_t i = k + 1; i < m; ++i) a[j * m + i] -= times(column[i], a[j * m + k]);
  }
  return info;
}

// Solves op(LU) x = b for one column; op is N, T or C.
template <class T>
void substitute(char op, int64_t n, const T* lu, const int32_t* pivots, T* b) {
  if (op == 'N') {
    for (int64_t i = 0; i < n; ++i) std::swap(b[i], b[pivots[i] - 1]);
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = k + 1; i < n; ++i) b[i] -= times(b[k], lu[k * n + i]);
    for (int64_t k = n; k-- > 0;) {
      b[k] /= lu[k * n + k];
      for (int64_t i = 0; i < k; ++i) b[i] -= times(b[k], lu[k * n + i]);
    }
    return;
  }
  auto at = [&](int64_t i, int64_t k) { return op == 'C' ? conjugate(lu[k * n + i]) : lu[k * n + i]; };
  for (int64_t k = 0; k < n; ++k) {
    for (int64_t i = 0; i < k; ++i) b[k] -= times(b[i], at(i, k));
    b[k] /= at(k, k);
  }
  for (int64_t k = n; k-- > 0;)
    for (int64_t i = k + 1; i < n; ++i) b[k] -= times(b[i], at(i, k));
  for (int64_t i = n; i-- > 0;) std::swap(b[i], b[pivots[i] - 1]);
}

// The triangle that a Cholesky factor is in, seen as the lower one.
template <class T>
class LowerFactor {
 public:
  LowerFactor(char uplo, int64_t n, T* a) : isUpper_(uplo == 'U'), n_(n), a_(a) {}
  T get(int64_t i, int64_t j) const { return isUpper_ ? conjugate(a_[i * n_ + j]) : a_[j * n_ + i]; }
  void set(int64_t i, int64_t j, T v) const { (isUpper_ ? a_[i * n_ + j] = conjugate(v) : a_[j * n_ + i] = v); }

 private:
  bool isUpper_;
  int64_t n_;
  T* a_;
};

// NaN on the diagonal is not positive.
template <class T>
int factorCholesky(char uplo, int64_t n, T* a) {
  const LowerFactor<T> l(uplo, n, a);
  for (int64_t j = 0; j < n; ++j) {
    auto square = std::real(l.get(j, j));
    for (int64_t k = 0; k < j; ++k) square -= std::real(times(l.get(j, k), conjugate(l.get(j, k))));
    const bool isPositive = square > 0;
    l.set(j, j, isPositive ? std::sqrt(square) : square);
    if (!isPositive) return static_cast<int>(j + 1);
    for (int64_t i = j + 1; i < n; ++i) {
      T v = l.get(i, j);
      for (int64_t k = 0; k < j; ++k) v -= times(l.get(i, k), conjugate(l.get(j, k)));
      l.set(i, j, v / l.get(j, j));
    }
  }
  return 0;
}

// Solves L L^H x = b for one column.
template <class T>
void substituteCholesky(char uplo, int64_t n, const T* a, T* b) {
  const LowerFactor<T> l(uplo, n, const_cast<T*>(a));
  for (int64_t k = 0; k < n; ++k) {
    b[k] /= l.get(k, k);
    for (int64_t i = k + 1; i < n; ++i) b[i] -= times(b[k], l.get(i, k));
  }
  for (int64_t k = n; k-- > 0;) {
    for (int64_t i = k + 1; i < n; ++i) b[k] -= times(b[i], conjugate(l.get(i, k)));
    b[k] /= conjugate(l.get(k, k));
  }
}

// The inverse of L L^H, over its factor; `work` has room for as much.
template <class T>
int invertCholesky(char uplo, int64_t n, T* a, T* work) {
  const LowerFactor<T> l(uplo, n, a);
  for (int64_t j = 0; j < n; ++j) {
    if (l.get(j, j) == T(0)) return static_cast<int>(j + 1);
    T* column = work + j * n;
    std::fill_n(column, n, T(0));
    column[j] = T(1);
    for (int64_t k = j; k < n; ++k) {
      column[k] /= l.get(k, k);
      for (int64_t i = k + 1; i < n; ++i) column[i] -= times(column[k], l.get(i, k));
    }
  }
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < n; ++i) {
      T sum(0);
      for (int64_t k = std::max(i, j); k < n; ++k) sum += times(conjugate(work[i * n + k]), work[j * n + k]);
      a[j * n + i] = sum;
    }
  return 0;
}

// Multiplies `columns` columns of `a`, of length m, by 1 - tau v v^H from the left.
template <class T>
void reflect(int64_t m, int64_t columns, const T* v, T tau, T* a, int64_t lda) {
  if (tau == T(0)) return;
  for (int64_t j = 0; j < columns; ++j) {
    T sum(0);
    for (int64_t i = 0; i < m; ++i) sum += times(conjugate(i == 0 ? T(1) : v[i]), a[j * lda + i]);
    sum = times(sum, tau);
    for (int64_t i = 0; i < m; ++i) a[j * lda + i] -= times(i == 0 ? T(1) : v[i], sum);
  }
}

template <class T>
void factorQr(int64_t m, int64_t n, T* a, T* tau) {
  for (int64_t k = 0; k < std::min(m, n); ++k) {
    T* column = a + k * m + k;
    auto norm = std::real(T(0));
    for (int64_t i = 1; i < m - k; ++i) norm = std::hypot(norm, std::abs(column[i]));
    tau[k] = T(0);
    if (norm == 0 && std::imag(column[0]) == 0) continue;
    const T alpha = column[0];
    const auto beta = -std::copysign(std::hypot(std::abs(alpha), norm), std::real(alpha));
    tau[k] = (T(beta) - alpha) / beta;
    const T scale = T(1) / (alpha - T(beta));
    for (int64_t i = 1; i < m - k; ++i) column[i] = times(column[i], scale);
    column[0] = beta;
    reflect(m - k, n - k - 1, column, conjugate(tau[k]), column + m, m);
  }
}

// The first n columns of the product of k reflections that factorQr left.
template <class T>
void makeQ(int64_t m, int64_t n, int64_t k, T* a, const T* tau) {
  for (int64_t j = k; j < n; ++j) {
    std::fill_n(a + j * m, m, T(0));
    a[j * m + j] = T(1);
  }
  for (int64_t i = k; i-- > 0;) {
    T* column = a + i * m + i;
    reflect(m - i, n - i - 1, column, tau[i], column + m, m);
    for (int64_t r = 1; r < m - i; ++r) column[r] = -times(tau[i], column[r]);
    column[0] = T(1) - tau[i];
    std::fill_n(a + i * m, i, T(0));
  }
}

}  // namespace tscompile::lapack::loops
