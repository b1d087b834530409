// Sizes of what a model is given beside its tokens, and gives back for the next ones: states and caches of a trace or a
// script, whose sizes are in no file.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "passes/serving/input_roles.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// A tensor that calls are given: an input, or what takes it out of a list, tuple or dict of them.
struct GivenState {
  std::vector<const Value*> taken;
  std::string key = {};  // of the dict that held it
  DType dtype = DType::Float32;
  Dims sizes = {};       // kUnknownSize: it grows by the tokens of each call
  bool isRanked = true;  // else nothing is known of it
  int placeDim = -1;     // that anything fits, and which is given places; -1: none
};

// All inputs but ids, masks and positions, whose names say so or which are `ids`; nothing if some of them are no
// tensors.
std::optional<std::vector<GivenState>> givenStates(const Graph& graph, const Value* ids);

// What is known of the graph's inputs and attributes, and of these states.
ShapeOptions withStates(const Graph& graph, const ShapeOptions& others, const std::vector<GivenState>& states);

// What a graph returns beside its logits, and which of it is for one of the states: by its key, or by the order of
// those that it returns last; null: nothing.
std::vector<ReturnedTensor> returnedBesideLogits(const Graph& graph);
const ReturnedTensor* returnedOf(const std::vector<ReturnedTensor>& returned, const std::vector<GivenState>& states,
                                 size_t i);

// Reports a state of a graph for one token for which it returns more tensors of its form, beside logits, than it is
// given: nothing tells which of them is for the next call. False if there is one.
bool checkReturned(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics);

// Writes the sizes of states into the types of what is returned for them, where these calls all return such: for a
// number of tokens that is not known (`x[:, -1:]`) the propagation cannot tell.
void typeReturned(const Graph& graph, const OpRegistry& registry, const std::vector<ShapeOptions>& calls,
                  const std::vector<GivenState>& states);

// Looks for sizes with which nothing conflicts, which what is returned has as well, and which are accepted. `others`
// knows ids of `tokens` tokens. Sizes that anything fits are one of `places`, the first that is accepted. Nothing if
// there are none.
std::optional<std::vector<GivenState>> findStateSizes(
    const Graph& graph, const OpRegistry& registry, const ShapeOptions& others, int64_t tokens,
    const std::vector<int64_t>& places, std::vector<GivenState> states,
    const std::function<bool(const std::vector<GivenState>& states)>& accepts);

}  // namespace tscompile
