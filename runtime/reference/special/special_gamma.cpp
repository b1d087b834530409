// The gamma function's logarithm and its derivatives, the Hurwitz zeta function, the incomplete gamma functions.
#include "runtime/call/run_context.h"
#include "runtime/reference/special/series.h"
#include "runtime/reference/special/special_math.h"

#include <array>
#include <limits>
#include <numbers>

namespace tscompile {
namespace {

// The asymptotic series of digamma: B_2k / 2k.
constexpr double kDigamma[] = {1.0 / 12, -691.0 / 32760, 1.0 / 132, -1.0 / 240, 1.0 / 252, -1.0 / 120, 1.0 / 12};

// (2k)! / B_2k, the corrections of the Euler-Maclaurin sum.
constexpr double kZeta[] = {12.0,
                            -720.0,
                            30240.0,
                            -1209600.0,
                            47900160.0,
                            -1307674368e3 / 691,
                            7.47242496e10,
                            -1.067062284288e16 / 3617,
                            5.109094217170944e18 / 43867,
                            -8.028576626982912e20 / 174611,
                            1.5511210043330985984e23 / 854513,
                            -1.6938241367317436694528e27 / 236364091};

}  // namespace

template <std::floating_point T>
T logGamma(T x) {
  int sign;  // the plain functions write it to a global variable
  if constexpr (std::is_same_v<T, float>)
    return lgammaf_r(x, &sign);
  else
    return lgamma_r(x, &sign);
}

template <std::floating_point T>
T digamma(T x) {
  if (x == 0) return std::copysign(std::numeric_limits<T>::infinity(), -x);
  if (x < 0) {
    if (x == std::trunc(x)) return std::numeric_limits<T>::quiet_NaN();
    // Reflection, with the fraction alone so that no digits go into the whole part.
    double whole, fraction = std::modf(static_cast<double>(x), &whole);
    return digamma(1 - x) - static_cast<T>(std::numbers::pi / std::tan(std::numbers::pi * fraction));
  }
  T sum = 0;
  for (; x < 10; x += 1) sum -= 1 / x;
  if (x == 10) return sum + T(2.25175258906672110764);
  T series = 0;
  if (x < T(1e17)) {
    T z = 1 / (x * x);
    series = z * polynomial(z, kDigamma);
  }
  return sum + std::log(x) - T(0.5) / x - series;
}

template <std::floating_point T>
T trigamma(T x) {
  T sum = 0;
  bool reflected = x < T(0.5);
  if (reflected) {
    T s = std::sin(T(std::numbers::pi) * x);
    sum -= T(std::numbers::pi) * T(std::numbers::pi) / (s * s);
    x = 1 - x;
  }
  for (int i = 0; i < 6; ++i, x += 1) sum += 1 / (x * x);
  T z = 1 / (x * x);
  sum += (1 + 1 / (2 * x) + z * (T(1) / 6 - z * (T(1) / 30 - z * (T(1) / 42)))) / x;
  return reflected ? -sum : sum;
}

// By the Euler-Maclaurin formula after at least nine terms; in double throughout.
template <>
double hurwitzZeta(double x, double q) {
  constexpr double kEpsilon = 0x1p-53;
  if (x == 1) return std::numeric_limits<double>::infinity();
  if (x < 1) return std::numeric_limits<double>::quiet_NaN();
  if (q <= 0) {
    if (q == std::floor(q)) return std::numeric_limits<double>::infinity();
    if (x != std::floor(x)) return std::numeric_limits<double>::quiet_NaN();
  }
  double sum = std::pow(q, -x), at = q, term = 0;
  for (int64_t i = 0; i < 9 || at <= 9; ++i) {
    at += 1;
    term = std::pow(at, -x);
    sum += term;
    if (std::abs(term) < std::abs(kEpsilon * sum)) return sum;
    if (i % 4096 == 4095) RunContext::current().checkInterrupt(4096);
  }
  sum += term * at / (x - 1) - 0.5 * term;
  double factor = 1, k = 0;
  for (double c : kZeta) {
    factor *= x + k;
    term /= at;
    double correction = factor * term / c;
    sum += correction;
    if (std::abs(correction / sum) < kEpsilon) return sum;
    factor *= x + k + 1;
    term /= at;
    k += 2;
  }
  return sum;
}
template <>
float hurwitzZeta(float x, float q) {
  return static_cast<float>(hurwitzZeta(static_cast<double>(x), static_cast<double>(q)));
}

template <std::floating_point T>
T polygamma(int64_t n, T x) {
  if (n == 0) return digamma(x);
  if (n == 1) return trigamma(x);
  auto order = static_cast<T>(n);
  return (n % 2 ? T(1) : T(-1)) * std::exp(logGamma(order + 1)) * hurwitzZeta(order + 1, x);
}

// ---- the incomplete gamma functions: DLMF chapter 8, in the regions of Maddock et al. ("Incomplete Gamma Functions",
// Boost.Math) ----

namespace {

constexpr int kMaxTerms = 2000;
template <class T>
constexpr T kEpsilon = std::numeric_limits<T>::epsilon() / 2;

// Lanczos' approximation of gamma(x) scaled by exp(g), for N = 13 and g = 6.0246... (Godfrey; Boost.Math's
// lanczos13m53).
constexpr double kLanczosG = 6.024680040776729583740234375;
constexpr double kLanczosTop[] = {
    0.006061842346248906525783753964555936883222, 0.5098416655656676188125178644804694509993,
    19.51992788247617482847860966235652136208,    449.9445569063168119446858607650988409623,
    6955.999602515376140356310115515198987526,    75999.29304014542649875303443598909137092,
    601859.6171681098786670226533699352302507,    3481712.15498064590882071018964774556468,
    14605578.08768506808414169982791359218571,    43338889.32467613834773723740590533316085,
    86363131.28813859145546927288977868422342,    103794043.1163445451906271053616070238554,
    56906521.91347156388090791033559122686859};
constexpr double kLanczosBottom[] = {1,        66,        1925,      32670,     357423,   2637558, 13339535,
                                     45995730, 105258076, 150917976, 120543840, 39916800, 0};

template <class T>
T lanczosSum(T x) {
  if (std::abs(x) <= 1) return polynomial(x, kLanczosTop) / polynomial(x, kLanczosBottom);
  // In powers of 1 / x, which do not overflow.
  T top = 0, bottom = 0;
  for (size_t i = std::size(kLanczosTop); i-- > 0;) {
    top = top / x + static_cast<T>(kLanczosTop[i]);
    bottom = bottom / x + static_cast<T>(kLanczosBottom[i]);
  }
  return top / bottom;
}

// x^a exp(-x) / gamma(a)
template <class T>
T gammaPrefix(T a, T x) {
  if (std::abs(a - x) > T(0.4) * std::abs(a)) {
    T exponent = a * std::log(x) - x - logGamma(a);
    return exponent < -std::log(std::numeric_limits<T>::max()) ? T(0) : std::exp(exponent);
  }
  T g = T(kLanczosG), scale = a + g - T(0.5);
  T result = std::sqrt(scale / T(2.71828182845904523536)) / lanczosSum(a);
  if (a < 200 && x < 200) return result * std::exp(a - x) * std::pow(x / scale, a);
  T ratio = (x - a - g + T(0.5)) / scale;
  return result * std::exp(a * (std::log1p(ratio) - ratio) + x * (T(0.5) - g) / scale);
}

// DLMF 8.11.4, for P.
template <class T>
T lowerSeries(T a, T x) {
  T prefix = gammaPrefix(a, x);
  if (prefix == 0) return 0;
  T r = a, term = 1, sum = 1;
  for (int i = 0; i < kMaxTerms; ++i) {
    r += 1;
    term *= x / r;
    sum += term;
    if (term <= kEpsilon<T> * sum) break;
  }
  return sum * prefix / a;
}

// DLMF 8.7.3, for Q where it is not small.
template <class T>
T upperSeries(T a, T x) {
  T factor = 1, sum = 0;
  for (int n = 1; n < kMaxTerms; ++n) {
    factor *= -x / T(n);
    T term = factor / (a + T(n));
    sum += term;
    if (std::abs(term) <= kEpsilon<T> * std::abs(sum)) break;
  }
  T logX = std::log(x);
  return -std::expm1(a * logX - logGamma(1 + a)) - std::exp(a * logX - logGamma(a)) * sum;
}

// DLMF 8.9.2, for Q.
template <class T>
T upperFraction(T a, T x) {
  constexpr T kBig = 1 / std::numeric_limits<T>::epsilon();
  T prefix = gammaPrefix(a, x);
  if (prefix == 0) return 0;
  T y = 1 - a, z = x + y + 1;
  T p2 = 1, q2 = x, p1 = x + 1, q1 = z * x, value = p1 / q1;
  for (int i = 1; i <= kMaxTerms; ++i) {
    y += 1;
    z += 2;
    T yc = y * T(i), p = p1 * z - p2 * yc, q = q1 * z - q2 * yc, change = 1;
    if (q != 0) {
      change = std::abs((value - p / q) / (p / q));
      value = p / q;
    }
    p2 = std::exchange(p1, p);
    q2 = std::exchange(q1, q);
    if (std::abs(p) > kBig)
      for (T* v : {&p1, &p2, &q1, &q2}) *v /= kBig;
    if (change <= kEpsilon<T>) break;
  }
  return value * prefix;
}

// The coefficients d(k, n) of Temme's uniform expansion (DLMF 8.12.10), by his recurrences ("The asymptotic expansion
// of the incomplete gamma functions", 1979): with mu = sum of alpha_n eta^n where eta^2 / 2 = mu - log(1 + mu),
//   d(0, n) = (n + 2) alpha_(n+2),   d(k, n) = (-1)^k g_k d(0, n) + (n + 2) d(k - 1, n + 2),   g_k = (2k + 1)!!
//   alpha_(2k+1)
class TemmeTable {
 public:
  static constexpr int kTerms = 25;
  TemmeTable() {
    constexpr int kCount = 3 * kTerms + 2;
    std::array<long double, kCount> alpha{}, d{};
    alpha[1] = 1;
    for (int m = 2; m < kCount; ++m) {
      long double sum = 0;
      for (int i = 2; i < m; ++i) sum += alpha[i] * alpha[m + 1 - i];
      alpha[m] = alpha[m - 1] / static_cast<long double>(m + 1) - sum / 2;
    }
    std::array<long double, kCount> first{};
    for (int n = 0; n + 2 < kCount; ++n) first[n] = static_cast<long double>(n + 2) * alpha[n + 2];
    first[0] -= 1;
    d = first;
    long double stirling = 1;
    for (int k = 0; k < kTerms; ++k) {
      for (int n = 0; n < kTerms; ++n) values_[k][n] = static_cast<double>(d[n]);
      // The next row; it loses two columns.
      long double odd = 1;
      for (int i = 3; i <= 2 * k + 3; i += 2) odd *= i;
      stirling = (k % 2 ? 1 : -1) * odd * alpha[2 * k + 3];
      for (int n = 0; n + 2 * k + 4 < kCount; ++n)
        d[n] = stirling * first[n] + static_cast<long double>(n + 2) * d[n + 2];
    }
  }
  double operator()(int k, int n) const { return values_[k][n]; }

