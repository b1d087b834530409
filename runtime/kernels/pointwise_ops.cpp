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

// sin(x + quarters * pi / 2) for |x| up to kLargestTurned: pi / 2 in two parts, of which a multiple of the first is
// exact, and the polynomials of FreeBSD's k_sinf.c and k_cosf.c on [-pi / 4, pi / 4].
template <class D>
HWY_INLINE hn::Vec<D> sineOfDoubles(D d, hn::Vec<D> x, int64_t quarters) {
  const hn::RebindToSigned<D> di;
  const auto toWhole = hn::Set(d, 6755399441055744.0);
  const auto moved = hn::MulAdd(x, hn::Set(d, 0.63661977236758134308), toWhole), k = hn::Sub(moved, toWhole);
  const auto rest = hn::NegMulAdd(k, hn::Set(d, 1.57079631090164184570), x);
  const auto r = hn::NegMulAdd(k, hn::Set(d, 1.58932547735281966916e-08), rest), z = hn::Mul(r, r);
  const auto tail = polynomialOf(d, z, 2.7183114939898219064e-6, -1.98393348360966317347e-4, 8.3333293858894631756e-3,
                                 -1.66666666416265235595e-1);
  const auto sine = hn::MulAdd(hn::Mul(z, r), tail, r);
  const auto cosine = polynomialOf(d, z, 2.43904487962774090654e-5, -1.38867637746099294692e-3,
                                   4.16666233237390631894e-2, -4.99999997251031003120e-1, 1.0);
  const auto turn = hn::Add(hn::BitCast(di, moved), hn::Set(di, quarters));
  const auto isCosine = hn::RebindMask(d, hn::TestBit(turn, hn::Set(di, 1)));
  const auto sign = hn::ShiftLeft<62>(hn::And(turn, hn::Set(di, 2)));
  return hn::BitCast(d, hn::Xor(hn::BitCast(di, hn::IfThenElse(isCosine, cosine, sine)), sign));
}

inline constexpr float kLargestTurned = 1e6f;

// Computed in f64; `exact` has what is larger, infinite or NaN.
template <class D>
HWY_INLINE hn::Vec<D> turned(D d, hn::Vec<D> x, int64_t quarters, float (*exact)(float)) {
  const hn::Half<D> half;
  const hn::Rebind<double, decltype(half)> wide;
  const auto low = sineOfDoubles(wide, hn::PromoteTo(wide, hn::LowerHalf(half, x)), quarters);
  const auto high = sineOfDoubles(wide, hn::PromoteTo(wide, hn::UpperHalf(half, x)), quarters);
  const auto y = hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
  const auto isLarge = hn::Not(hn::Lt(hn::Abs(x), hn::Set(d, kLargestTurned)));
  if (hn::AllFalse(d, isLarge)) return y;
  HWY_ALIGN float values[hn::MaxLanes(D())];
  hn::Store(x, d, values);
  for (float& v : values) v = exact(v);
  return hn::IfThenElse(isLarge, hn::Load(d, values), y);
}

template <class D>
HWY_INLINE hn::Vec<D> sine(D d, hn::Vec<D> x) {
  return hn::IfThenElse(hn::Eq(x, hn::Zero(d)), x, turned(d, x, 0, std::sin));  // keeps the sign of zeros
}
template <class D>
HWY_INLINE hn::Vec<D> cosine(D d, hn::Vec<D> x) {
  return turned(d, x, 1, std::cos);
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

float remainderOf(float a, float b) {
  float r = std::fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

// PyTorch's rule: exact where a / b would round up to a whole number.
float floorDivide(float a, float b) {
  if (b == 0) return a / b;
  float r = std::fmod(a, b), quotient = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, a / b);
  float whole = std::floor(quotient);
  return quotient - whole > 0.5f ? whole + 1 : whole;
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
      for (int64_t i = 0; i < count; ++i) static_cast<Half*>(to)[i] = Half(from[i]);
      return;
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
