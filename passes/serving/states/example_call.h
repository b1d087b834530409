// Calls of a model with inputs that are made up, by what their names say they are.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/values/ivalue.h"
#include "passes/serving/masks/mask_use.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <vector>

namespace tscompile {

// What the model, or the graph that it became if one is given, returns; nothing if it does not run.
using RunExample = std::function<std::vector<IValue>(const std::vector<IValue>& inputs, const Graph* changed)>;

// What a dimension of an input is made for: texts and tokens, these and those of calls before, or places of a cache.
enum class CallPart : uint8_t { Text, One, Token, Place, TokenOrBefore };
using CallForm = std::vector<CallPart>;
struct CallForms {
  CallForm positions, mask;
  int64_t places;
  CallForm ids = {CallPart::Text, CallPart::Token};
  MaskUse use = {MaskUse::Kind::Shown, DType::Int64};

  bool areOfPlaces() const { return std::ranges::find(mask, CallPart::Place) != mask.end(); }
};

// `before`: tokens of calls before; kUnknownSize: any number.
Dims sizesOfInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before);

// Zeros, a mask that shows what is before each token, and places from `before` on: what is written at one place for all
// tokens hides them.
Tensor exampleInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before = 0);

// Of a graph that runs with positions of a text, [texts, tokens]: whether a row of them is meant, [tokens], with which
// it says something else, since its numbers alone count, or it alone hides later tokens. Nothing if that is so of both.
std::optional<bool> takesRow(const Graph& graph, const RunExample& run, const Graph* changed, CallForms forms);

// Ids, positions, masks and attributes.
ShapeOptions knownOfCall(const Graph& graph, const CallForms& forms, int64_t texts, int64_t tokens);

}  // namespace tscompile
