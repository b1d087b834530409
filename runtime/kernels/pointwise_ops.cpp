#include "runtime/kernels/pointwise_ops.h"

#include "ir/support/check.h"
#include "ir/values/dtype.h"
#include "runtime/kernels/simd.h"

#include <cmath>
#include <cstring>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/pointwise_ops.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// f of both halves of a vector, in f64.
template <class D, class F>
HWY_INLINE hn::Vec<D> inDoubles(D d, hn::Vec<D> x, F f) {
  const hn::Half<D> half;
  const hn::Rebind<double, decltype(half)> wide;
  const auto low = f(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x)));
  const auto high = f(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x)));
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}
template <class D, class F>
HWY_INLINE hn::Vec<D> inDoubles(D d, hn::Vec<D> x, hn::Vec<D> y, F f) {
  const hn::Half<D> half;
  const hn::Rebind<double, decltype(half)> wide;
  const auto low = f(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x)), hn::PromoteTo(wide, hn::LowerHalf(half, y)));
  const auto high = f(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x)), hn::PromoteTo(wide, hn::UpperHalf(half, y)));
  return hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
}

// sin(x), and tan(x), for |x| up to kLargestTurned: pi / 2 in two parts, of which a multiple of the
// first is exact, and the polynomials of FreeBSD's k_sinf.c and k_cosf.c on [-pi / 4, pi / 4].
template <class D>
struct Turn {
  hn::Vec<D> sine, cosine;  // of the rest
  hn::Vec<hn::RebindToSigned<D>> quarters;

  HWY_INLINE Turn(D d, hn::Vec<D> x) {
    const auto toWhole = hn::Set(d, 6755399441055744.0);
    const auto moved = hn::MulAdd(x, hn::Set(d, 0.63661977236758134308), toWhole), k = hn::Sub(moved, toWhole);
    const auto rest = hn::NegMulAdd(k, hn::Set(d, 1.57079631090164184570), x);
    const auto r = hn::NegMulAdd(k, hn::Set(d, 1.58932547735281966916e-08), rest), z = hn::Mul(r, r);
    const auto tail = polynomialOf(d, z, 2.7183114939898219064e-6, -1.98393348360966317347e-4, 8.3333293858894631756e-3,
                                   -1.66666666416265235595e-1);
    sine = hn::MulAdd(hn::Mul(z, r), tail, r);
    cosine = polynomialOf(d, z, 2.43904487962774090654e-5, -1.38867637746099294692e-3, 4.16666233237390631894e-2,
                          -4.99999997251031003120e-1, 1.0);
    quarters = hn::BitCast(hn::RebindToSigned<D>(), moved);
  }
};

template <class D>
HWY_INLINE hn::Vec<D> sineOfDoubles(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const Turn<D> t(d, x);
  const auto isCosine = hn::RebindMask(d, hn::TestBit(t.quarters, hn::Set(di, 1)));
  const auto sign = hn::ShiftLeft<62>(hn::And(t.quarters, hn::Set(di, 2)));
  return hn::BitCast(d, hn::Xor(hn::BitCast(di, hn::IfThenElse(isCosine, t.cosine, t.sine)), sign));
}
template <class D>
HWY_INLINE hn::Vec<D> tangentOfDoubles(D d, hn::Vec<D> x) {
  const Turn<D> t(d, x);
  const auto isOdd = hn::RebindMask(d, hn::TestBit(t.quarters, hn::Set(hn::RebindToSigned<D>(), 1)));
  return hn::Div(hn::IfThenElse(isOdd, hn::Neg(t.cosine), t.sine), hn::IfThenElse(isOdd, t.sine, t.cosine));
}

inline constexpr float kLargestTurned = 1e5f;

// y, and where `isHard` what the standard library computes. That is called for these alone, from memory: its code may
// be without AVX, and on some processors microseconds go by between that and vectors of more than 128 bits.
template <class D, class M, class... V>
HWY_INLINE hn::Vec<D> exactWhere(D d, M isHard, hn::Vec<D> y, float (*exact)(decltype(V(), float())...),
                                 V... arguments) {
  if (HWY_LIKELY(hn::AllFalse(d, isHard))) return y;
  constexpr size_t kMost = hn::MaxLanes(D());
  HWY_ALIGN float values[sizeof...(V)][kMost];
  HWY_ALIGN float results[kMost];
  uint8_t hard[(kMost + 7) / 8 + 8];
  size_t i = 0;
  (hn::Store(arguments, d, values[i++]), ...);
  hn::Store(y, d, results);
  hn::StoreMaskBits(d, isHard, hard);
  for (size_t lane = 0; lane < hn::Lanes(d); ++lane) {
    if (!(hard[lane / 8] >> lane % 8 & 1)) continue;
    if constexpr (sizeof...(V) == 1)
      results[lane] = exact(values[0][lane]);
    else
      results[lane] = exact(values[0][lane], values[1][lane]);
  }
  return hn::Load(d, results);
}

