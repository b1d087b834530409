// Integers of quantised tensors as float32: each stands for itself without the zero point, in units of the scale.
#pragma once

#include <cstdint>

namespace tscompile {

// The integers of a quantised dtype without the zero point.
struct StepRange {
  float least, most;
};

// y = x * factor, rounded to the nearest integer, halves to even, and brought into the range. As PyTorch converts
// floats on x86, what is no number or 2^63 and more becomes the least.
void requantize(const float* x, int64_t count, float factor, StepRange range, float* y);
// The same with a factor for each of `columns`, of rows that lie behind each other.
void requantizeColumns(const float* x, int64_t rows, int64_t columns, const float* factors, StepRange range, float* y);

// The least and the most of some floats, of which there is one at least; NaNs if any is one.
StepRange extremes(const float* x, int64_t count);

// a * x + b * y in units of 2^-shift: a weighted sum of integers as processors without floats compute it.
struct FixedPointSum {
  int32_t a, b;
  int shift;      // 1 to 30
  bool roundsUp;  // halves, as XNNPACK does; else away from zero, as QNNPACK
};
// x and y hold integers of up to nine bits with their signs.
void addSteps(const FixedPointSum& sum, const float* x, const float* y, int64_t count, StepRange range, float* out);

// y = table[x - least], for integers x within the range; others take its ends.
void lookUpSteps(const float* table, StepRange range, const float* x, int64_t count, float* y);

}  // namespace tscompile
