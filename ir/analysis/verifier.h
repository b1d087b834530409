// Every invariant of a graph that its text cannot be trusted to keep.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

namespace tscompile {

// Reports each violation at its node; false if there was one. Checked are: definitions before uses and inside the scope
// of their block; blocks, parameters and results of If and Loop; types of conditions, trip counts, block results;
// inputs and outputs of nodes against the schema that their inputs select, and of the structural prim:: nodes; links of
// the graph's own lists. Operators that nobody knows are left to those who need them.
bool verify(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics);

// Checks one node by itself: its inputs are defined where it stands, and it has the form that its kind asks for. The
// nodes inside its blocks are not looked at.
bool verifyNode(const Node& node, const OpRegistry& registry, Diagnostics& diagnostics);

// Whether the value may be used by the node.
bool dominates(const Value* value, const Node* user);

}  // namespace tscompile
