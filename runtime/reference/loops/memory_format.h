// Orders of dimensions in memory: PyTorch's memory formats, and the strides that copies of a tensor get.
#pragma once

#include "ir/values/tensor.h"

namespace tscompile {

// With PyTorch's numbers, as graphs have them.
enum class MemoryFormat : uint8_t { Contiguous = 0, Preserve = 1, ChannelsLast = 2, ChannelsLast3d = 3 };

// Row-major strides, or those with the channels innermost; fails if the rank is wrong. Not for Preserve.
Dims formatStrides(DimSpan sizes, MemoryFormat format);
bool isContiguousIn(const Tensor& t, MemoryFormat format);
// The format that the strides of a tensor look like: row-major if in doubt.
MemoryFormat suggestedFormat(const Tensor& t);

// Dense strides with the dimensions in the order of the given ones.
Dims denseStrides(DimSpan sizes, DimSpan strides);
// Those of a tensor if they are dense, else dense ones in their order.
Dims preservedStrides(const Tensor& t);
// Memory for a tensor like `t`. Preserve: with its strides if they are dense, else in their order.
Tensor emptyLike(const Tensor& t, DType dtype, MemoryFormat format = MemoryFormat::Preserve);

// The dimensions 0 ... rank - 1, innermost first, as PyTorch sorts them: by insertion from the last to the first;
// compare(a, b) is negative if a belongs inside of b, positive if outside, 0 if it does not matter.
template <class Compare>
Dims sortDimensions(size_t rank, Compare compare) {
  Dims order(rank);
  for (size_t i = 0; i < rank; ++i) order[i] = static_cast<int64_t>(rank - 1 - i);
  for (size_t i = 1; i < rank; ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      int c = compare(order[j], order[at]);
      if (c < 0) break;
      if (c == 0) continue;
      std::swap(order[j], order[at]);
      at = j;
    }
  }
  return order;
}

}  // namespace tscompile
