// exp, log, tanh, erf and what follows from them on vectors of f32, within 2 to 4 units in the last place.
// NaN stays NaN; infinities and overflow give what the standard library gives. Included once per instruction set.
#if defined(TSCOMPILE_SIMD_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_SIMD_MATH_INL_H_
#undef TSCOMPILE_SIMD_MATH_INL_H_
#else
#define TSCOMPILE_SIMD_MATH_INL_H_
#endif

#include "runtime/kernels/epilogue.h"

#include <hwy/highway.h>

#include <limits>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The larger and the smaller; NaN in x stays.
template <class D, class V>
HWY_INLINE V atLeast(D d, float low, V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Max(hn::Set(d, low), x);  // the second operand is the result where one is NaN
#else
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, low)), hn::Set(d, low), x);
#endif
}
template <class D, class V>
HWY_INLINE V atMost(D d, float high, V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return hn::Min(hn::Set(d, high), x);
#else
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, high)), hn::Set(d, high), x);
#endif
}

// Horner's scheme, highest power first.
template <class D, class V>
HWY_INLINE V polynomial(D, V, V sum) {
  return sum;
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomial(D d, V x, V sum, hn::TFromD<D> next, Rest... rest) {
  return polynomial(d, x, hn::MulAdd(sum, x, hn::Set(d, next)), rest...);
}
template <class D, class V, class... Rest>
HWY_INLINE V polynomialOf(D d, V x, hn::TFromD<D> first, Rest... rest) {
  return polynomial(d, x, hn::Set(d, first), rest...);
}

// 2^n for whole n in [-126, 127].
template <class D, class V>
HWY_INLINE V powerOfTwo(D d, V n) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::ShiftLeft<23>(hn::Add(hn::ConvertTo(di, n), hn::Set(di, 127))));
}

// exp(x) = 2^n * exp(r) with |r| <= ln 2 / 2; exp(r) - 1 is returned apart for expm1.
template <class D, class V>
HWY_INLINE V expReduced(D d, V x, V& n) {
  n = hn::Round(hn::Mul(x, hn::Set(d, 1.44269504f)));
  V r = hn::NegMulAdd(n, hn::Set(d, 0.693145752f), x);
  r = hn::NegMulAdd(n, hn::Set(d, 1.42860677e-6f), r);
  V tail = polynomialOf(d, r, 1.9875691500e-4f, 1.3981999507e-3f, 8.3334519073e-3f, 4.1665795894e-2f, 1.6666665459e-1f,
                        5.0000001201e-1f);
  return hn::MulAdd(hn::Mul(tail, r), r, r);
}

inline constexpr float kLeastExponent = -87.3f;  // results of less are below the normal numbers

#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
// 2^(k/16) for whole k, of which -0x4b400000 + `bits` is one: a table of k's last four bits, as they look once k has
// been added above the fraction, which moves the power of two there.
template <class D>
HWY_INLINE hn::Vec<D> powerOfSixteenths(D d, hn::Vec<hn::RebindToSigned<D>> bits) {
  alignas(64) static constexpr int32_t kPowers[] = {
      0x3f800000, 0x3f7daac3, 0x3f7b95c2, 0x3f79c3d3, 0x3f7837f0, 0x3f76f532, 0x3f75fed7, 0x3f75583f,
      0x3f7504f3, 0x3f7508a4, 0x3f75672a, 0x3f76248c, 0x3f7744fd, 0x3f78ccdf, 0x3f7ac0c7, 0x3f7d257d};
  const hn::RebindToSigned<D> di;
  constexpr int kHalf = 8;
  const auto exponent = hn::ShiftLeft<19>(bits);
  if constexpr (hn::MaxLanes(D()) == 2 * kHalf) {
    const auto power = hn::TableLookupLanes(hn::Load(di, kPowers), hn::IndicesFromVec(di, bits));
    return hn::BitCast(d, hn::Add(power, exponent));
  } else {
    static_assert(hn::MaxLanes(D()) == kHalf);
    const auto index = hn::IndicesFromVec(di, hn::And(bits, hn::Set(di, kHalf - 1)));
    const auto low = hn::TableLookupLanes(hn::Load(di, kPowers), index);
    const auto high = hn::TableLookupLanes(hn::Load(di, kPowers + kHalf), index);
    const auto isHigh = hn::TestBit(bits, hn::Set(di, kHalf));
    return hn::BitCast(d, hn::Add(hn::IfThenElse(isHigh, high, low), exponent));
  }
}

