// Copies between tensors of any dtype and strides.
#pragma once

#include "ir/ivalue.h"
#include "ir/tensor.h"

namespace tscompile {

// Writes `from`, broadcast, into `to`, converting the elements. The two may share memory only if they are the same.
void copyTensor(const Tensor& to, const Tensor& from);
// A contiguous tensor with the same elements: the tensor itself if it is one already.
Tensor contiguous(const Tensor& t);
// A copy in memory of its own, with the strides of `t` where they are dense, else contiguous.
Tensor cloneTensor(const Tensor& t);
// A contiguous copy with other elements, or the tensor itself if nothing changes.
Tensor convertTensor(const Tensor& t, DType dtype);
// A tensor without dimensions that holds a number: bool, int64, float64 or complex128.
Tensor scalarTensor(const IValue& number);
// Sets every element to a number, converted as a copy converts.
void fillTensor(const Tensor& t, const IValue& number);
// Whether two tensors may refer to the same bytes. Exact for dense tensors, else on the safe side.
bool memoryOverlaps(const Tensor& a, const Tensor& b);

}  // namespace tscompile
