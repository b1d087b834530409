// The four operations on compute types: integers wrap, complex numbers go by the plain formulas that PyTorch's loops
// use.
#pragma once

#include "runtime/kernels/wide/extremes.h"
#include "runtime/reference/loops/numbers.h"

#include <complex>

namespace tscompile {

template <class T>
T plus(T a, T b) {
  return a + b;
}
inline int64_t plus(int64_t a, int64_t b) { return wrapAdd(a, b); }

template <class T>
T minus(T a, T b) {
  return a - b;
}
inline int64_t minus(int64_t a, int64_t b) { return wrapSub(a, b); }

template <class T>
T times(T a, T b) {
  return a * b;
}
inline int64_t times(int64_t a, int64_t b) { return wrapMul(a, b); }
template <class T>
std::complex<T> times(std::complex<T> a, std::complex<T> b) {
  return {a.real() * b.real() - a.imag() * b.imag(), a.real() * b.imag() + a.imag() * b.real()};
}

template <class T>
T clamped(T x, T low, T high) {
  return lesser(greater(x, low), high);
}

// Not for integers, whose division rounds.
template <class T>
T quotient(T a, T b) {
  return a / b;
}
// Scaled by the greater part of the divisor, so that its square does not overflow.
template <class T>
std::complex<T> quotient(std::complex<T> a, std::complex<T> b) {
  T c = b.real(), d = b.imag();
  if (std::abs(c) >= std::abs(d)) {
    if (c == 0 && d == 0) return {a.real() / std::abs(c), a.imag() / std::abs(d)};
    T ratio = d / c, scale = 1 / (c + d * ratio);
    return {(a.real() + a.imag() * ratio) * scale, (a.imag() - a.real() * ratio) * scale};
  }
  T ratio = c / d, scale = 1 / (c * ratio + d);
  return {(a.real() * ratio + a.imag()) * scale, (a.imag() * ratio - a.real()) * scale};
}

}  // namespace tscompile