// 2^(k/16) * exp(r) with |r| <= ln 2 / 32, where the third power suffices; `bits` as above.
template <class D>
HWY_INLINE hn::Vec<D> expBesideSixteenths(D d, hn::Vec<D> r, hn::Vec<D> moved) {
  const auto half = hn::Set(d, 0.5f), one = hn::Set(d, 1.0f);
  const auto p = hn::Mul(hn::MulAdd(hn::MulAdd(r, hn::Set(d, 1.0f / 6), half), r, one), r);
  const auto scale = powerOfSixteenths(d, hn::BitCast(hn::RebindToSigned<D>(), moved));
  return hn::MulAdd(p, scale, scale);
}
inline constexpr float kToWhole = 12582912.0f;  // 0x4b400000, added to what is to be rounded

template <class D>
HWY_INLINE hn::Vec<D> expOfSixteenths(D d, hn::Vec<D> x) {
  const auto toWhole = hn::Set(d, kToWhole), moved = hn::MulAdd(x, hn::Set(d, 23.0831207f), toWhole);
  const auto k = hn::Sub(moved, toWhole), r = hn::NegMulAdd(k, hn::Set(d, 0.0433216989f), x);
  return expBesideSixteenths(d, hn::MulAdd(k, hn::Set(d, 1.19040895e-10f), r), moved);
}
template <class D>
HWY_INLINE hn::Vec<D> exp2OfSixteenths(D d, hn::Vec<D> x) {
  const auto toWhole = hn::Set(d, kToWhole), moved = hn::MulAdd(x, hn::Set(d, 16.0f), toWhole);
  const auto rest = hn::NegMulAdd(hn::Sub(moved, toWhole), hn::Set(d, 0.0625f), x);
  return expBesideSixteenths(d, hn::Mul(rest, hn::Set(d, 0.693147181f)), moved);
}
#endif

// exp(x) for x in [-87.3, 87.3].
template <class D, class V>
HWY_INLINE V expOfMiddle(D d, V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  return expOfSixteenths(d, x);
#else
  V n;
  const V r = expReduced(d, x, n), scale = powerOfTwo(d, n);
  return hn::MulAdd(r, scale, scale);
#endif
}

// exp(x) for any x: past the bounds the result is infinite or zero; two factors reach the subnormal numbers.
template <class D, class V>
HWY_INLINE V expOfAny(D d, V x) {
  V bounded = atMost(d, 89.0f, atLeast(d, -104.0f, x));
  V n;
  V r = expReduced(d, bounded, n);
  V half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5f)));
  // NaN has no whole part: it comes back through r.
  V value = hn::Add(r, hn::Set(d, 1.0f));
  return hn::Mul(hn::Mul(value, powerOfTwo(d, half)), powerOfTwo(d, hn::Sub(n, half)));
}

template <class D, class V>
HWY_INLINE V exp(D d, V x) {
  const auto isMiddle = hn::Le(hn::Abs(x), hn::Set(d, -kLeastExponent));
  const V middle = expOfMiddle(d, x);
  if (HWY_LIKELY(hn::AllTrue(d, isMiddle))) return middle;
  return hn::IfThenElse(isMiddle, middle, expOfAny(d, x));
}

