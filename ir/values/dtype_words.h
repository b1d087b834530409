// What dtypes are called elsewhere.
#pragma once

#include "ir/values/dtype.h"

#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

// "half", "fp16", "long" of PyTorch, C and other tools; names that are ours are not among them.
std::optional<DType> dtypeFromForeignName(std::string_view word);
// The name of the dtype that a word is meant for, which is called so elsewhere or misspelt; empty if there is none.
std::string dtypeMeantBy(std::string_view word);

}  // namespace tscompile
