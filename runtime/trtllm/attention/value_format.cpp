#include "runtime/trtllm/attention/value_format.h"

#include "ir/support/check.h"
#include "runtime/kernels/simd.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/trtllm/attention/value_format.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

struct LoadHalf {
  using Stored = hwy::float16_t;
  template <class D, class V>
  HWY_INLINE hn::Vec<D> operator()(D d, V stored) const {
    return hn::PromoteTo(d, stored);
  }
};
struct LoadBFloat16 {
  using Stored = uint16_t;
  template <class D, class V>
  HWY_INLINE hn::Vec<D> operator()(D d, V stored) const {
    return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::Rebind<uint32_t, D>(), stored)));
  }
};
struct LoadInt8 {
  using Stored = int8_t;
  template <class D, class V>
  HWY_INLINE hn::Vec<D> operator()(D d, V stored) const {
    return hn::ConvertTo(d, hn::PromoteTo(hn::Rebind<int32_t, D>(), stored));
  }
};
// Exponent and mantissa where those of f32 are, with the difference of the biases as a factor.
struct LoadFp8 {
  using Stored = uint8_t;
  template <class D, class V>
  HWY_INLINE hn::Vec<D> operator()(D d, V stored) const {
    const hn::Rebind<uint32_t, D> du;
    auto bits = hn::PromoteTo(du, stored);
    auto magnitude = hn::And(bits, hn::Set(du, 0x7f));
    auto sign = hn::ShiftLeft<24>(hn::And(bits, hn::Set(du, 0x80)));
    auto value = hn::Mul(hn::BitCast(d, hn::ShiftLeft<20>(magnitude)), hn::Set(d, 0x1p120f));
    auto isNan = hn::RebindMask(d, hn::Eq(magnitude, hn::Set(du, 0x7f)));
    value = hn::IfThenElse(isNan, hn::Set(d, std::numeric_limits<float>::quiet_NaN()), value);
    return hn::Or(value, hn::BitCast(d, sign));
  }
};

template <class Load>
void loadScaled(const std::byte* from, int64_t count, float scale, float* to) {
  using Stored = typename Load::Stored;
  const hn::ScalableTag<float> d;
  const hn::Rebind<Stored, decltype(d)> stored;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* values = reinterpret_cast<const Stored*>(from);
  const auto factor = hn::Set(d, scale);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::Mul(Load()(d, hn::LoadU(stored, values + i)), factor), d, to + i);
  if (i == count) return;
  HWY_ALIGN Stored rest[HWY_MAX_BYTES] = {};
  HWY_ALIGN float result[HWY_MAX_BYTES / sizeof(float)];
  std::memcpy(rest, values + i, static_cast<size_t>(count - i) * sizeof(Stored));
  hn::Store(hn::Mul(Load()(d, hn::LoadU(stored, rest)), factor), d, result);
  std::copy_n(result, count - i, to + i);
}

void loadStored(const ValueFormat& format, const std::byte* from, int64_t count, float* to) {
  switch (format.storage) {
    case DType::Float32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::Float16:
      return loadScaled<LoadHalf>(from, count, 1, to);
    case DType::BFloat16:
      return loadScaled<LoadBFloat16>(from, count, 1, to);
    case DType::Int8:
      return loadScaled<LoadInt8>(from, count, format.dequantize, to);
    case DType::Float8E4M3FN:
      return loadScaled<LoadFp8>(from, count, format.dequantize, to);
    default:
      TS_UNREACHABLE();
  }
}

void storeInt8(const float* from, int64_t count, float scale, std::byte* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<int8_t, decltype(d)> narrow;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto* values = reinterpret_cast<int8_t*>(to);
  const auto factor = hn::Set(d, scale), least = hn::Set(d, -128.0f), most = hn::Set(d, 127.0f);
  auto stored = [&](auto x) HWY_ATTR {
    auto scaled = hn::Mul(x, factor);
    scaled = hn::IfThenZeroElse(hn::IsNaN(scaled), hn::Min(hn::Max(scaled, least), most));
    return hn::DemoteTo(narrow, hn::NearestInt(scaled));
  };
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(stored(hn::LoadU(d, from + i)), narrow, values + i);
  if (i == count) return;
  HWY_ALIGN float rest[HWY_MAX_BYTES / sizeof(float)] = {};
  HWY_ALIGN int8_t result[HWY_MAX_BYTES];
  std::copy_n(from + i, count - i, rest);
  hn::Store(stored(hn::Load(d, rest)), narrow, result);
  std::copy_n(result, count - i, values + i);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

template <class Stored, class Encode>
void storeAs(const float* from, int64_t count, std::byte* to, Encode encode) {
  for (int64_t i = 0; i < count; ++i) {
    const Stored stored = encode(from[i]);
    std::memcpy(to + i * static_cast<int64_t>(sizeof(Stored)), &stored, sizeof(Stored));
  }
}

}  // namespace

float fromFp8(uint8_t bits) {
  const int exponent = bits >> 3 & 15, mantissa = bits & 7;
  if ((bits & 0x7f) == 0x7f) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), -9)
                                        : std::ldexp(static_cast<float>(8 + mantissa), exponent - 10);
  return bits & 0x80 ? -magnitude : magnitude;
}

uint8_t toFp8(float value) {
  const uint8_t sign = std::signbit(value) ? 0x80 : 0;
  if (std::isnan(value)) return sign | 0x7f;
  const float magnitude = std::fabs(value);
  if (magnitude >= 448) return sign | 0x7e;
  // Below the smallest normal number steps are 2^-9, as those of f32 are from 2^14 on.
  if (magnitude < 0x1p-6f)
    return static_cast<uint8_t>(sign |
                                (std::bit_cast<uint32_t>(magnitude + 0x1p14f) - std::bit_cast<uint32_t>(0x1p14f)));
  // Else 20 bits of the mantissa go, halves to the even number; a carry goes to the exponent.
  const uint32_t bits = std::bit_cast<uint32_t>(magnitude);
  return static_cast<uint8_t>(sign | (((bits + 0x7ffff + (bits >> 20 & 1)) >> 20) - ((127 - 7) << 3)));
}

int8_t toInt8(double value) {
  if (std::isnan(value)) return 0;
  return static_cast<int8_t>(std::clamp(std::nearbyint(value), -128.0, 127.0));
}

void storeValues(const ValueFormat& format, const float* from, int64_t count, std::byte* to) {
  const float scale = format.quantize;
  switch (format.storage) {
    case DType::Float32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case DType::Float16:
      return storeAs<Half>(from, count, to, [](float x) { return Half(x); });
    case DType::BFloat16:
      return storeAs<BFloat16>(from, count, to, [](float x) { return BFloat16(x); });
    case DType::Int8:
      return TS_SIMD(storeInt8)(from, count, scale, to);
    case DType::Float8E4M3FN:
      return storeAs<uint8_t>(from, count, to, [scale](float x) { return toFp8(x * scale); });
    default:
      TS_UNREACHABLE();
  }
}

void loadValues(const ValueFormat& format, const std::byte* from, int64_t count, float* to) {
  TS_SIMD(loadStored)(format, from, count, to);
}

}  // namespace tscompile
#endif