template <class D, class V>
HWY_INLINE V exp2OfAny(D d, V x) {
  const V bounded = atMost(d, 129.0f, atLeast(d, -151.0f, x));
  const V n = hn::Round(bounded), half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5f)));
  const V power = polynomialOf(d, hn::Sub(bounded, n), 1.546144470e-4f, 1.340042818e-3f, 9.618056679e-3f,
                               5.550327227e-2f, 0.2402265092f, 0.6931472067f, 1.0f);
  return hn::Mul(hn::Mul(power, powerOfTwo(d, half)), powerOfTwo(d, hn::Sub(n, half)));
}
template <class D, class V>
HWY_INLINE V exp2(D d, V x) {
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
  const auto isMiddle = hn::Le(hn::Abs(x), hn::Set(d, 125.0f));
  const V middle = exp2OfSixteenths(d, x);
  if (HWY_LIKELY(hn::AllTrue(d, isMiddle))) return middle;
  return hn::IfThenElse(isMiddle, middle, exp2OfAny(d, x));
#else
  return exp2OfAny(d, x);
#endif
}

// exp(x) for x <= 87.3; results below the normal numbers are zero.
template <class D, class V>
HWY_INLINE V expOfNegative(D d, V x) {
  const auto isNothing = hn::Lt(x, hn::Set(d, kLeastExponent));
  return hn::IfThenZeroElse(isNothing, expOfMiddle(d, atLeast(d, kLeastExponent, x)));
}

template <class D, class V>
HWY_INLINE V expm1(D d, V x) {
  V bounded = atMost(d, 89.0f, atLeast(d, -40.0f, x));
  V n;
  V r = expReduced(d, bounded, n);
  V half = hn::Floor(hn::Mul(n, hn::Set(d, 0.5f)));
  V a = powerOfTwo(d, half), b = powerOfTwo(d, hn::Sub(n, half));
  // 2^n r + (2^n - 1), without overflow of 2^n at n = 128.
  V scale = hn::Mul(a, b);
  V result = hn::Add(hn::Mul(hn::Mul(r, a), b), hn::Sub(scale, hn::Set(d, 1.0f)));
  V large = hn::Mul(hn::Mul(hn::Add(r, hn::Set(d, 1.0f)), a), b);
  result = hn::IfThenElse(hn::Gt(n, hn::Set(d, 30.0f)), large, result);
  return hn::IfThenElse(hn::Lt(hn::Abs(x), hn::Set(d, 1e-10f)), x, result);
}

// The same for x <= 0; what it is for others means nothing.
template <class D, class V>
HWY_INLINE V expm1OfNegative(D d, V x) {
  V n;
  const V r = expReduced(d, atMost(d, 0.0f, atLeast(d, -40.0f, x)), n), scale = powerOfTwo(d, n);
  const V result = hn::MulAdd(r, scale, hn::Sub(scale, hn::Set(d, 1.0f)));
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, result);  // with its sign
}

// The logarithm of x, whatever its base, where it is y for finite positive numbers.
template <class D, class V>
HWY_INLINE V endsOfLog(D d, V x, V y) {
  const float infinity = std::numeric_limits<float>::infinity();
  y = hn::IfThenElse(hn::Eq(x, hn::Set(d, infinity)), x, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Set(d, -infinity), y);
  y = hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Set(d, std::numeric_limits<float>::quiet_NaN()), y);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V log(D d, V x) {
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1.0f);
  // Subnormal numbers are scaled up first.
  auto tiny = hn::Lt(x, hn::Set(d, 1.17549435e-38f));
  V scaled = hn::IfThenElse(tiny, hn::Mul(x, hn::Set(d, 8388608.0f)), x);
  auto bits = hn::BitCast(di, scaled);
  // Exponent such that the fraction lies in [sqrt(1/2), sqrt(2)).
  auto e = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  V m = hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(e)));
  V n = hn::Sub(hn::ConvertTo(d, e), hn::IfThenElseZero(tiny, hn::Set(d, 23.0f)));
  V f = hn::Sub(m, one);
  V z = hn::Mul(f, f);
  V p = polynomialOf(d, f, 7.0376836292e-2f, -1.1514610310e-1f, 1.1676998740e-1f, -1.2420140846e-1f, 1.4249322787e-1f,
                     -1.6668057665e-1f, 2.0000714765e-1f, -2.4999993993e-1f, 3.3333331174e-1f);
  V y = hn::Mul(hn::Mul(p, f), z);
  y = hn::MulAdd(n, hn::Set(d, -2.12194440e-4f), y);
  y = hn::NegMulAdd(hn::Set(d, 0.5f), z, y);
  y = hn::MulAdd(n, hn::Set(d, 0.693359375f), hn::Add(f, y));
  return endsOfLog(d, x, y);
}

