// Writes that nobody else can notice while a graph runs: into inputs of the graph that no other node reads.
#pragma once

#include "ir/graph/node.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// Whether all that the node writes are inputs of its graph, each used by this node alone and once, by an operator with
// a converter of its own. Such a node may stand in an engine, which is free to order and fuse the others.
bool writesPrivately(const Node& node, const Operator& op);

// Whether all writes of the graph, blocks inside included, are of that kind.
bool hasOnlyPrivateWrites(const Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
