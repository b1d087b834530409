// Dtypes that tensors carry, and that are moved and converted but not computed with: floating point numbers of 8 bits,
// and unsigned integers of more than 8.
#pragma once

#include "ir/values/dtype.h"

namespace tscompile {

// FLOAT8 in five kinds. The formats are those of ml_dtypes: "fn" has no infinities, "fnuz" neither them nor a negative
// zero, "e8m0fnu" is a power of two.
inline bool isSmallFloat(DType d) {
  return (d >= DType::Float8E5M2 && d <= DType::Float8E4M3FNUZ) || d == DType::Float8E8M0FNU;
}
inline bool isWideUnsigned(DType d) { return d == DType::UInt16 || d == DType::UInt32 || d == DType::UInt64; }
inline bool isCarried(DType d) { return isSmallFloat(d) || isWideUnsigned(d); }

float smallFloatValue(DType dtype, uint8_t bits);
// The nearest number, ties to even; what is out of range becomes an infinity, or NaN where there is none.
uint8_t smallFloatBits(DType dtype, float value);

template <DType kDType>
struct SmallFloat {
  uint8_t bits = 0;
  SmallFloat() = default;
  explicit SmallFloat(float value) : bits(smallFloatBits(kDType, value)) {}
  explicit operator float() const { return smallFloatValue(kDType, bits); }
};

template <class T>
inline constexpr bool kIsSmallFloat = false;
template <DType kDType>
inline constexpr bool kIsSmallFloat<SmallFloat<kDType>> = true;

// As visitDType, for carried dtypes as well.
template <class F>
bool visitStoredDType(DType dtype, F&& f) {
  auto with = [&](auto zero) {
    f(zero);
    return true;
  };
  switch (dtype) {
    case DType::Float8E5M2:
      return with(SmallFloat<DType::Float8E5M2>{});
    case DType::Float8E4M3FN:
      return with(SmallFloat<DType::Float8E4M3FN>{});
    case DType::Float8E5M2FNUZ:
      return with(SmallFloat<DType::Float8E5M2FNUZ>{});
    case DType::Float8E4M3FNUZ:
      return with(SmallFloat<DType::Float8E4M3FNUZ>{});
    case DType::Float8E8M0FNU:
      return with(SmallFloat<DType::Float8E8M0FNU>{});
    case DType::UInt16:
      return with(uint16_t{});
    case DType::UInt32:
      return with(uint32_t{});
    case DType::UInt64:
      return with(uint64_t{});
    default:
      return visitDType(dtype, f);
  }
}

}  // namespace tscompile
