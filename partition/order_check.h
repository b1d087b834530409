// Proves that partitioning kept the order of everything that must keep it.
#pragma once

#include "partition/partition.h"

#include <string>

namespace tscompile {

// Whether the segments run the graph's nodes so that each reads what it read in text order, writes and effects follow
// each other as they did, and everything is made before it is used. Nodes that touch nothing that is ever written may
// run more than once, others run once. On failure `violation` names the first two nodes that are out of order.
bool keepsOrder(const Graph& graph, const OpRegistry& registry, const Partition& partition, std::string& violation);

// The same of a stitched graph, whose nodes are known by the names of their values.
bool keepsOrder(const Graph& graph, const OpRegistry& registry, const Graph& stitched, std::string& violation);

}  // namespace tscompile
