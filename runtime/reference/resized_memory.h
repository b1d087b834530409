// Tensors that get other sizes where they lie.
#pragma once

#include "ir/values/tensor.h"

namespace tscompile {

// The elements stay where they are in memory, of which the tensor gets more if it does not suffice. Unsupported if
// others would have to see that too.
void resizeInPlace(const Tensor& t, DimSpan sizes, DimSpan strides);

}  // namespace tscompile
