// Calls of a model with inputs that are made up, by what their names say they are.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/values/ivalue.h"

#include <functional>
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
};

// `before`: tokens of calls before; kUnknownSize: any number.
Dims sizesOfInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before);

// Zeros, ones for a mask, and places from `before` on: what is written at one place for all tokens hides them.
Tensor exampleInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before = 0);

// Ids, positions, masks and attributes.
ShapeOptions knownOfCall(const Graph& graph, const CallForms& forms, int64_t texts, int64_t tokens);

}  // namespace tscompile