template <class D>
HWY_INLINE auto isLargelyTurned(D d, hn::Vec<D> x) {
  return hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, kLargestTurned)));  // infinite and NaN as well
}

// sin(x + quarters * pi / 2) for |x| up to kLargestTurned, in f32. What x is beyond a multiple k of pi / 2 has two
// parts, `r` and the much smaller `low`: k times the first of three parts of pi / 2 leaves x without rounding, and what
// the other steps round is known.
template <class D>
HWY_INLINE hn::Vec<D> sineOfQuarters(D d, hn::Vec<D> x, int32_t quarters) {
  const hn::RebindToSigned<D> di;
  const auto toWhole = hn::Set(d, 12582912.0f), second = hn::Set(d, -4.371138828673793e-8f);
  const auto moved = hn::MulAdd(x, hn::Set(d, 0.63661977f), toWhole), k = hn::Sub(moved, toWhole);
  const auto near = hn::NegMulAdd(k, hn::Set(d, 1.5707963705062866f), x), part = hn::Mul(k, second);
  const auto r = hn::Sub(near, part);
  auto low = hn::Sub(hn::Sub(hn::Sub(near, r), part), hn::MulSub(k, second, part));
  low = hn::NegMulAdd(k, hn::Set(d, -1.7151245100058819e-15f), low);
  const auto z = hn::Mul(r, r), one = hn::Set(d, 1.0f);
  const auto sineTail = polynomialOf(d, z, 2.723845462e-6f, -1.983999661e-4f, 8.333331704e-3f, -1.6666666663e-1f);
  const auto sine = hn::Add(r, hn::MulAdd(hn::Mul(z, r), sineTail, low));
  const auto half = hn::Mul(z, hn::Set(d, 0.5f)), most = hn::Sub(one, half);
  const auto cosineTail = polynomialOf(d, z, -2.729138473e-7f, 2.480052515e-5f, -1.388888753e-3f, 4.166666666e-2f);
  const auto rest = hn::MulAdd(hn::Mul(z, z), cosineTail, hn::NegMulAdd(r, low, hn::Sub(hn::Sub(one, most), half)));
  const auto turn = hn::Add(hn::BitCast(di, moved), hn::Set(di, quarters));
  const auto isCosine = hn::RebindMask(d, hn::TestBit(turn, hn::Set(di, 1)));
  const auto sign = hn::ShiftLeft<30>(hn::And(turn, hn::Set(di, 2)));
  return hn::BitCast(d, hn::Xor(hn::BitCast(di, hn::IfThenElse(isCosine, hn::Add(most, rest), sine)), sign));
}

template <class D>
HWY_INLINE hn::Vec<D> sine(D d, hn::Vec<D> x) {
  const auto y = exactWhere(d, isLargelyTurned(d, x), sineOfQuarters(d, x, 0), std::sin, x);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // keeps the sign of zeros
}
template <class D>
HWY_INLINE hn::Vec<D> cosine(D d, hn::Vec<D> x) {
  return exactWhere(d, isLargelyTurned(d, x), sineOfQuarters(d, x, 1), std::cos, x);
}
template <class D>
HWY_INLINE hn::Vec<D> tangent(D d, hn::Vec<D> x) {
  const auto turned = inDoubles(d, x, [](auto wide, auto v) HWY_ATTR { return tangentOfDoubles(wide, v); });
  const auto y = exactWhere(d, isLargelyTurned(d, x), turned, std::tan, x);
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);
}

