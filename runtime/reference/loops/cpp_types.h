// The element types of dtypes in C++, as PyTorch's messages name them.
#pragma once

#include "ir/values/dtype.h"

#include <string_view>

namespace tscompile {

// The name of the type in C++, which some of PyTorch's messages have.
std::string_view cppName(DType dtype);

// The error that a number is none of a dtype, in PyTorch's words.
[[noreturn]] void refuseOverflow(DType dtype);

}  // namespace tscompile
