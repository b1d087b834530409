// One graph again: segments for engines as nodes `tscompile::Engine`, the rest as it was.
#pragma once

#include "ir/support/diagnostics.h"
#include "partition/partition.h"

#include <memory>

namespace tscompile {

namespace sym {
inline const Symbol id = Symbol::of("id");
}  // namespace sym

// A copy of the graph in which each accelerated segment is a node `tscompile::Engine` with its graph as attribute
// "Subgraph" and its content hash as attribute "id"; nodes stand in the order of the segments, blocks inside included.
// Values keep their names.
std::unique_ptr<Graph> stitch(const Graph& graph, const Partition& partition);

// Puts what engines hold back where they stand.
void inlineEngines(Graph& graph);

}  // namespace tscompile
