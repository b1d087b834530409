// The entrance of a language model: what its inputs stand for, and which of what it returns are its logits.
#pragma once

#include "ir/graph/evaluator.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/values/ivalue.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

enum class ServingInput : uint8_t {
  Ids,        // [batch, tokens]
  Positions,  // of the tokens in their texts, from 0
  Mask,       // which tokens are texts: all of them
};

// "input_ids", "position_ids", "attention_mask".
std::string_view nameOf(ServingInput input);
std::optional<ServingInput> servingInputNamed(std::string_view name);

struct Entrance {
  std::vector<ServingInput> inputs;  // in the order of the model's
  std::vector<DType> dtypes;         // of the same, where they are told
  std::vector<std::string> names;    // as the model calls them
  std::vector<bool> isNamed;         // whether these names say what they are; else it is their use
  int64_t positions = 0;             // that its tables have rows for; 0: any number
  bool tokensFirst = false;          // it takes [tokens, batch]
  std::vector<int64_t> marked;       // ids that it compares its own with
  int64_t words = 0;                 // rows of the table that ids choose from; 0: not known
};

// Makes of any model one of the form (input_ids, position_ids [batch, tokens]) -> logits: masks become ones, positions
// that the graph counts by itself become the input, of tuples and dictionaries the logits alone are returned. The
// inputs of a graph that runs with one text alone are [1, tokens]. What follows from positions is right then if they
// are the same in all rows of a batch. A report if an input is none of these.
Result<Entrance> openEntrance(Graph& graph, const OpRegistry& registry, Evaluator& evaluator, Diagnostics& diagnostics);

// Of a graph of ids, a mask and positions, which are told by their names alone.
Entrance entranceByNames(const Graph& graph, bool tokensFirst);

// The tensor of logits among what the graph returns, by the same rules; null if there is none.
Value* logitsOf(const Graph& graph);

// A tensor for one of its inputs.
Tensor inputOf(const Entrance& entrance, size_t input, const Dims& sizes, std::span<const int64_t> numbers);

// What a model takes for one text: [1, tokens] each, or [tokens, 1].
std::vector<IValue> inputsOfText(const Entrance& entrance, std::span<const int32_t> ids);

// The logits among what a model returned: those of this name in a dictionary, the first of several values; undefined if
// that is no tensor.
Tensor logitsOf(const std::vector<IValue>& outputs);

}  // namespace tscompile
