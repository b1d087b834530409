// PyTorch's rules for the dtype of a result that comes from several tensors and numbers.
#pragma once

#include "ir/operators/infer_call.h"
#include "ir/values/ivalue.h"

namespace tscompile {

// Tensors with dimensions decide; tensors without, and numbers, only if their category (bool < int < float < complex)
// is higher.
class ResultType {
 public:
  void add(const TensorInfo& t);
  // A number: bool, int64, float64 or complex128.
  void addNumber(DType category);
  // Adds argument i, a tensor or a number; None is passed over.
  void add(const InferCall& call, size_t i);
  DType get() const;

 private:
  DType withDims_ = DType::Undefined, withoutDims_ = DType::Undefined, numbers_ = DType::Undefined;
};

// Whether an element of this dtype can be the number, but for rounding and what is behind its point.
bool isInRange(double number, DType dtype);
// A number as an element of this dtype takes it: real, integral, within its range; fails if it cannot be. Floats are
// truncated for integers; negative numbers wrap for unsigned ones.
IValue numberFor(const IValue& number, DType dtype);

}  // namespace tscompile
