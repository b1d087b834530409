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

// sin(x + quarters * pi / 2), and tan(x), for |x| up to kLargestTurned: pi / 2 in two parts, of which a multiple of the
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
HWY_INLINE hn::Vec<D> sineOfDoubles(D d, hn::Vec<D> x, int64_t quarters) {
  const hn::RebindToSigned<D> di;
  const Turn<D> t(d, x);
  const auto turn = hn::Add(t.quarters, hn::Set(di, quarters));
  const auto isCosine = hn::RebindMask(d, hn::TestBit(turn, hn::Set(di, 1)));
  const auto sign = hn::ShiftLeft<62>(hn::And(turn, hn::Set(di, 2)));
  return hn::BitCast(d, hn::Xor(hn::BitCast(di, hn::IfThenElse(isCosine, t.cosine, t.sine)), sign));
}
template <class D>
HWY_INLINE hn::Vec<D> tangentOfDoubles(D d, hn::Vec<D> x) {
  const Turn<D> t(d, x);
  const auto isOdd = hn::RebindMask(d, hn::TestBit(t.quarters, hn::Set(hn::RebindToSigned<D>(), 1)));
  return hn::Div(hn::IfThenElse(isOdd, hn::Neg(t.cosine), t.sine), hn::IfThenElse(isOdd, t.sine, t.cosine));
}

inline constexpr float kLargestTurned = 1e6f;

// y, and where `isHard` what the standard library computes.
template <class D, class M, class... V>
HWY_INLINE hn::Vec<D> exactWhere(D d, M isHard, hn::Vec<D> y, float (*exact)(decltype(V(), float())...),
                                 V... arguments) {
  if (HWY_LIKELY(hn::AllFalse(d, isHard))) return y;
  constexpr size_t kMost = hn::MaxLanes(D());
  HWY_ALIGN float values[sizeof...(V)][kMost];
  HWY_ALIGN float results[kMost];
  size_t i = 0;
  (hn::Store(arguments, d, values[i++]), ...);
  for (size_t lane = 0; lane < hn::Lanes(d); ++lane)
    if constexpr (sizeof...(V) == 1)
      results[lane] = exact(values[0][lane]);
    else
      results[lane] = exact(values[0][lane], values[1][lane]);
  return hn::IfThenElse(isHard, hn::Load(d, results), y);
}

template <class D, class F>
HWY_INLINE hn::Vec<D> turned(D d, hn::Vec<D> x, float (*exact)(float), F f) {
  const auto isLarge = hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, kLargestTurned)));  // infinite and NaN as well
  return exactWhere(d, isLarge, inDoubles(d, x, f), exact, x);
}
template <class D>
HWY_INLINE hn::Vec<D> sine(D d, hn::Vec<D> x) {
  const auto y = turned(d, x, std::sin, [](auto wide, auto v) HWY_ATTR { return sineOfDoubles(wide, v, 0); });
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);  // keeps the sign of zeros
}
template <class D>
HWY_INLINE hn::Vec<D> cosine(D d, hn::Vec<D> x) {
  return turned(d, x, std::cos, [](auto wide, auto v) HWY_ATTR { return sineOfDoubles(wide, v, 1); });
}
template <class D>
HWY_INLINE hn::Vec<D> tangent(D d, hn::Vec<D> x) {
  const auto y = turned(d, x, std::tan, [](auto wide, auto v) HWY_ATTR { return tangentOfDoubles(wide, v); });
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, y);
}

// atan(y / x) of magnitudes: that of the smaller one over the larger, s, is s + s^3 p(s^2) with a polynomial through
// Chebyshev's points of [0, 1], within 4e-10 of it.
template <class D>
HWY_INLINE hn::Vec<D> arcOfDoubles(D d, hn::Vec<D> y, hn::Vec<D> x) {
  const auto isSteep = hn::Gt(y, x);
  const auto s = hn::Div(hn::Min(x, y), hn::Max(x, y)), t = hn::Mul(s, s);
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
  const auto isPlain = [&](auto v) HWY_ATTR {
    return hn::And(hn::Gt(hn::Abs(v), hn::Zero(d)), hn::Lt(hn::Abs(v), hn::Inf(d)));
  };
  const auto isHard = hn::Not(hn::And(isPlain(x), isPlain(y)));
  const auto arc = inDoubles(d, y, x, [](auto wide, auto vy, auto vx) HWY_ATTR {
    const auto steep = arcOfDoubles(wide, hn::Abs(vy), hn::Abs(vx));
    return hn::IfThenElse(hn::Lt(vx, hn::Zero(wide)), hn::Sub(hn::Set(wide, 3.14159265358979323846), steep), steep);
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
  return exactWhere(d, hn::Not(isNear), hn::CopySign(rest, x), std::fmod, x, y);
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

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// Operations that the standard library computes, element by element.
template <float (*kFunction)(float)>
void scalarUnary(const float* a, const float*, const float*, float* out, int64_t count, float, float) {
  for (int64_t i = 0; i < count; ++i) out[i] = kFunction(a[i]);
}
template <float (*kFunction)(float, float)>
void scalarBinary(const float* a, const float* b, const float*, float* out, int64_t count, float, float) {
  for (int64_t i = 0; i < count; ++i) out[i] = kFunction(a[i], b[i]);
}

}  // namespace

PointwiseFunction pointwiseFunction(PointwiseOp op) {
  switch (op) {
#define TS_SIMD_CASE(name, ...) \
  case PointwiseOp::name:       \
    return TS_SIMD(tile##name);
#define TS_UNARY TS_SIMD_CASE
#define TS_BINARY TS_SIMD_CASE
#define TS_TERNARY TS_SIMD_CASE
#define TS_UNARY_CALL(name, function) \
  case PointwiseOp::name:             \
    return scalarUnary<function>;
#define TS_BINARY_CALL(name, function) \
  case PointwiseOp::name:              \
    return scalarBinary<function>;
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
    case DType::BFloat16:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<const BFloat16*>(from)[i]);
      return;
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
    case DType::BFloat16:
      for (int64_t i = 0; i < count; ++i) static_cast<BFloat16*>(to)[i] = BFloat16(from[i]);
      return;
    case DType::Bool:
      for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(to)[i] = from[i] != 0;
      return;
    default:
      TS_UNREACHABLE();
  }
}

}  // namespace tscompile
#endif
