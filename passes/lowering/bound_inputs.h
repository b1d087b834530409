// Inputs whose values are known for good, which lowering makes constants.
#pragma once

#include <string>
#include <string_view>

namespace tscompile {

// Arguments of rewrites that hold the value of input %NAME are called "bind:NAME".
inline constexpr std::string_view kBoundInput = "bind:";
inline std::string boundInput(std::string_view name) { return std::string(kBoundInput).append(name); }

}  // namespace tscompile