template <class D, class V>
HWY_INLINE V log1p(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  V u = hn::Add(one, x);
  // The rounding of 1 + x is put right by its first-order term.
  V correction = hn::Div(hn::Sub(x, hn::Sub(u, one)), u);
  V y = hn::Add(log(d, u), correction);
  auto plain = hn::Or(hn::Eq(u, one), hn::Eq(x, hn::Set(d, std::numeric_limits<float>::infinity())));
  y = hn::IfThenElse(plain, x, y);
  return hn::IfThenElse(hn::Eq(u, hn::Zero(d)), hn::Set(d, -std::numeric_limits<float>::infinity()), y);
}

// 1 + exp(-x), of which sigmoid is the reciprocal; infinite where exp(x) is below the normal numbers.
template <class D, class V>
HWY_INLINE V sigmoidDivisor(D d, V x) {
  const V infinite = hn::Set(d, std::numeric_limits<float>::infinity());
  const V bounded = atMost(d, -kLeastExponent, atLeast(d, kLeastExponent, hn::Neg(x)));
  const V divisor = hn::Add(expOfMiddle(d, bounded), hn::Set(d, 1.0f));
  return hn::IfThenElse(hn::Lt(x, hn::Set(d, kLeastExponent)), infinite, divisor);
}
template <class D, class V>
HWY_INLINE V sigmoid(D d, V x) {
  return hn::Div(hn::Set(d, 1.0f), sigmoidDivisor(d, x));
}

#if HWY_TARGET == HWY_AVX3
// e^2|x| - 1 for |x| <= 10, by sixteenths: near zero, where the power of two leaves nothing but 2^(k/16) - 1, that has
// the digits that a float of the power lacks.
template <class D>
HWY_INLINE hn::Vec<D> expm1OfTwice(D d, hn::Vec<D> magnitude) {
  alignas(64) static constexpr float kRest[] = {
      0.0f,           4.83347016e-8f,  -1.30775399e-8f, 5.38622231e-8f,  3.79763527e-8f,
      4.49683810e-8f, -4.01899953e-8f, -1.01233493e-8f, 2.42032350e-8f,  -4.50089885e-8f,
      8.07090483e-9f, 9.83621717e-9f,  -2.47553267e-8f, -9.23577037e-9f, -1.12392780e-8f,
      9.84532811e-9f};
  static_assert(hn::MaxLanes(D()) == sizeof(kRest) / sizeof(float));
  const auto one = hn::Set(d, 1.0f), toWhole = hn::Set(d, kToWhole);
  const auto moved = hn::MulAdd(magnitude, hn::Set(d, 46.1662413f), toWhole), k = hn::Sub(moved, toWhole);
  const auto rest = hn::NegMulAdd(k, hn::Set(d, 0.02166084945f), magnitude);
  const auto r = hn::MulAdd(k, hn::Set(d, 5.95204475e-11f), rest);
  // e^2r - 1
  const auto p = hn::Mul(polynomialOf(d, r, 1.0f / 3, 2.0f / 3, 1.0f, 1.0f), hn::Add(r, r));
  const auto bits = hn::BitCast(hn::RebindToSigned<D>(), moved);
  const auto scale = powerOfSixteenths(d, bits);
  const auto low = hn::TableLookupLanes(hn::Load(d, kRest), hn::IndicesFromVec(d, bits));
  return hn::MulAdd(p, scale, hn::Add(hn::Sub(scale, one), low));
}
#endif

