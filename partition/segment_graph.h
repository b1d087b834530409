// One segment as a graph of its own, with the names that its values have in the source.
#pragma once

#include "partition/partition.h"

#include <memory>

namespace tscompile {

// Constants, and attributes with the module that they are read from, stand in front of the nodes that use them.
// Tensors are shared with the source.
std::unique_ptr<Graph> segmentGraph(const Segment& segment, const Partition& partition);

// A hash of what a graph computes: kinds, types, attributes, the data of constants, and how values are connected; not
// of names, except those of constants whose data is supplied elsewhere. 16 hexadecimal digits.
std::string contentHash(const Graph& graph);

}  // namespace tscompile
