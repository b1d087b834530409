// Numbers that a dtype does not hold.
#pragma once

#include "ir/values/dtype.h"

namespace tscompile {

// In PyTorch's words.
[[noreturn]] void refuseOverflow(DType dtype);

}  // namespace tscompile
