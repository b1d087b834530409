// Views of tensors: the same memory with other sizes and strides, which are PyTorch's exactly. Arguments are valid;
// dimensions count from the front.
#pragma once

#include "ir/values/tensor.h"

#include <optional>

namespace tscompile {

// Another tensor over the same memory.
Tensor aliased(const Tensor& t);
Tensor unsqueezed(const Tensor& t, int64_t dim);
Tensor squeezedAt(const Tensor& t, int64_t dim);  // whose size is 1
Tensor squeezed(const Tensor& t);                 // all sizes of 1
Tensor transposed(const Tensor& t, int64_t a, int64_t b);
Tensor narrowed(const Tensor& t, int64_t dim, int64_t start, int64_t length, int64_t step = 1);
Tensor selected(const Tensor& t, int64_t dim, int64_t index);
// The elements whose indices in two dimensions differ by `offset`, as a new last dimension.
Tensor diagonalOf(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2);
// Windows of `size` elements, every `step`, as a new last dimension.
Tensor unfolded(const Tensor& t, int64_t dim, int64_t size, int64_t step);
// Broadcast to `sizes`, which has at least as many dimensions.
Tensor expandedTo(const Tensor& t, DimSpan sizes);
// The strides that let the same memory be seen with other sizes of the same number of elements, if any do.
std::optional<Dims> viewStrides(const Tensor& t, DimSpan sizes);
// The same of memory that is seen with the sizes `have` and the strides `lie`.
std::optional<Dims> viewStrides(DimSpan have, DimSpan lie, DimSpan sizes);
// The tensor with other sizes: a view if possible, else a copy.
Tensor reshaped(const Tensor& t, DimSpan sizes);

}  // namespace tscompile