 private:
  double values_[kTerms][kTerms];
};

// DLMF 8.12.3 and 8.12.4, where a is large and x near it.
template <bool kLower, class T>
T uniformExpansion(T a, T x) {
  static const TemmeTable table;
  constexpr int kTerms = TemmeTable::kTerms;
  constexpr T kSign = kLower ? -1 : 1;
  T sigma = (x - a) / a, eta = std::copysign(std::sqrt(-2 * (std::log1p(sigma) - sigma)), sigma);
  if (x == a) eta = 0;
  T powers[kTerms] = {1};
  for (int n = 1; n < kTerms; ++n) powers[n] = eta * powers[n - 1];
  T sum = 0, factor = 1, before = std::numeric_limits<T>::infinity();
  for (int k = 0; k < kTerms; ++k) {
    T c = static_cast<T>(table(k, 0));
    for (int n = 1; n < kTerms; ++n) {
      T term = static_cast<T>(table(k, n)) * powers[n];
      c += term;
      if (std::abs(term) < kEpsilon<T> * std::abs(c)) break;
    }
    T term = c * factor;
    if (std::abs(term) > before) break;  // the expansion is asymptotic: it has begun to diverge
    sum += term;
    if (std::abs(term) < kEpsilon<T> * std::abs(sum)) break;
    before = std::abs(term);
    factor /= a;
  }
  return T(0.5) * std::erfc(kSign * eta * std::sqrt(a / 2)) +
         kSign * std::exp(T(-0.5) * a * eta * eta) * sum / std::sqrt(T(2 * std::numbers::pi) * a);
}

template <class T>
bool suitsExpansion(T a, T x) {
  T distance = std::abs(x - a) / a;
  return (a > 20 && a < 200 && distance < T(0.3)) || (a > 200 && distance < T(4.5) / std::sqrt(a));
}

// Where one of the two is 0 or infinite, or out of range: the value of P, or NaN. False for the rest.
template <class T>
bool lowerGammaLimit(T a, T x, T& value) {
  constexpr T kNan = std::numeric_limits<T>::quiet_NaN();
  if (x < 0 || a < 0)
    value = kNan;
  else if (a == 0)
    value = x > 0 ? T(1) : kNan;
  else if (x == 0)
    value = 0;
  else if (std::isinf(a))
    value = std::isinf(x) ? kNan : T(0);
  else if (std::isinf(x))
    value = 1;
  else
    return false;
  return true;
}

}  // namespace

template <std::floating_point T>
T upperGamma(T a, T x) {
  if (T limit; lowerGammaLimit(a, x, limit)) return 1 - limit;
  if (suitsExpansion(a, x)) return uniformExpansion<false>(a, x);
  if (x > T(1.1)) return x < a ? 1 - lowerSeries(a, x) : upperFraction(a, x);
  bool lowerIsBetter = x <= T(0.5) ? T(-0.4) / std::log(x) < a : x * T(1.1) < a;
  return lowerIsBetter ? 1 - lowerSeries(a, x) : upperSeries(a, x);
}

template <std::floating_point T>
T lowerGamma(T a, T x) {
  if (T limit; lowerGammaLimit(a, x, limit)) return limit;
  if (suitsExpansion(a, x)) return uniformExpansion<true>(a, x);
  return x > 1 && x > a ? 1 - upperGamma(a, x) : lowerSeries(a, x);
}

#define TS_INSTANTIATE(T)           \
  template T logGamma(T);           \
  template T digamma(T);            \
  template T trigamma(T);           \
  template T polygamma(int64_t, T); \
  template T lowerGamma(T, T);      \
  template T upperGamma(T, T);
TS_INSTANTIATE(float)
TS_INSTANTIATE(double)
#undef TS_INSTANTIATE

}  // namespace tscompile
