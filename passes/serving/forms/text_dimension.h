// Graphs of one text: ids [tokens], without a dimension for texts.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// The graph takes ids, a mask and positions [1, tokens], and returns logits with a 1 in front. False if its inputs are
// other ones, or known to have another form, or for one token a call; it is then as it was.
bool addTextDimension(Graph& graph, const OpRegistry& registry);

// Whether the inputs say that they have no dimension for texts.
bool lacksTextDimension(const Graph& graph);

}  // namespace tscompile