// The logarithm to base 2 of positive floats, within 1e-15: of 2^n m, with m in [sqrt(1/2), sqrt(2)), n + log2(m),
// whose series goes by (m - 1) / (m + 1).
template <class D>
HWY_INLINE hn::Vec<D> log2OfDoubles(D d, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  constexpr int64_t kBias = 1023, kRoot = 0x3fe6a09e667f3bcd;  // of sqrt(1/2), the bits
  const auto bits = hn::BitCast(di, x);
  const auto biased = hn::ShiftRight<52>(hn::Add(bits, hn::Set(di, (kBias << 52) - kRoot)));
  const auto m = hn::BitCast(d, hn::Add(hn::Sub(bits, hn::ShiftLeft<52>(biased)), hn::Set(di, kBias << 52)));
  // Small whole numbers become doubles as the last bits of 2^52.
  const auto n = hn::Sub(hn::BitCast(d, hn::Or(biased, hn::Set(di, 0x4330000000000000))), hn::Set(d, 0x1p52 + kBias));
  const auto one = hn::Set(d, 1.0), f = hn::Div(hn::Sub(m, one), hn::Add(m, one)), z = hn::Mul(f, f);
  const auto series =
      polynomialOf(d, z, 0.242916085073044576, 0.261444249345187572, 0.320616388132506724, 0.412198402048270554,
                   0.577078017246328623, 0.961796693924344558, 2.885390081777927308);
  return hn::MulAdd(f, series, n);
}

// 2^x for what is a float, or 0 or infinite as one.
template <class D>
HWY_INLINE hn::Vec<D> exp2OfDoubles(D d, hn::Vec<D> x) {
  const auto toWhole = hn::Set(d, 6755399441055744.0),
             bounded = hn::Min(hn::Max(x, hn::Set(d, -200.0)), hn::Set(d, 200.0));
  const auto moved = hn::Add(bounded, toWhole), r = hn::Sub(bounded, hn::Sub(moved, toWhole));
  const auto power = polynomialOf(d, r, 1.530370071313656939e-5, 1.546972921411829710e-4, 1.333347847368541528e-3,
                                  9.618025613318034249e-3, 5.550410906325866612e-2, 0.2402265121349809266,
                                  0.6931471805568324135, 0.9999999999595617507);
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, power), hn::ShiftLeft<52>(hn::BitCast(di, moved))));
}

// log2(x) * kFactor.
template <class D>
HWY_INLINE hn::Vec<D> scaledLog2(D d, hn::Vec<D> x, double factor) {
  const auto y = inDoubles(
      d, x, [=](auto wide, auto v) HWY_ATTR { return hn::Mul(log2OfDoubles(wide, v), hn::Set(wide, factor)); });
  return endsOfLog(d, x, y);
}

// Those to odd exponents keep the sign of the zero.
template <class D, class M>
HWY_INLINE hn::Vec<D> powerOfZero(D d, hn::Vec<D> x, hn::Vec<D> y, M isOdd) {
  const auto zero = hn::Zero(d);
  const auto size = hn::IfThenElse(hn::Lt(y, zero), hn::Inf(d), hn::IfThenZeroElse(hn::Gt(y, zero), hn::Set(d, 1.0f)));
  return hn::IfThenElse(isOdd, hn::CopySign(size, x), size);
}
// Negative numbers have powers whose exponents are whole: those of odd ones are negative.
template <class D>
HWY_INLINE hn::Vec<D> power(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const auto size = hn::Abs(x), half = hn::Mul(y, hn::Set(d, 0.5f));
  const auto positive = inDoubles(d, size, y, [](auto wide, auto vx, auto vy) HWY_ATTR {
    return exp2OfDoubles(wide, hn::Mul(vy, log2OfDoubles(wide, vx)));
  });
  const auto negative = hn::IfThenElse(hn::Eq(hn::Floor(half), half), positive, hn::Neg(positive));
  const auto isWhole = hn::Eq(hn::Floor(y), y);
  const auto ofNegative = hn::IfThenElse(isWhole, negative, hn::Set(d, std::numeric_limits<float>::quiet_NaN()));
  auto result = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), ofNegative, positive);
  const auto isZero = hn::Eq(x, hn::Zero(d)), isOdd = hn::AndNot(hn::Eq(hn::Floor(half), half), isWhole);
  if (HWY_UNLIKELY(!hn::AllFalse(d, isZero))) result = hn::IfThenElse(isZero, powerOfZero(d, x, y, isOdd), result);
  const auto isPlain = hn::And(hn::Lt(size, hn::Inf(d)), hn::Lt(hn::Abs(y), hn::Inf(d)));
  return exactWhere(d, hn::Not(isPlain), result, std::pow, x, y);
}

