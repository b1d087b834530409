// What `with torch.autocast(...)` means in TorchScript: operators inside convert their inputs.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// Whether a region of autocast begins in the graph.
bool entersAutocast(const Graph& graph);

// Inserts the conversions of regions on the CPU, where PyTorch does when it first runs a graph: after its calls were
// inlined, so that what is called inside of a region is in it. Regions of other devices convert nothing here.
bool castInRegions(Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
