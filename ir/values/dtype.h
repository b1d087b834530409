// Element types of tensors, with PyTorch's numbers (graph texts write dtypes as integers), and the
// 16-bit floating point types.
#pragma once

#include <bit>
#include <complex>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#ifdef __F16C__
#include <immintrin.h>
#endif

namespace tscompile {

enum class DType : uint8_t {
  UInt8 = 0,
  Int8 = 1,
  Int16 = 2,
  Int32 = 3,
  Int64 = 4,
  Float16 = 5,
  Float32 = 6,
  Float64 = 7,
  ComplexHalf = 8,
  Complex64 = 9,
  Complex128 = 10,
  Bool = 11,
  QInt8 = 12,
  QUInt8 = 13,
  QInt32 = 14,
  BFloat16 = 15,
  QUInt4x2 = 16,
  QUInt2x4 = 17,
  // Later versions of PyTorch print these; they are carried, never computed with.
  Bits1x8,
  Bits2x4,
  Bits4x2,
  Bits8,
  Bits16,
  Float8E5M2,
  Float8E4M3FN,
  Float8E5M2FNUZ,
  Float8E4M3FNUZ,
  UInt16,
  UInt32,
  UInt64,
  UInt1,
  UInt2,
  UInt3,
  UInt4,
  UInt5,
  UInt6,
  UInt7,
  Int1,
  Int2,
  Int3,
  Int4,
  Int5,
  Int6,
  Int7,
  Float8E8M0FNU,
  Float4E2M1FNX2,
  Undefined,
};
inline constexpr int kDTypeCount = static_cast<int>(DType::Undefined);

// "Float", "Long": as in graph text.
std::string_view graphName(DType dtype);
// "float32", "int64": as numpy and PyTorch's Python have them.
std::string_view pythonName(DType dtype);
// "f32", "i64": as the command line has them.
std::string_view shortName(DType dtype);
std::optional<DType> dtypeFromGraphName(std::string_view name);
// Accepts the short and the Python names.
std::optional<DType> dtypeFromName(std::string_view name);
std::optional<DType> dtypeFromNumber(int64_t number);

// Bytes of an element; 0 for dtypes that we do not have tensors of.
size_t itemSize(DType dtype);

inline bool isFloating(DType d) {
  return d == DType::Float16 || d == DType::Float32 || d == DType::Float64 || d == DType::BFloat16;
}
inline bool isComplex(DType d) { return d == DType::ComplexHalf || d == DType::Complex64 || d == DType::Complex128; }
inline bool isIntegral(DType d, bool includeBool) { return d <= DType::Int64 || (includeBool && d == DType::Bool); }
// Integers that stand for other numbers (ir/values/quantization.h).
inline bool isQuantized(DType d) { return d == DType::QInt8 || d == DType::QUInt8 || d == DType::QInt32; }
inline bool isSupported(DType d) { return itemSize(d) != 0 && !isQuantized(d); }

// The smallest dtype that both fit, by PyTorch's table (int64 + float16 = float16). Undefined if there is none.
DType promoteTypes(DType a, DType b);
// Whether in-place results of dtype `from` may be written to `to`: complex to real, float to integer and
// number to bool are refused.
bool canCast(DType from, DType to);
// float32 for integers and bool, the dtype itself for the rest.
inline DType toFloating(DType d) { return isIntegral(d, true) ? DType::Float32 : d; }
// The dtype of real and imaginary parts.
DType realPart(DType d);
DType complexOf(DType d);

// IEEE binary16, stored as bits; arithmetic happens in float.
struct Half {
  uint16_t bits = 0;
  Half() = default;
  explicit Half(float value) : bits(fromFloat(value)) {}
  explicit operator float() const { return toFloat(bits); }
  static uint16_t fromFloat(float value);
  static float toFloat(uint16_t bits);
};

// The upper half of a binary32.
struct BFloat16 {
  uint16_t bits = 0;
  BFloat16() = default;
  explicit BFloat16(float value) : bits(fromFloat(value)) {}
  explicit operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }
  static uint16_t fromFloat(float value) {
    uint32_t u = std::bit_cast<uint32_t>(value);
    if (value != value) return 0x7fc0;
    return static_cast<uint16_t>((u + 0x7fff + ((u >> 16) & 1)) >> 16);  // to nearest, ties to even
  }
};

