// Where a tensor is not zero.
#pragma once

#include "ir/values/tensor.h"

namespace tscompile {

// The coordinates of the elements that are not zero, in row-major order: int64, [their number, rank].
Tensor nonzeroOf(const Tensor& t);
// How many elements are true.
int64_t countTrue(const Tensor& mask);

}  // namespace tscompile
