// Orthogonal polynomials by their recurrences; Chebyshev's also by cosines and sines.
#include "runtime/call/run_context.h"
#include "runtime/reference/special/special_math.h"

namespace tscompile {
namespace {

// p_n from p_0 = 1 and p_1: next(k, p_(k-1), p_k) is p_(k+1). Once it is NaN it stays so; the degree may be enormous.
template <class T, class F>
T recurrence(T first, int64_t n, F next) {
  if (n <= 0) return n < 0 ? T(0) : T(1);
  T p = 1, q = first;
  for (int64_t k = 1; k < n && q == q; ++k) {
    T r = next(k, p, q);
    p = q;
    q = r;
    if (k % 65536 == 0) RunContext::current().checkInterrupt(65536);
  }
  return q;
}

template <class T>
T chebyshev(T x, T first, int64_t n) {
  return recurrence(first, n, [=](int64_t, T p, T q) { return (x + x) * q - p; });
}

template <class T>
T alternating(T value, int64_t n) {
  return n % 2 == 0 ? value : -value;
}

// Whether the trigonometric form is to be taken.
template <class T>
bool isDirect(T x, int64_t n, int64_t direct) {
  return n > direct && std::abs(x) < 1;
}

}  // namespace

template <std::floating_point T>
T chebyshevT(T x, int64_t n, int64_t direct) {
  if (n < 0) return 0;
  if (std::abs(x) == 1) return x > 0 ? T(1) : alternating(T(1), n);
  if (isDirect(x, n, direct)) return std::cos(static_cast<T>(n) * std::acos(x));
  return chebyshev(x, x, n);
}

template <std::floating_point T>
T chebyshevU(T x, int64_t n, int64_t direct) {
  if (n < 0) return 0;
  T count = static_cast<T>(n) + 1;
  if (std::abs(x) == 1) return x > 0 ? count : alternating(count, n);
  if (isDirect(x, n, direct)) {
    T angle = std::acos(x), s = std::sin(angle);
    return s != 0 ? std::sin(count * angle) / s : count * std::cos(count * angle) / x;
  }
  return chebyshev(x, x + x, n);
}

template <std::floating_point T>
T chebyshevV(T x, int64_t n, int64_t direct) {
  if (n < 0) return 0;
  T half = static_cast<T>(n) + T(0.5);
  if (std::abs(x) == 1) return x > 0 ? T(1) : alternating(2 * half, n);
  if (isDirect(x, n, direct)) {
    T angle = std::acos(x);
    return std::sin(angle / 2) != 1 ? std::cos(half * angle) / std::cos(angle / 2) : alternating(2 * half, n);
  }
  return chebyshev(x, x + x - 1, n);
}

template <std::floating_point T>
T chebyshevW(T x, int64_t n, int64_t direct) {
  if (n < 0) return 0;
  T half = static_cast<T>(n) + T(0.5);
  if (std::abs(x) == 1) return x > 0 ? 2 * half : alternating(T(1), n);
  if (isDirect(x, n, direct)) {
    T angle = std::acos(x);
    if (std::cos(angle / 2) != 1) return std::sin(half * angle) / std::sin(angle / 2);
    return x > 0 ? 2 * half : alternating(T(1), n);
  }
  return chebyshev(x, x + x + 1, n);
}

template <std::floating_point T>
T hermiteH(T x, int64_t n) {
  return recurrence(x + x, n, [=](int64_t k, T p, T q) { return (x + x) * q - 2 * static_cast<T>(k) * p; });
}

template <std::floating_point T>
T hermiteHe(T x, int64_t n) {
  return recurrence(x, n, [=](int64_t k, T p, T q) { return x * q - static_cast<T>(k) * p; });
}

template <std::floating_point T>
T laguerre(T x, int64_t n) {
  if (n >= 0 && x == 0) return 1;
  return recurrence(1 - x, n, [=](int64_t at, T p, T q) {
    auto k = static_cast<T>(at);
    return ((2 * k + (1 - x)) * q - k * p) / (k + 1);
  });
}

template <std::floating_point T>
T legendre(T x, int64_t n) {
  if (n >= 0 && std::abs(x) == 1) return x > 0 ? T(1) : alternating(T(1), n);
  return recurrence(x, n, [=](int64_t at, T p, T q) {
    auto k = static_cast<T>(at);
    return ((2 * k + 1) * x * q - k * p) / (k + 1);
  });
}

#define TS_INSTANTIATE(T)                     \
  template T chebyshevT(T, int64_t, int64_t); \
  template T chebyshevU(T, int64_t, int64_t); \
  template T chebyshevV(T, int64_t, int64_t); \
  template T chebyshevW(T, int64_t, int64_t); \
  template T hermiteH(T, int64_t);            \
  template T hermiteHe(T, int64_t);           \
  template T laguerre(T, int64_t);            \
  template T legendre(T, int64_t);
TS_INSTANTIATE(float)
TS_INSTANTIATE(double)
#undef TS_INSTANTIATE

}  // namespace tscompile