#ifdef __F16C__
inline uint16_t Half::fromFloat(float value) { return static_cast<uint16_t>(_cvtss_sh(value, 0)); }
inline float Half::toFloat(uint16_t bits) { return _cvtsh_ss(bits); }
#else
inline uint16_t Half::fromFloat(float value) {
  uint32_t u = std::bit_cast<uint32_t>(value);
  uint32_t sign = (u >> 16) & 0x8000;
  u &= 0x7fffffff;
  if (u > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((u >> 13) & 0x3ff));
  if (u >= 0x47800000) return static_cast<uint16_t>(sign | 0x7c00);  // 2^16 and above
  if (u < 0x38800000) {                                              // below the smallest normal number
    if (u < 0x33000000) return static_cast<uint16_t>(sign);
    uint32_t shift = 126 - (u >> 23);
    uint32_t mantissa = (u & 0x7fffff) | 0x800000;
    uint32_t result = mantissa >> shift;
    uint32_t rest = mantissa & ((1u << shift) - 1), half = 1u << (shift - 1);
    if (rest > half || (rest == half && (result & 1))) ++result;
    return static_cast<uint16_t>(sign | result);
  }
  uint32_t rounded = u + 0xfff + ((u >> 13) & 1) - 0x38000000;
  return static_cast<uint16_t>(sign | (rounded >> 13));
}
inline float Half::toFloat(uint16_t bits) {
  uint32_t sign = uint32_t{bits & 0x8000u} << 16, exponent = (bits >> 10) & 31, mantissa = bits & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | (mantissa << 13));
  if (exponent == 0) {
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(std::bit_cast<uint32_t>(magnitude) | sign);
  }
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}
#endif

// Calls `f` with a value of the C++ type that stores `dtype`; returns false for dtypes that have none.
template <class F>
bool visitDType(DType dtype, F&& f) {
  switch (dtype) {
    case DType::UInt8:
      f(uint8_t{});
      return true;
    case DType::Int8:
      f(int8_t{});
      return true;
    case DType::Int16:
      f(int16_t{});
      return true;
    case DType::Int32:
      f(int32_t{});
      return true;
    case DType::Int64:
      f(int64_t{});
      return true;
    case DType::Float16:
      f(Half{});
      return true;
    case DType::BFloat16:
      f(BFloat16{});
      return true;
    case DType::Float32:
      f(float{});
      return true;
    case DType::Float64:
      f(double{});
      return true;
    case DType::Complex64:
      f(std::complex<float>{});
      return true;
    case DType::Complex128:
      f(std::complex<double>{});
      return true;
    case DType::Bool:
      f(bool{});
      return true;
    default:
      return false;
  }
}

template <class T>
inline constexpr DType kDTypeOf = DType::Undefined;
template <>
inline constexpr DType kDTypeOf<uint8_t> = DType::UInt8;
template <>
inline constexpr DType kDTypeOf<int8_t> = DType::Int8;
template <>
inline constexpr DType kDTypeOf<int16_t> = DType::Int16;
template <>
inline constexpr DType kDTypeOf<int32_t> = DType::Int32;
template <>
inline constexpr DType kDTypeOf<int64_t> = DType::Int64;
template <>
inline constexpr DType kDTypeOf<Half> = DType::Float16;
template <>
inline constexpr DType kDTypeOf<BFloat16> = DType::BFloat16;
template <>
inline constexpr DType kDTypeOf<float> = DType::Float32;
template <>
inline constexpr DType kDTypeOf<double> = DType::Float64;
template <>
inline constexpr DType kDTypeOf<std::complex<float>> = DType::Complex64;
template <>
inline constexpr DType kDTypeOf<std::complex<double>> = DType::Complex128;
template <>
inline constexpr DType kDTypeOf<bool> = DType::Bool;

}  // namespace tscompile