// atanh(|x|) = log(1 + 2 |x| / (1 - |x|)) / 2
template <class D>
HWY_INLINE hn::Vec<D> hyperbolicArc(D d, hn::Vec<D> x) {
  const auto size = hn::Abs(x), one = hn::Set(d, 1.0f);
  const auto ratio = hn::Div(hn::Add(size, size), hn::Sub(one, size));
  return hn::CopySign(hn::Mul(log1p(d, ratio), hn::Set(d, 0.5f)), x);
}

// erfc(x) = exp(-x^2) (1 + P(q)) / (1 + 2 x) for x >= 0, where q = (x - 4) / (x + 4); each quotient and the square with
// what rounding takes from it. From 10.2 on nothing is left; 2 - erfc(-x) below 0.
template <class D>
HWY_INLINE hn::Vec<D> complementOfErf(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f), four = hn::Set(d, 4.0f), half = hn::Set(d, 0.5f);
  const auto a = atMost(d, 10.25f, hn::Abs(x)), inverse = hn::Div(one, hn::Add(a, four));
  const auto rough = hn::Mul(hn::Sub(a, four), inverse);
  const auto lost = hn::NegMulAdd(rough, a, hn::NegMulAdd(four, hn::Add(rough, one), a));
  const auto q = hn::MulAdd(inverse, lost, rough);
  const auto p = polynomialOf(d, q, 0.000839563494f, 0.00689599011f, -0.015999807f, 0.0364233851f, -0.0665995702f,
                              0.0938273221f, -0.100994676f, 0.0680925101f, 0.0153775122f, -0.139621049f, 0.232995138f);
  const auto part = hn::Mul(half, hn::Div(one, hn::Add(a, half))), quotient = hn::MulAdd(p, part, part);
  const auto left = hn::Add(hn::Sub(p, quotient), hn::NegMulAdd(hn::Add(quotient, quotient), a, one));
  const auto scaled = hn::MulAdd(left, part, quotient);
  const auto square = hn::Mul(a, a), power = exp(d, hn::Neg(square));
  const auto y = hn::MulAdd(scaled, power, hn::Mul(hn::Mul(scaled, power), hn::NegMulAdd(a, a, square)));
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Sub(hn::Set(d, 2.0f), y), y);
}

// By Giles (Approximating the erfinv function, 2010): x times a polynomial of w = -log(1 - x^2), or of its root.
template <class D>
HWY_INLINE hn::Vec<D> inverseErf(D d, hn::Vec<D> x) {
  const auto one = hn::Set(d, 1.0f), size = hn::Abs(x);
  const auto w = hn::Neg(log(d, hn::Mul(hn::Sub(one, x), hn::Add(one, x))));
  const auto inner =
      polynomialOf(d, hn::Sub(w, hn::Set(d, 2.5f)), 2.81022636e-08f, 3.43273939e-07f, -3.5233877e-06f, -4.39150654e-06f,
                   0.00021858087f, -0.00125372503f, -0.00417768164f, 0.246640727f, 1.50140941f);
  const auto outer =
      polynomialOf(d, hn::Sub(hn::Sqrt(w), hn::Set(d, 3.0f)), -0.000200214257f, 0.000100950558f, 0.00134934322f,
                   -0.00367342844f, 0.00573950773f, -0.0076224613f, 0.00943887047f, 1.00167406f, 2.83297682f);
  const auto y = hn::Mul(hn::IfThenElse(hn::Lt(w, hn::Set(d, 5.0f)), inner, outer), x);
  return hn::IfThenElse(hn::Eq(size, one), hn::CopySign(hn::Inf(d), x), y);
}

