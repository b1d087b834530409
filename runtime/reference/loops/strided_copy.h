// Moves elements between two layouts without looking at them.
#pragma once

#include "ir/values/tensor.h"

#include <cstddef>

namespace tscompile {

// Copies elements of `item` bytes (1, 2, 4, 8 or 16). Strides are in bytes and may be 0 on the reading side. The memory
// read and the memory written do not overlap. Where their orders disagree, small blocks are turned one by one.
void copyStrided(size_t item, DimSpan sizes, std::byte* to, DimSpan toStrides, const std::byte* from,
                 DimSpan fromStrides);

}  // namespace tscompile
