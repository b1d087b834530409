// Traces and scripts that are given states and return them: what these are, which is in no file.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "passes/serving/states/example_call.h"

#include <string>

namespace tscompile {

// Looks for sizes of states that are given beside ids and come back, and writes them into the types of the graph's
// values. `places`: of caches that have any number of them. False if there are none that fit. `doubt` becomes what
// nothing tells of them: why they are refused, or what was chosen.
bool findStates(Graph& graph, const OpRegistry& registry, int64_t places, const RunExample& run, std::string& doubt);

}  // namespace tscompile