// (e^2|x| - 1) / (e^2|x| + 1), where e^y - 1 = 2^n r + (2^n - 1) loses nothing near zero. Further out it is
// 1 - 2 / (e^2|x| + 1), which never falls.
template <class D, class V>
HWY_INLINE V tanh(D d, V x) {
  constexpr float kOne = 10.0f;  // from there on it is
  const V magnitude = hn::Abs(x), one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), bounded = atMost(d, kOne, magnitude);
#if HWY_TARGET == HWY_AVX3
  const V e = expm1OfTwice(d, bounded);
#else
  V n;
  const V r = expReduced(d, hn::Add(bounded, bounded), n);
  const V scale = powerOfTwo(d, n), e = hn::MulAdd(r, scale, hn::Sub(scale, one));
#endif
  const auto far = hn::Ge(magnitude, hn::Set(d, 0.625f));
  const V part = hn::Div(hn::IfThenElse(far, two, e), hn::Add(e, two));
  return hn::CopySign(hn::IfThenElse(far, hn::Sub(one, part), part), x);
}

#if HWY_TARGET == HWY_AVX3
// A polynomial around each of 16 places that are `apart`, the first of which is zero; t >= 0.
template <class D, class V, size_t kTerms>
HWY_INLINE V polynomialOfPlace(D d, V t, float apart, const float (&coefficients)[kTerms][16]) {
  static_assert(hn::MaxLanes(D()) == 16);
  const auto toWhole = hn::Set(d, kToWhole);
  const auto moved = hn::MulAdd(t, hn::Set(d, 1 / apart), toWhole);
  const auto u = hn::NegMulAdd(hn::Sub(moved, toWhole), hn::Set(d, apart), t);
  const auto place = hn::IndicesFromVec(d, hn::BitCast(hn::RebindToSigned<D>(), moved));
  auto at = [&](size_t degree) HWY_ATTR { return hn::TableLookupLanes(hn::Load(d, coefficients[degree]), place); };
  V p = at(kTerms - 1);
  for (size_t degree = kTerms - 1; degree-- > 0;) p = hn::MulAdd(p, u, at(degree));
  return p;
}
#endif

