// Operators of PyTorch by the names that they have there.
#pragma once

#include "ir/values/symbol.h"

#include <string>
#include <string_view>

namespace tscompile {

inline Symbol named(std::string_view name) { return Symbol::of("aten::" + std::string(name)); }

}  // namespace tscompile
