// The values of prim::Constant nodes: what the text says, or the data that was supplied for it.
#pragma once

#include "ir/node.h"
#include "ir/support/diagnostics.h"
#include "runtime/program.h"

namespace tscompile {

// Reports what the text does not hold. `supplied` (may be null) is data by value name.
IValue constantValue(const Node* node, const std::unordered_map<std::string, IValue>* supplied,
                     Diagnostics& diagnostics);

}  // namespace tscompile
