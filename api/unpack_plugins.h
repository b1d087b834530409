// Plugins as graphs: nodes of plugins become what they decompose into.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

#include <optional>

namespace tscompile {

// Replaces each node of a plugin that has a decomposition by it, in all blocks, and returns how many it were. Dtypes
// and ranks of the inputs must be known from the types of the graph's inputs on: where they are not, a warning tells
// it, and the node stays, as those without a decomposition do. Nothing after reporting an error: a plugin that cannot
// be made from its node, or that says that it has no decomposition for it.
std::optional<size_t> unpackPlugins(Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics);

}  // namespace tscompile
