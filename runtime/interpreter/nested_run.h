// A program as a part of a run that is under way.
#pragma once

#include "runtime/interpreter/program.h"

namespace tscompile {

// Runs the entry graph within the limits of `context`; all of its inputs are given. Throws ExecutionError, which names
// the node.
void runWithin(const Program& program, std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context);

}  // namespace tscompile
