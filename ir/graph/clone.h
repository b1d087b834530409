// Copies of graphs, blocks and nodes.
#pragma once

#include "ir/graph/graph.h"

#include <memory>
#include <unordered_map>

namespace tscompile {

// What the values of the original have become. Values that are not in it stay as they are where both graphs are the
// same.
using ValueMap = std::unordered_map<const Value*, Value*>;

// A copy that prints as the original does: names, numbers and places are kept. Subgraphs are copied, tensors are
// shared.
std::unique_ptr<Graph> cloneGraph(const Graph& graph);
// The same, and what its values have become; those of subgraphs are not told.
std::unique_ptr<Graph> cloneGraph(const Graph& graph, ValueMap& values);

// Copies a node with its blocks into `target`, not inserted. Inputs are looked up in `values`; outputs and whatever is
// defined inside are added to it. Named values get their names if those are free, else names made from them.
Node* cloneNode(const Node& node, Graph& target, ValueMap& values);

// Appends copies of all nodes of a block in front of `before`. Parameters of `from` must be in `values`. The results of
// `from` are not copied: find them in `values`.
void cloneNodesBefore(const Block& from, Node* before, ValueMap& values);

}  // namespace tscompile
