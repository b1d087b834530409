// Models that were saved in training mode, which nobody wants to serve.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

namespace tscompile {

// Warns of nodes that do what is of training: those that drop values, and those that normalize by the batch though
// there are statistics.
void warnOfTraining(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics);

}  // namespace tscompile
