// What arrays of numpy are told by: the codes of their dtypes ("f4", "i8"), and an order of elements.
#pragma once

#include "ir/values/dtype.h"
#include "ir/values/shape.h"

#include <cstddef>
#include <optional>
#include <string_view>

namespace tscompile {

// Without the mark of the byte order. None for those that we do not compute with.
std::optional<DType> dtypeFromArrayCode(std::string_view code);
// "" where numpy has no such dtype: bfloat16 and floating point of 8 bits.
std::string_view arrayCode(DType dtype);
// Turns numbers of the other byte order into those of this machine.
void reverseBytes(std::byte* data, size_t bytes, DType dtype);
// Of Fortran's order.
Dims columnMajorStrides(DimSpan sizes);

}  // namespace tscompile
