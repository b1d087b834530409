// Makes of a causal model of whole texts one that goes on where it stopped: it takes the tokens that are new, and what
// was kept of those before. Nothing is asked of the model but that rows of it can be computed from few others: those of
// the same tokens, of some tokens before them, a state, or what was kept of all tokens (keys and values, say).
#pragma once

#include "passes/serving/entrance.h"

#include <memory>

namespace tscompile {

// What is kept of a text.
struct KeptState {
  DType dtype = DType::Float32;
  Dims sizes;          // before the first token: nothing, with 0 along `dim`
  int64_t dim = 0;     // along which it grows
  int64_t most = 0;    // rows along it; 0: one for each token
  int64_t batch = -1;  // along which those of several texts lie beside each other; -1: they do not
  bool operator==(const KeptState&) const = default;
};

struct IncrementalModel {
  // Takes the inputs of the entrance, of the new tokens alone, and the states; gives the logits of the new tokens, or
  // of the last one, and the states after them. Where all states have a dimension for it, of several texts as well.
  std::unique_ptr<Graph> graph;
  std::vector<KeptState> states;
};

// `words`: of the vocabulary; `longest`: tokens of a text. Reports the node that stands against it (Unsupported).
Result<IncrementalModel> makeIncremental(const Graph& graph, const OpRegistry& registry, Evaluator& evaluator,
                                         const Entrance& entrance, int64_t words, int64_t longest,
                                         Diagnostics& diagnostics);

}  // namespace tscompile
