// Functions around the error function: its inverse, its scaled complement, the normal distribution.
#include "runtime/reference/special/series.h"
#include "runtime/reference/special/special_math.h"

#include <limits>

namespace tscompile {
namespace {

constexpr double kTwoOverRootPi = 1.12837916709551257390, kInverseRootPi = 0.56418958354775628695;

// First guesses for the inverse of erf (Pavlis 1996), lowest degree last.
constexpr double kInnerTop[] = {-0.140543331, 0.914624893, -1.645349621, 0.886226899};
constexpr double kInnerBottom[] = {0.012229801, -0.329097515, 1.442710462, -2.118377725, 1};
constexpr double kOuterTop[] = {1.641345311, 3.429567803, -1.624906493, -1.970840454};
constexpr double kOuterBottom[] = {1.637067800, 3.543889200, 1};

// The quantile of the normal distribution.
// For |p - 1/2| <= 3/8; then for z = sqrt(-2 log p) between 2 and 8, and between 8 and 64.
constexpr double kCentralTop[] = {-59.96335010141079, 98.00107541859997, -56.67628574690703, 13.931260938727968,
                                  -1.2391658386738125};
constexpr double kCentralBottom[] = {1.0,
                                     1.9544885833814176,
                                     4.676279128988815,
                                     86.36024213908905,
                                     -225.46268785411937,
                                     200.26021238006066,
                                     -82.03722561683334,
                                     15.90562251262117,
                                     -1.1833162112133};
constexpr double kTailTop[] = {4.0554489230596245,  31.525109459989388,   57.16281922464213,
                               44.08050738932008,   14.684956192885803,   2.1866330685079025,
                               -0.1402560791713545, -0.03504246268278482, -0.0008574567851546854};
constexpr double kTailBottom[] = {1.0,
                                  15.779988325646675,
                                  45.39076351288792,
                                  41.3172038254672,
                                  15.04253856929075,
                                  2.504649462083094,
                                  -0.14218292285478779,
                                  -0.03808064076915783,
                                  -0.0009332594808954574};
constexpr double kFarTop[] = {3.2377489177694603,     6.915228890689842,      3.9388102529247444,
                              1.3330346081580755,     0.20148538954917908,    0.012371663481782003,
                              0.00030158155350823543, 2.6580697468673755e-06, 6.239745391849833e-09};
constexpr double kFarBottom[] = {1.0,
                                 6.02427039364742,
                                 3.6798356385616087,
                                 1.3770209948908132,
                                 0.21623699359449663,
                                 0.013420400608854318,
                                 0.00032801446468212774,
                                 2.8924786474538068e-06,
                                 6.790194080099813e-09};

// exp(x^2) erfc(x) for x >= 0. erfc has all its digits as long as it does not underflow; the rounding of x^2, which exp
// would magnify, is put back.
double positiveScaledErfc(double x) {
  if (x <= 20) {
    double square = x * x, lost = std::fma(x, x, -square);
    return std::exp(square) * (1 + lost) * std::erfc(x);
  }
  double fraction = x;  // Laplace's continued fraction
  for (int k = 12; k > 0; --k) fraction = x + k / 2.0 / fraction;
  return kInverseRootPi / fraction;
}

}  // namespace

// A rational guess, then two steps of Newton's method.
template <std::floating_point T>
T inverseErf(T y) {
  T size = std::abs(y);
  if (size > 1) return std::numeric_limits<T>::quiet_NaN();
  if (size == 1) return std::copysign(std::numeric_limits<T>::infinity(), y);
  T x;
  if (size <= T(0.7)) {
    T z = y * y;
    x = y * polynomial(z, kInnerTop) / polynomial(z, kInnerBottom);
  } else {
    T z = std::sqrt(-std::log((1 - size) / 2));
    x = std::copysign(polynomial(z, kOuterTop), y) / polynomial(z, kOuterBottom);
  }
  for (int step = 0; step < 2; ++step) x -= (std::erf(x) - y) / (T(kTwoOverRootPi) * std::exp(-x * x));
  return x;
}

template <std::floating_point T>
T scaledErfc(T x) {
  if (x >= 0 || x != x) return static_cast<T>(positiveScaledErfc(static_cast<double>(x)));
  if (x < T(-26.7)) return std::numeric_limits<T>::infinity();
  return 2 * std::exp(x * x) - static_cast<T>(positiveScaledErfc(static_cast<double>(-x)));
}

template <std::floating_point T>
T normalQuantile(T p) {
  constexpr T kTail = T(0.13533528323661269189);  // exp(-2)
  if (p == 0) return -std::numeric_limits<T>::infinity();
  if (p == 1) return std::numeric_limits<T>::infinity();
  if (!(p > 0 && p < 1)) return std::numeric_limits<T>::quiet_NaN();
  bool upper = p > 1 - kTail;
  T y = upper ? 1 - p : p;
  if (y > kTail) {
    y -= T(0.5);
    T z = y * y;
    return (y + y * (z * polynomial(z, kCentralTop) / polynomial(z, kCentralBottom))) * T(2.50662827463100050242);
  }
  T x = std::sqrt(-2 * std::log(y)), z = 1 / x;
  T correction = x < 8 ? z * polynomial(z, kTailTop) / polynomial(z, kTailBottom)
                       : z * polynomial(z, kFarTop) / polynomial(z, kFarBottom);
  x = x - std::log(x) / x - correction;
  return upper ? x : -x;
}

template <std::floating_point T>
T logNormalCdf(T x) {
  T t = x * T(0.70710678118654752440);
  return x < -1 ? std::log(scaledErfc(-t) / 2) - t * t : std::log1p(-std::erfc(t) / 2);
}

#define TS_INSTANTIATE(T)       \
  template T inverseErf(T);     \
  template T scaledErfc(T);     \
  template T normalQuantile(T); \
  template T logNormalCdf(T);
TS_INSTANTIATE(float)
TS_INSTANTIATE(double)
#undef TS_INSTANTIATE

}  // namespace tscompile
