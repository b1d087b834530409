// From numbers to the integers of quantised tensors and back, as PyTorch rounds.
#pragma once

#include "runtime/reference/quantization_grid.h"

namespace tscompile {

// The least and the greatest integer of a quantised dtype.
struct IntegerRange {
  int32_t least, most;
};
IntegerRange rangeOf(DType quantized);

// The integer that stands for x: round(x / scale) + zero point, halves to even, within the range of the dtype.
class Rounding {
 public:
  Rounding(DType quantized, double scale, int64_t zeroPoint);
  int32_t operator()(float x) const { return step(x * inverse_); }
  // Of a number in units of the scale.
  int32_t step(float x) const;

 private:
  float inverse_;
  double least_, most_;  // without the zero point
  IntegerRange range_;
  int64_t zero_;
};

// Per tensor: one scale that is above 0 and a zero point within the dtype's range, else ExecutionError.
void checkGrid(DType quantized, double scale, int64_t zeroPoint);
// Float32 numbers on the grid; contiguous. Per channel: one scale for each index of q.axis.
Tensor quantize(const Tensor& x, DType quantized, const Quantization& q);
// Float32, contiguous.
Tensor dequantize(const Tensor& t);
// q - zero point as numbers of a floating point dtype, contiguous: in units of the scale.
Tensor stepsOf(const Tensor& quantized, DType dtype = DType::Float32);
// Float32 numbers in units of the scale, rounded to a quantised tensor.
Tensor quantizeSteps(const Tensor& steps, DType quantized, const Quantization& q);

// The grid for all elements of a float32 tensor, as quint8; for two bounds: quantization_grid.h.
Ref<Quantization> chooseGrid(const Tensor& x, bool isReduced);

}  // namespace tscompile
