// Copies between tensors of any dtype and strides.
#pragma once

#include "ir/values/ivalue.h"
#include "ir/values/tensor.h"

namespace tscompile {

// Writes `from`, broadcast, into `to`, converting the elements. The two may share memory.
void copyTensor(const Tensor& to, const Tensor& from);
// A contiguous tensor with the same elements: the tensor itself if it is one already.
Tensor contiguous(const Tensor& t);
// A copy in memory of its own, with the strides of `t` where they are dense, else dense ones in their order.
Tensor cloneTensor(const Tensor& t);
// A contiguous copy with other elements, or the tensor itself if nothing changes.
Tensor convertTensor(const Tensor& t, DType dtype);
// The same, unless reading the elements into the compute type of `dtype` rounds them as a conversion to `dtype` would.
Tensor convertedFor(const Tensor& t, DType dtype);
// A tensor without dimensions that holds a number: bool, int64, float64 or complex128.
Tensor scalarTensor(const IValue& number);
// A tensor without dimensions that holds a number as an element of a dtype; fails if it does not fit.
Tensor elementOf(const IValue& number, DType dtype);
// The element of a tensor that has one, as a number.
IValue numberOf(const Tensor& t);
// Sets every element to a number; fails if it does not fit.
void fillTensor(const Tensor& t, const IValue& number);

}  // namespace tscompile
