// Examples of inputs of which a text tells nothing.
#pragma once

#include "api/module.h"

#include <string>

namespace tscompile {

// Sizes and dtype, "1x3x224x224:f32", of the first usual kind of tensor whose rank and dtype all nodes of the method
// can take for this input, with sizes that they can take where those are found; "" if there is none.
std::string likelySizes(const Module& module, const std::string& method, const std::string& input);

}  // namespace tscompile