// Where erfc is below half a unit of the last place the result is 1.
#if HWY_TARGET == HWY_AVX3
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  constexpr float kOne = 3.92f;
  alignas(64) static constexpr float kCoefficients[][16] = {
      {0.0f, 0.280267745f, 0.52701658f, 0.718273938f, 0.848788857f, 0.927200139f, 0.968673468f, 0.987985432f,
       0.995902181f, 0.99875927f, 0.999666989f, 0.999920845f, 0.99998337f, 0.999996901f, 0.999999464f, 0.99999994f},
      {1.12837911f, 1.05802882f, 0.872217417f, 0.632174373f, 0.40284121f, 0.225691766f, 0.111168668f, 0.0481430851f,
       0.01833033f, 0.0061360877f, 0.00180591678f, 0.000467292557f, 0.00010630778f, 2.12630912e-05f, 3.739151e-06f,
       5.78102856e-07f},
      {0.0f, -0.268438876f, -0.442593694f, -0.481185317f, -0.408839077f, -0.286317647f, -0.16923812f, -0.0855057761f,
       -0.0372063965f, -0.0140112853f, -0.00458161347f, -0.00130396674f, -0.00032357857f, -7.01023237e-05f,
       -1.32730174e-05f, -2.1980793e-06f},
      {-0.376122475f, -0.307265788f, -0.141010553f, 0.0334471688f, 0.142332584f, 0.166916072f, 0.134699717f,
       0.0851940587f, 0.0442376472f, 0.0192852095f, 0.00714824488f, 0.00227069459f, 0.000621463521f, 0.000147098282f,
       3.01953496e-05f, 5.38676795e-06f},
      {0.0f, 0.12747401f, 0.182109579f, 0.147049993f, 0.0641990378f, -0.00991393812f, -0.0456672683f, -0.0469605587f,
       -0.0324976332f, -0.0174212176f, -0.0076052635f, -0.00276999408f, -0.000853468664f, -0.000224416421f,
       -5.06611977e-05f, -9.8607361e-06f},
      {0.112189136f, 0.0786959678f, 0.00526313111f, -0.0544702075f, -0.0682919472f, -0.0446989462f, -0.0124722421f,
       0.00777383195f, 0.0130256116f, 0.0100482125f, 0.00552597642f, 0.00238839397f, 0.000844201888f, 0.000249141623f,
       6.21612999e-05f, 1.32198375e-05f},
  };
  const V t = atMost(d, kOne, hn::Abs(x)), near = polynomialOfPlace(d, t, 0.253721684f, kCoefficients);
  return hn::CopySign(hn::IfThenElse(hn::Ge(t, hn::Set(d, kOne)), hn::Set(d, 1.0f), near), x);
}
#else
// x * P(x^2) below 1, 1 - exp(Q(|x|)) above: Q approximates log(erfc).
template <class D, class V>
HWY_INLINE V erf(D d, V x) {
  const V one = hn::Set(d, 1.0f);
  V t = atMost(d, 4.0f, hn::Abs(x)), s = hn::Mul(t, t);
  V q = polynomialOf(d, t, -1.72853470e-5f, 3.83197126e-4f);
  V u = polynomialOf(d, t, -3.88396438e-3f, 2.42546219e-2f);
  q = hn::MulAdd(q, s, u);
  q = hn::MulAdd(q, t, hn::Set(d, -1.06777877e-1f));
  q = hn::MulAdd(q, t, hn::Set(d, -6.34846687e-1f));
  q = hn::MulAdd(q, t, hn::Set(d, -1.28717512e-1f));
  q = hn::MulSub(q, t, t);
  // exp(q), without the care for its bounds: q is in [-18, 0].
  V n;
  V e = expReduced(d, q, n);
  V scale = powerOfTwo(d, n);
  V large = hn::CopySign(hn::Sub(one, hn::MulAdd(e, scale, scale)), x);
  V p = polynomialOf(d, s, -5.96761703e-4f, 4.99119423e-3f, -2.67681349e-2f, 1.12819925e-1f, -3.76125336e-1f,
                     1.28379166e-1f);
  V small = hn::MulAdd(p, x, x);
  return hn::IfThenElse(hn::Gt(t, hn::Set(d, 0.927734375f)), large, small);
}
#endif

