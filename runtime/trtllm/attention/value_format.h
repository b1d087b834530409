// How rows of values are stored: floating point of 32, 16 or 8 bits, or scaled int8.
#pragma once

#include "ir/values/dtype.h"

#include <cstddef>
#include <cstdint>

namespace tscompile {

// The 8 bits of sign, 4 of exponent, 3 of mantissa nearest to a value; saturates at 448, keeps NaN.
uint8_t toFp8(float value);
float fromFp8(uint8_t bits);
// Saturates at -128 and 127, halves go to the even number.
int8_t toInt8(double value);

// Stored as round(x * quantize), read as stored * dequantize. Tensors of fp8 are those of its bits, uint8.
struct ValueFormat {
  DType storage = DType::Float32;  // or Float16, BFloat16, Int8, Float8E4M3FN
  int64_t itemBytes() const { return static_cast<int64_t>(itemSize(storage)); }
  float quantize = 1, dequantize = 1;
};
void storeValues(const ValueFormat& format, const float* from, int64_t count, std::byte* to);
void loadValues(const ValueFormat& format, const std::byte* from, int64_t count, float* to);

}  // namespace tscompile
