// The values of prim::Constant nodes: what the text says, or the data that was supplied for it.
#pragma once

#include "ir/graph/node.h"
#include "ir/support/diagnostics.h"
#include "runtime/interpreter/program.h"

namespace tscompile {

// Reports what the text does not hold.
IValue constantValue(const Node* node, const ProgramSources& sources, Diagnostics& diagnostics);

}  // namespace tscompile
