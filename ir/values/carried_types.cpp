#include "ir/values/carried_types.h"

#include "ir/support/check.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// Sign, exponent, and `mantissa` bits of fraction. Codes are without the sign.
struct Format {
  int mantissa, bias;
  uint8_t largest;      // the code of the largest number
  uint8_t tooLarge;     // of what is larger
  bool isFnuz = false;  // the only NaN is where the negative zero would be
};

Format formatOf(DType dtype) {
  switch (dtype) {
    case DType::Float8E5M2:
      return {2, 15, 0x7b, 0x7c};
    case DType::Float8E4M3FN:
      return {3, 7, 0x7e, 0x7e};
    case DType::Float8E5M2FNUZ:
      return {2, 16, 0x7f, 0x80, true};
    case DType::Float8E4M3FNUZ:
      return {3, 8, 0x7f, 0x80, true};
    default:
      TS_UNREACHABLE();
  }
}

constexpr uint8_t kSign = 0x80;
constexpr int kPowerBias = 127;  // of e8m0, as of a binary32
constexpr uint8_t kPowerNaN = 0xff;

// Halves are rounded up but for the least code, whose fraction is not that of a normal number.
uint8_t powerBits(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint32_t exponent = (u >> 23) & 0xff, fraction = u & 0x7fffff;
  if (exponent == kPowerNaN) return kPowerNaN;
  const bool up = fraction > 0x400000 || (fraction == 0x400000 && exponent > 0);
  return static_cast<uint8_t>(exponent + up);
}

// Without the sign. Below the least normal number, codes are as far apart as those above it.
uint8_t magnitudeBits(const Format& f, float value) {
  const double magnitude = std::fabs(static_cast<double>(value));
  if (magnitude == 0) return 0;
  const int exponent = std::max(std::isinf(magnitude) ? kPowerBias : std::ilogb(magnitude), 1 - f.bias);
  const double steps = std::nearbyint(std::ldexp(magnitude, f.mantissa - exponent));
  const double code = steps + std::ldexp(exponent + f.bias - 1, f.mantissa);
  return code > f.largest ? f.tooLarge : static_cast<uint8_t>(code);
}

}  // namespace

float smallFloatValue(DType dtype, uint8_t bits) {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
  if (dtype == DType::Float8E8M0FNU) return bits == kPowerNaN ? kNaN : std::ldexp(1.0f, bits - kPowerBias);
  const Format f = formatOf(dtype);
  if (f.isFnuz && bits == kSign) return kNaN;
  const int code = bits & ~kSign;
  if (code > f.largest) {
    if (code != f.tooLarge || dtype != DType::Float8E5M2) return kNaN;
    return bits & kSign ? -HUGE_VALF : HUGE_VALF;
  }
  const int exponent = code >> f.mantissa, fraction = code & ((1 << f.mantissa) - 1);
  const int steps = exponent ? fraction + (1 << f.mantissa) : fraction;
  const float magnitude = std::ldexp(static_cast<float>(steps), std::max(exponent, 1) - f.bias - f.mantissa);
  return bits & kSign ? -magnitude : magnitude;
}

uint8_t smallFloatBits(DType dtype, float value) {
  if (dtype == DType::Float8E8M0FNU) return powerBits(value);
  const Format f = formatOf(dtype);
  const uint8_t code = std::isnan(value) ? (f.isFnuz ? kSign : 0x7f) : magnitudeBits(f, value);
  if (f.isFnuz && (code == 0 || code == kSign)) return code;
  return std::signbit(value) ? code | kSign : code;
}

}  // namespace tscompile
