// What a model is given beside its tokens, and gives back for the next ones.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "passes/serving/input_roles.h"

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

// What trials say of states: WrongAtAnyLength would be wrong with other numbers of places as well.
enum class StateVerdict : uint8_t { Right, Wrong, WrongAtAnyLength };
constexpr int64_t kLeastPlaces = 3;  // whatever fits 1 is repeated

// All inputs but ids, masks and positions, whose names say so or which are `ids`; nothing if some of them are no
// tensors.
std::optional<std::vector<GivenState>> givenStates(const Graph& graph, const Value* ids);

// The input of another form of the graph; null if that has none of this name.
const Value* sameInput(const Graph& other, const Value& input);
// The states of another form of the graph, with the same sizes and dtypes.
std::optional<std::vector<GivenState>> statesIn(const Graph& graph, const Value& ids,
                                                const std::vector<GivenState>& sized);

// What is known of the graph's inputs and attributes, and of these states.
ShapeOptions withStates(const Graph& graph, const ShapeOptions& others, const std::vector<GivenState>& states);

}  // namespace tscompile
