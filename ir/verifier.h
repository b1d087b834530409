// Every invariant of a graph that its text cannot be trusted to keep.
#pragma once

#include "ir/graph.h"
#include "ir/op_registry.h"
#include "ir/support/diagnostics.h"

namespace tscompile {

// Reports each violation at its node; false if there was one. Checked are: definitions before uses and inside the scope
// of their block; blocks, parameters and results of If and Loop; types of conditions, trip counts, block results;
// inputs and outputs of nodes against the schema that their inputs select, and of the structural prim:: nodes; links of
// the graph's own lists. Operators that nobody knows are left to those who need them.
bool verify(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics);

}  // namespace tscompile
