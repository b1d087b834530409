// Polynomials and Chebyshev series with tables of coefficients, highest degree first.
#pragma once

#include <concepts>
#include <cstddef>

namespace tscompile {

template <std::floating_point T, size_t n>
T polynomial(T x, const double (&coefficients)[n]) {
  T sum = 0;
  for (double c : coefficients) sum = sum * x + static_cast<T>(c);
  return sum;
}

// Of the Chebyshev polynomials T_k(x / 2), the last term halved, by Clenshaw's recurrence.
template <std::floating_point T, size_t n>
T chebyshevSeries(T x, const double (&coefficients)[n]) {
  T a = static_cast<T>(coefficients[0]), b = 0, c = 0;
  for (size_t i = 1; i < n; ++i) {
    c = b;
    b = a;
    a = x * b - c + static_cast<T>(coefficients[i]);
  }
  return T(0.5) * (a - c);
}

}  // namespace tscompile
