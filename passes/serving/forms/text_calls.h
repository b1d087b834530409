// Calls that training, images and traces have made of the calls of a text: graphs that are called as texts are.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// Losses are not returned, and inputs that nothing else is computed from (targets, labels) not taken. False if there
// are none of these; the graph is then as it was.
bool dropTargets(Graph& graph, const OpRegistry& registry);

// Inputs that are returned and used for nothing else are neither taken nor returned. False if there are none.
bool dropHandedOn(Graph& graph, const OpRegistry& registry);

// Positions [axes, batch, tokens], of images in texts, are [batch, tokens], each axis the same. Of a trace, whose
// inputs have no sizes, these are 3 axes. False if there are no such positions.
bool takeOneAxis(Graph& graph, const OpRegistry& registry);

// A trace leaves dimensions of 1 out in front of what it puts, and has the sizes of its example as numbers:
//   index_put(x, places, view(v, [2, 3, 8])) -> index_put(x, places, view(v, v.size()[-3:]))
bool putAnySizes(Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