HWY_INLINE float logGammaOf(float x) {
  int sign;  // std::lgamma would write a global
  return lgammaf_r(x, &sign);
}
// log |gamma(x)| by Stirling's series from 8 on; below, gamma(x + 8) / (x (x + 1) ... (x + 7)), and below 0
// pi / (sin(pi x) gamma(1 - x)).
template <class D>
HWY_INLINE hn::Vec<D> logGammaOfDoubles(D d, hn::Vec<D> x) {
  constexpr double kPi = 3.14159265358979323846, kLog2 = 0.693147180559945309417;
  const auto one = hn::Set(d, 1.0), eight = hn::Set(d, 8.0);
  const auto isNegative = hn::Lt(x, hn::Zero(d));
  const auto w = hn::IfThenElse(isNegative, hn::Sub(one, x), x);
  const auto isSmall = hn::Lt(w, eight);
  const auto y = hn::IfThenElse(isSmall, hn::Add(w, eight), w);
  const auto s = hn::Mul(w, hn::Add(w, hn::Set(d, 7.0)));  // of the first and last factor, and so on
  auto product = hn::Mul(hn::Mul(s, hn::Add(s, hn::Set(d, 6.0))),
                         hn::Mul(hn::Add(s, hn::Set(d, 10.0)), hn::Add(s, hn::Set(d, 12.0))));
  product = hn::IfThenElse(isSmall, product, one);
  const auto inverse = hn::Div(one, y), z = hn::Mul(inverse, inverse);
  const auto tail = hn::Mul(inverse, polynomialOf(d, z, 1.0 / 1188, -1.0 / 1680, 1.0 / 1260, -1.0 / 360, 1.0 / 12));
  const auto log = hn::Mul(log2OfDoubles(d, y), hn::Set(d, kLog2));
  const auto stirling =
      hn::Add(hn::MulSub(hn::Sub(y, hn::Set(d, 0.5)), log, y), hn::Add(tail, hn::Set(d, 0.918938533204672741780)));
  const auto fraction = hn::Abs(hn::Sub(x, hn::Round(x)));
  const auto reflected =
      hn::Div(hn::Mul(product, hn::Set(d, kPi)), sineOfDoubles(d, hn::Mul(fraction, hn::Set(d, kPi))));
  const auto rest = hn::Mul(log2OfDoubles(d, hn::IfThenElse(isNegative, reflected, product)), hn::Set(d, kLog2));
  return hn::IfThenElse(isNegative, hn::Sub(rest, stirling), hn::Sub(stirling, rest));
}
template <class D>
HWY_INLINE hn::Vec<D> logGamma(D d, hn::Vec<D> x) {
  const auto isPole = hn::And(hn::Le(x, hn::Zero(d)), hn::Eq(hn::Floor(x), x));
  const auto isHard = hn::Not(hn::Lt(hn::Abs(x), hn::Inf(d)));
  const auto finite = inDoubles(d, x, [](auto wide, auto v) HWY_ATTR { return logGammaOfDoubles(wide, v); });
  const auto y = hn::IfThenElse(isPole, hn::Inf(d), finite);
  const auto isZero = hn::Or(hn::Eq(x, hn::Set(d, 1.0f)), hn::Eq(x, hn::Set(d, 2.0f)));
  return exactWhere(d, isHard, hn::IfThenZeroElse(isZero, y), logGammaOf, x);
}

// atan(y / x) of magnitudes: that of the smaller one over the larger, s, is s + s^3 p(s^2) with a polynomial through
// Chebyshev's points of [0, 1], within 4e-10 of it.
template <class D>
HWY_INLINE hn::Vec<D> arcOfDoubles(D d, hn::Vec<D> y, hn::Vec<D> x) {
  const auto isSteep = hn::Gt(y, x);
  const auto most = hn::Max(x, y);
  const auto s = hn::IfThenZeroElse(hn::Eq(most, hn::Zero(d)), hn::Div(hn::Min(x, y), most)), t = hn::Mul(s, s);
  const auto tail = polynomialOf(d, t, -0.0009605263111031758, 0.0063293554765288884, -0.01952287991165016,
                                 0.038638591978021566, -0.057830957561724274, 0.07427477628338092, -0.09039458256113955,
                                 0.1110513252285824, -0.14285351984386396, 0.1999999133578631, -0.3333333329877645);
  const auto arc = hn::MulAdd(hn::Mul(s, t), tail, s);
  return hn::IfThenElse(isSteep, hn::Sub(hn::Set(d, 1.57079632679489661923), arc), arc);
}
template <class D>
HWY_INLINE hn::Vec<D> arcTangent(D d, hn::Vec<D> x) {
  const auto arc =
      inDoubles(d, hn::Abs(x), [](auto wide, auto v) HWY_ATTR { return arcOfDoubles(wide, v, hn::Set(wide, 1.0)); });
  const auto isHard = hn::Not(hn::Lt(hn::Abs(x), hn::Inf(d)));
  return exactWhere(d, isHard, hn::CopySign(arc, x), std::atan, x);
}
template <class D>
HWY_INLINE hn::Vec<D> arcTangent2(D d, hn::Vec<D> y, hn::Vec<D> x) {
  const auto isHard = hn::Not(hn::And(hn::Lt(hn::Abs(x), hn::Inf(d)), hn::Lt(hn::Abs(y), hn::Inf(d))));
  const auto arc = inDoubles(d, y, x, [](auto wide, auto vy, auto vx) HWY_ATTR {
    const auto steep = arcOfDoubles(wide, hn::Abs(vy), hn::Abs(vx));
    const auto isBehind = hn::Lt(hn::CopySign(hn::Set(wide, 1.0), vx), hn::Zero(wide));  // zeros have signs
    return hn::IfThenElse(isBehind, hn::Sub(hn::Set(wide, 3.14159265358979323846), steep), steep);
  });
  return exactWhere(d, isHard, hn::CopySign(arc, y), std::atan2, y, x);
}

