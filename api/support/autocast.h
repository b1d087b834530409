// Regions of autocast in the graphs of a module: what runs inside of one depends on it, so calls are inlined for it.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "passes/lowering/call_targets.h"
#include "runtime/interpreter/program.h"

namespace tscompile {

// Whether a region begins in one of the graphs that running `entry` may reach.
bool entersAutocast(const Graph& entry, const ProgramSources& sources);

// Inlines all calls of the graph and inserts the conversions of its regions. False if something was reported.
bool castWithCallees(Graph& graph, const CallTargets& targets, const OpRegistry& registry, Diagnostics& diagnostics);

}  // namespace tscompile
