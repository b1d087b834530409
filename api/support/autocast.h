// Regions of autocast in the graphs of a module: what runs inside of one depends on it, so calls are inlined for it.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "passes/lowering/call_targets.h"
#include "runtime/interpreter/program.h"

namespace tscompile {

// Whether a region of autocast begins in one of the graphs that running `entry` may reach, or one of another context of
// PyTorch's is constructed whose constructor is not part of the text.
bool hasContexts(const Graph& entry, const ProgramSources& sources);

// Inlines all calls of the graph, constructs its contexts and inserts the conversions of autocast's regions. False if
// something was reported.
bool castWithCallees(Graph& graph, const CallTargets& targets, const OpRegistry& registry, Diagnostics& diagnostics);

}  // namespace tscompile