// h * erfc(sqrt(2) h) for h in [0, 2.85].
#if HWY_TARGET == HWY_AVX3
template <class D, class V>
HWY_INLINE V timesErfc(D d, V h) {
  alignas(64) static constexpr float kCoefficients[][16] = {
      {1.0f, 0.713065684f, 0.462044865f, 0.269929111f, 0.141299829f, 0.065957889f, 0.0273523889f, 0.0100474022f,
       0.00326167839f, 0.00093403575f, 0.000235605825f, 5.2287276e-05f, 1.01994256e-05f, 1.74735635e-06f,
       2.62741281e-07f, 3.4655951e-08f},
      {-1.59576905f, -1.49143505f, -1.21760714f, -0.868317544f, -0.540901959f, -0.294324934f, -0.139895633f,
       -0.0580830984f, -0.0210651215f, -0.00667339424f, -0.00184670789f, -0.000446394028f, -9.42556435e-05f,
       -1.73846256e-05f, -2.8008667e-06f, -3.94174862e-07f},
      {5.77315973e-15f, 0.548449934f, 0.895514667f, 0.957942963f, 0.795652092f, 0.5411852f, 0.308678448f, 0.149519116f,
       0.0619718768f, 0.022085784f, 0.00679035857f, 0.00180534902f, 0.00041579103f, 8.30630743e-05f, 1.44080204e-05f,
       2.17177535e-06f},
      {1.06382716f, 0.859817266f, 0.372644186f, -0.125665411f, -0.419638842f, -0.467161983f, -0.360788167f,
       -0.217872545f, -0.107503824f, -0.0442845337f, -0.0154175833f, -0.00457167765f, -0.00116064027f, -0.000253216858f,
       -4.76045752e-05f, -7.72804287e-06f},
      {-5.89854554e-13f, -0.519535959f, -0.729087412f, -0.566983461f, -0.222654358f, 0.0664636344f, 0.190511122f,
       0.18011795f, 0.116931669f, 0.0588744879f, 0.0240615029f, 0.00816501491f, 0.00233100564f, 0.000564601796f,
       0.000116697956f, 2.06687309e-05f},
      {-0.633830726f, -0.436291844f, -0.00878919289f, 0.323494971f, 0.380028725f, 0.229523942f, 0.0477408059f,
       -0.0544630364f, -0.0725666434f, -0.0509433337f, -0.0259020254f, -0.0103627415f, -0.00338055077f,
       -0.000916615303f, -0.000209004953f, -4.03902995e-05f},
  };
  return hn::Mul(polynomialOfPlace(d, h, 0.183870971f, kCoefficients), h);
}
#else
// As 2^P(h).
template <class D, class V>
HWY_INLINE V timesErfc(D d, V h) {
  const V p = hn::Mul(h, polynomialOf(d, h, -4.86946548e-4f, 3.59138963e-3f, -8.41451529e-3f, -8.70615989e-3f,
                                      1.15926579e-1f, -4.21020836e-1f, -1.83664858f, -2.30222201f));
  const V n = hn::Round(p), r = hn::Sub(p, n);
  const V power =
      polynomialOf(d, r, 1.32764038e-3f, 9.67554096e-3f, 5.55071346e-2f, 2.40221202e-1f, 6.93146944e-1f, 1.00000012f);
  return hn::Mul(hn::Mul(power, h), powerOfTwo(d, n));
}
#endif

// max(x, 0) - |x| / 2 * erfc(|x| / sqrt(2)), where the last is 0 from 5.7 on: what cancels for negative x is never
// there. The result has the sign of x, zero too.
template <class D, class V>
HWY_INLINE V gelu(D d, V x) {
  constexpr float kNothingLeft = 2.85f;
  const V half = hn::Mul(x, hn::Set(d, 0.5f)), h = hn::Abs(half);
  const V rest = timesErfc(d, atMost(d, kNothingLeft, h));
  return hn::CopySignToAbs(
      hn::Abs(hn::Sub(hn::Add(half, h), hn::IfThenZeroElse(hn::Ge(h, hn::Set(d, kNothingLeft)), rest))), x);
}

// x / 2 * (1 + tanh(y)) = x * sigmoid(2 y)
template <class D, class V>
HWY_INLINE V geluTanh(D d, V x) {
  V cubic = hn::MulAdd(hn::Mul(hn::Mul(x, x), x), hn::Set(d, 0.044715f), x);
  return hn::Div(x, sigmoidDivisor(d, hn::Mul(cubic, hn::Set(d, 2 * 0.7978845608f))));
}

