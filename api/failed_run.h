// What a run that failed leaves in the attributes of a module that keeps state.
#pragma once

#include "runtime/call/run_context.h"
#include "runtime/interpreter/program.h"

#include <span>

namespace tscompile {

struct ModuleState;

// Lowered graphs set attributes at their end, which a run that failed has not come to. Where that is all that the graph
// leaves, this runs the method that it was lowered from, which sets them in its order and fails at the same place.
void setUntilFailure(const ModuleState& state, const Program& program, std::span<const IValue> inputs,
                     const RunOptions& options);

}  // namespace tscompile
