// What segments take and give, and what engines compute once more.
#pragma once

#include "partition/borders.h"

namespace tscompile {

// Fills in recomputed, inputs and outputs of all segments; the nodes and their decisions are there.
void findBorders(const Graph& graph, const Rematerialization& recomputing, Partition& partition);

}  // namespace tscompile