// x - trunc(x / y) * y, exact: where the quotient has at most 29 digits, its product with y fits f64.
template <class D>
HWY_INLINE hn::Vec<D> truncatedRest(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const auto quotient = hn::Abs(hn::Div(x, y));
  const auto isNear = hn::And(hn::Lt(quotient, hn::Set(d, 0x1p29f)), hn::Lt(hn::Abs(y), hn::Inf(d)));
  const auto rest = inDoubles(d, hn::Abs(x), hn::Abs(y), [](auto wide, auto vx, auto vy) HWY_ATTR {
    const auto r = hn::NegMulAdd(hn::Trunc(hn::Div(vx, vy)), vy, vx);
    return hn::IfThenElse(hn::Lt(r, hn::Zero(wide)), hn::Add(r, vy), r);  // the quotient was rounded up
  });
  const auto isHard = hn::AndNot(hn::Eq(y, hn::Zero(d)), hn::Not(isNear));  // of a division by 0 NaN is left
  return exactWhere(d, isHard, hn::CopySign(rest, x), std::fmod, x, y);
}
// Whether a rest is on the other side of 0 than the divisor.
template <class D>
HWY_INLINE auto isBehind(D d, hn::Vec<D> rest, hn::Vec<D> y) {
  const auto differ = hn::Xor(hn::Lt(y, hn::Zero(d)), hn::Lt(rest, hn::Zero(d)));
  return hn::AndNot(hn::Eq(rest, hn::Zero(d)), differ);
}
template <class D>
HWY_INLINE hn::Vec<D> flooredRest(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const auto rest = truncatedRest(d, x, y);
  return hn::IfThenElse(isBehind(d, rest, y), hn::Add(rest, y), rest);
}
// PyTorch's rule: exact where x / y would round up to a whole number.
template <class D>
HWY_INLINE hn::Vec<D> flooredQuotient(D d, hn::Vec<D> x, hn::Vec<D> y) {
  const auto ratio = hn::Div(x, y), rest = truncatedRest(d, x, y);
  const auto even = hn::Div(hn::Sub(x, rest), y), one = hn::Set(d, 1.0f);
  const auto quotient = hn::IfThenElse(isBehind(d, rest, y), hn::Sub(even, one), even), whole = hn::Floor(quotient);
  const auto up = hn::Gt(hn::Sub(quotient, whole), hn::Set(d, 0.5f));
  const auto result = hn::IfThenElse(up, hn::Add(whole, one), whole);
  const auto isZero = hn::Eq(quotient, hn::Zero(d));
  return hn::IfThenElse(hn::Eq(y, hn::Zero(d)), ratio,
                        hn::IfThenElse(isZero, hn::CopySign(hn::Zero(d), ratio), result));
}

// f(d, load, start) per vector, the rest under a mask.
template <class F>
HWY_INLINE void overTile(float* out, int64_t count, F f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(f(d, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, out + i);
  if (i < count) {
    auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    hn::BlendedStore(f(d, [&](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p + i); }), mask, d, out + i);
  }
}

// clang-format off
#define TS_ARGUMENTS \
  [[maybe_unused]] const float *a, [[maybe_unused]] const float *b, [[maybe_unused]] const float *c, float *out, \
      int64_t count, [[maybe_unused]] float alpha, [[maybe_unused]] float beta