template <class D, class V>
HWY_INLINE V hardRamp(D d, V x) {
  return atMost(d, 6.0f, atLeast(d, 0.0f, hn::Add(x, hn::Set(d, 3.0f))));
}
template <class D, class V>
HWY_INLINE V hardSigmoid(D d, V x) {
  return hn::Mul(hardRamp(d, x), hn::Set(d, 1.0f / 6.0f));
}
// In this order, which is infinite near the largest float, as in PyTorch.
template <class D, class V>
HWY_INLINE V hardSwish(D d, V x) {
  return hn::Mul(hn::Mul(x, hardRamp(d, x)), hn::Set(d, 1.0f / 6.0f));
}

template <class D, class V>
HWY_INLINE V softplus(D d, V x) {
  return hn::IfThenElse(hn::Gt(x, hn::Set(d, 20.0f)), x, log1p(d, exp(d, x)));
}

// x tanh(log(1 + exp(x))) with one exponential e of -|x|: of x >= 0 it is x (1 + 2 e) / (1 + 2 e + 2 e^2), of others
// x e (e + 2) / (e (e + 2) + 2).
template <class D, class V>
HWY_INLINE V mish(D d, V x) {
  const V one = hn::Set(d, 1.0f), two = hn::Set(d, 2.0f), e = exp(d, hn::Neg(hn::Abs(x)));
  const auto isNegative = hn::Lt(x, hn::Zero(d));
  const V above = hn::IfThenElse(isNegative, hn::Mul(e, hn::Add(e, two)), hn::MulAdd(two, e, one));
  const V more = hn::IfThenElse(isNegative, two, hn::Mul(hn::Mul(e, e), two));
  return hn::Mul(x, hn::Div(above, hn::Add(above, more)));
}

// Comparisons as numbers, and back.
template <class D, class M>
HWY_INLINE auto truth(D d, M mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, 1.0f));
}
template <class D, class V>
HWY_INLINE auto isTrue(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));  // NaN is true
}

// What is left of it where 16 bits keep it, rounded to the nearest, ties to even.
template <class D, class V>
HWY_INLINE V roundedToHalf(D d, V x) {
  const hn::Rebind<hwy::float16_t, D> half;
  return hn::PromoteTo(d, hn::DemoteTo(half, x));
}
template <class D, class V>
HWY_INLINE V roundedToBFloat16(D d, V x) {
  const hn::RebindToUnsigned<D> du;
  const auto bits = hn::BitCast(du, x);
  const auto isOdd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1u));
  const auto rounded = hn::Add(bits, hn::Add(isOdd, hn::Set(du, 0x7fffu)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::BitCast(d, hn::And(rounded, hn::Set(du, 0xffff0000u))));
}

// Calls body with a function of (d, vector): the switch is outside of the loop.
template <class Body>
HWY_INLINE void withActivation(Activation activation, float alpha, float beta, Body&& body) {
  switch (activation) {
    case Activation::None:
      return body([](auto, auto x) HWY_ATTR { return x; });
#define TS_ACTIVATION(name, ...) \
  case Activation::name:         \
    return body([=]([[maybe_unused]] auto d, auto x) HWY_ATTR { return __VA_ARGS__; });
#include "runtime/kernels/pointwise_ops.def"
  }
}

// activation(c) in place on `rows` rows of `count` floats.
HWY_INLINE void activateRows(float* c, int64_t rowStride, int64_t rows, int64_t count, Activation activation,
                             float alpha, float beta) {
  if (rowStride == count) {  // one long row
    count *= rows;
    rows = 1;
  }
  withActivation(activation, alpha, beta, [=](auto f) HWY_ATTR {
    const hn::ScalableTag<float> d;
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t r = 0; r < rows; ++r) {
      float* row = c + r * rowStride;
      int64_t i = 0;
      for (; i + lanes <= count; i += lanes) hn::StoreU(f(d, hn::LoadU(d, row + i)), d, row + i);
      if (i < count) {
        auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
        hn::BlendedStore(f(d, hn::MaskedLoad(mask, d, row + i)), mask, d, row + i);
      }
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
