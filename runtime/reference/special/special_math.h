// Special functions of one number: the gamma function and its kin, the error function and its kin, Bessel functions,
// orthogonal polynomials. Each is made for float and for double and computes in that type, so that results lose the
// digits that PyTorch's lose. Rational and Chebyshev approximations are those of Moshier's Cephes library ("Methods and
// Programs for Mathematical Functions", 1989) unless told otherwise.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>

namespace tscompile {

// ---- special_gamma.cpp ----

template <std::floating_point T>
T logGamma(T x);  // log |gamma(x)|
template <std::floating_point T>
T digamma(T x);
template <std::floating_point T>
T trigamma(T x);
// The sum of (q + k)^-x over k = 0, 1, ...
template <std::floating_point T>
T hurwitzZeta(T x, T q);
// The n-th derivative of digamma, n >= 0.
template <std::floating_point T>
T polygamma(int64_t n, T x);
// The regularized incomplete gamma functions, P(a, x) and Q(a, x) = 1 - P(a, x).
template <std::floating_point T>
T lowerGamma(T a, T x);
template <std::floating_point T>
T upperGamma(T a, T x);

// ---- special_error.cpp ----

template <std::floating_point T>
T inverseErf(T y);
// exp(x^2) erfc(x)
template <std::floating_point T>
T scaledErfc(T x);
// The quantile of the normal distribution, and the logarithm of its distribution function.
template <std::floating_point T>
T normalQuantile(T p);
template <std::floating_point T>
T logNormalCdf(T x);

// ---- special_bessel.cpp ----

template <std::floating_point T>
T besselJ0(T x);
template <std::floating_point T>
T besselJ1(T x);
template <std::floating_point T>
T besselY0(T x);
template <std::floating_point T>
T besselY1(T x);
template <std::floating_point T>
T sphericalBesselJ0(T x);
template <std::floating_point T>
T airyAi(T x);
// The modified functions; with kScaled, times exp(-|x|) of the first kind and exp(x) of the second.
template <bool kScaled, std::floating_point T>
T besselI0(T x);
template <bool kScaled, std::floating_point T>
T besselI1(T x);
template <bool kScaled, std::floating_point T>
T besselK0(T x);
template <bool kScaled, std::floating_point T>
T besselK1(T x);

// ---- special_polynomials.cpp: polynomials of degree n at x; 0 where n is negative ----

// Chebyshev polynomials of the first to the fourth kind. `direct` is the degree above which they are computed by their
// trigonometric form within (-1, 1), without a recurrence.
template <std::floating_point T>
T chebyshevT(T x, int64_t n, int64_t direct);
template <std::floating_point T>
T chebyshevU(T x, int64_t n, int64_t direct);
template <std::floating_point T>
T chebyshevV(T x, int64_t n, int64_t direct);
template <std::floating_point T>
T chebyshevW(T x, int64_t n, int64_t direct);
// The physicists' and the probabilists' Hermite polynomials.
template <std::floating_point T>
T hermiteH(T x, int64_t n);
template <std::floating_point T>
T hermiteHe(T x, int64_t n);
template <std::floating_point T>
T laguerre(T x, int64_t n);
template <std::floating_point T>
T legendre(T x, int64_t n);

}  // namespace tscompile