#define TS_UNARY(name, ...) \
  void tile##name(TS_ARGUMENTS) {                                                                   \
    overTile(out, count, [=]([[maybe_unused]] auto d, auto load) HWY_ATTR { auto x = load(a); return __VA_ARGS__; }); \
  }
#define TS_BINARY(name, ...) \
  void tile##name(TS_ARGUMENTS) {                                                                   \
    overTile(out, count, [=]([[maybe_unused]] auto d, auto load) HWY_ATTR {                         \
      auto x = load(a);                                                                             \
      auto y = load(b);                                                                             \
      return __VA_ARGS__;                                                                            \
    });                                                                                             \
  }
#define TS_TERNARY(name, ...) \
  void tile##name(TS_ARGUMENTS) {                                                                   \
    overTile(out, count, [=]([[maybe_unused]] auto d, auto load) HWY_ATTR {                         \
      auto x = load(a);                                                                             \
      auto y = load(b);                                                                             \
      auto z = load(c);                                                                             \
      return __VA_ARGS__;                                                                            \
    });                                                                                             \
  }

#include "runtime/kernels/pointwise_ops.def"
// clang-format on

void loadHalf(const void* from, int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* values = static_cast<const hwy::float16_t*>(from);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, values + i)), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(static_cast<const Half*>(from)[i]);
}
void storeHalf(const float* from, int64_t count, void* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* values = static_cast<hwy::float16_t*>(to);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::DemoteTo(d16, hn::LoadU(d, from + i)), d16, values + i);
  for (; i < count; ++i) static_cast<Half*>(to)[i] = Half(from[i]);
}
void loadBFloat(const void* from, int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> u32;
  const hn::Rebind<uint16_t, decltype(d)> u16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* values = static_cast<const uint16_t*>(from);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(u32, hn::LoadU(u16, values + i)))), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(static_cast<const BFloat16*>(from)[i]);
}
// As BFloat16's own.
void storeBFloat(const float* from, int64_t count, void* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> u32;
  const hn::Rebind<uint16_t, decltype(d)> u16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto half = hn::Set(u32, 0x7fff), one = hn::Set(u32, 1), nan = hn::Set(u32, 0x7fc0);
  auto* values = static_cast<uint16_t*>(to);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    const auto bits = hn::BitCast(u32, v), odd = hn::And(hn::ShiftRight<16>(bits), one);
    const auto rounded = hn::ShiftRight<16>(hn::Add(bits, hn::Add(half, odd)));
    const auto whole = hn::IfThenElse(hn::RebindMask(u32, hn::IsNaN(v)), nan, rounded);
    hn::StoreU(hn::TruncateTo(u16, whole), u16, values + i);
  }
  for (; i < count; ++i) static_cast<BFloat16*>(to)[i] = BFloat16(from[i]);
}
template <class T>
void loadIntegers(const void* from, int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::Rebind<T, decltype(d)> dT;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* values = static_cast<const T*>(from);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    if constexpr (sizeof(T) == 4)
      hn::StoreU(hn::ConvertTo(d, hn::LoadU(d32, values + i)), d, to + i);
    else
      hn::StoreU(hn::ConvertTo(d, hn::PromoteTo(d32, hn::LoadU(dT, values + i))), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(values[i]);
}
// As convertElement: by way of 32 bits, of which narrower ones have the last.
template <class T>
void storeIntegers(const float* from, int64_t count, void* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::RebindToUnsigned<decltype(d)> u32;
  const hn::Rebind<hwy::MakeUnsigned<T>, decltype(d)> dT;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* values = static_cast<hwy::MakeUnsigned<T>*>(to);
  const auto least = hn::Set(d, -0x1p31f), above = hn::Set(d, 0x1p31f);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    const auto fits = hn::And(hn::Ge(v, least), hn::Lt(v, above));
    const auto whole = hn::BitCast(u32, hn::ConvertTo(d32, hn::IfThenElse(fits, v, least)));
    if constexpr (sizeof(T) == 4)
      hn::StoreU(whole, u32, values + i);
    else
      hn::StoreU(hn::TruncateTo(dT, whole), dT, values + i);
  }
  for (; i < count; ++i) {
    const bool fits = from[i] >= -0x1p31f && from[i] < 0x1p31f;
    values[i] = static_cast<hwy::MakeUnsigned<T>>(fits ? static_cast<int32_t>(from[i]) : INT32_MIN);
  }
}
void loadBytes(const void* from, int64_t count, float* to) { loadIntegers<uint8_t>(from, count, to); }
void loadInt8(const void* from, int64_t count, float* to) { loadIntegers<int8_t>(from, count, to); }
void loadInt16(const void* from, int64_t count, float* to) { loadIntegers<int16_t>(from, count, to); }
void loadInt32(const void* from, int64_t count, float* to) { loadIntegers<int32_t>(from, count, to); }
void storeInt8(const float* from, int64_t count, void* to) { storeIntegers<int8_t>(from, count, to); }
void storeInt16(const float* from, int64_t count, void* to) { storeIntegers<int16_t>(from, count, to); }
void storeInt32(const float* from, int64_t count, void* to) { storeIntegers<int32_t>(from, count, to); }
// The nearest; of a NaN 0.
void storeBytes(const float* from, int64_t count, void* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto most = hn::Set(d, 255.0f);
  auto* bytes = static_cast<uint8_t*>(to);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto v = hn::LoadU(d, from + i);
    const auto inside = hn::Min(hn::IfThenElseZero(hn::Gt(v, hn::Zero(d)), v), most);
    hn::StoreU(hn::DemoteTo(d8, hn::NearestInt(inside)), d8, bytes + i);
  }
  for (; i < count; ++i)
    bytes[i] = static_cast<uint8_t>(std::nearbyint(from[i] > 0 ? std::min(from[i], 255.0f) : 0.0f));
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

