// Which of the tensors that a model returns is which state of the next call.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "passes/serving/states/given_states.h"

#include <vector>

namespace tscompile {

// What a graph returns beside its logits, and which of it is for one of the states: by its key, or by the order of
// those that it returns last; null: nothing.
std::vector<ReturnedTensor> returnedBesideLogits(const Graph& graph);
const ReturnedTensor* returnedOf(const std::vector<ReturnedTensor>& returned, const std::vector<GivenState>& states,
                                 size_t i);

// Makes a graph return its logits and what is for each of these states alone, in their order: by keys, else those from
// `first` on. False if it returns fewer.
bool returnStates(Graph& graph, const std::vector<GivenState>& states, size_t first);

// Reports a state of a graph for one token for which it returns more tensors of its form, beside logits, than it is
// given: nothing tells which of them is for the next call. False if there is one.
bool checkReturned(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics);

// Reports a cache of a program that is for so many tokens alone, and gives back more of them. False if there is one.
bool checkGrowth(const Graph& graph, Diagnostics& diagnostics);

// Writes the sizes of states into the types of what is returned for them, where these calls all return such: for a
// number of tokens that is not known (`x[:, -1:]`) the propagation cannot tell.
void typeReturned(const Graph& graph, const OpRegistry& registry, const std::vector<ShapeOptions>& calls,
                  const std::vector<GivenState>& states);

}  // namespace tscompile