template <auto kF>
void onBytes(const uint8_t* a, const uint8_t* b, const uint8_t*, uint8_t* out, int64_t count, float, float) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<uint8_t>(kF(a[i], b[i]));
}

}  // namespace

LogicFunction logicFunction(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::And:
      return onBytes<[](int a, int b) { return a & b; }>;
    case PointwiseOp::Or:
      return onBytes<[](int a, int b) { return a | b; }>;
    case PointwiseOp::Xor:
      return onBytes<[](int a, int b) { return a ^ b; }>;
    case PointwiseOp::Not:
      return [](const uint8_t* a, const uint8_t*, const uint8_t*, uint8_t* out, int64_t count, float, float) {
        for (int64_t i = 0; i < count; ++i) out[i] = a[i] ^ 1;
      };
    default:
      return nullptr;
  }
}

PointwiseFunction pointwiseFunction(PointwiseOp op) {
  switch (op) {
#define TS_SIMD_CASE(name, ...) \
  case PointwiseOp::name:       \
    return TS_SIMD(tile##name);
#define TS_UNARY TS_SIMD_CASE
#define TS_BINARY TS_SIMD_CASE
#define TS_TERNARY TS_SIMD_CASE
#include "runtime/kernels/pointwise_ops.def"
#undef TS_SIMD_CASE
  }
  return nullptr;
}

void loadPointwise(DType type, const void* from, int64_t count, float* to) {
  switch (type) {
    case DType::Float32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::Float16:
      return TS_SIMD(loadHalf)(from, count, to);
    case DType::UInt8:
      return TS_SIMD(loadBytes)(from, count, to);
    case DType::Int8:
      return TS_SIMD(loadInt8)(from, count, to);
    case DType::Int16:
      return TS_SIMD(loadInt16)(from, count, to);
    case DType::Int32:
      return TS_SIMD(loadInt32)(from, count, to);
    case DType::BFloat16:
      return TS_SIMD(loadBFloat)(from, count, to);
    case DType::Bool:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<const uint8_t*>(from)[i] ? 1.0f : 0.0f;
      return;
    default:
      TS_UNREACHABLE();
  }
}

void storePointwise(DType type, const float* from, int64_t count, void* to) {
  switch (type) {
    case DType::Float32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::Float16:
      return TS_SIMD(storeHalf)(from, count, to);
    case DType::UInt8:
      return TS_SIMD(storeBytes)(from, count, to);
    case DType::Int8:
      return TS_SIMD(storeInt8)(from, count, to);
    case DType::Int16:
      return TS_SIMD(storeInt16)(from, count, to);
    case DType::Int32:
      return TS_SIMD(storeInt32)(from, count, to);
    case DType::BFloat16:
      return TS_SIMD(storeBFloat)(from, count, to);
    case DType::Bool:
      for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(to)[i] = from[i] != 0;
      return;
    default:
      TS_UNREACHABLE();
  }
}

}  // namespace tscompile
#endif
