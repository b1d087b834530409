// Which of what a model returns are its logits, and logits of models that return what they made of them.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

#include <string>

namespace tscompile {

// Makes logits the first of what the graph returns: of several values the one that has as many numbers for each token
// as there are rows of the table that ids choose from, if the first one has not and no key says which it is. Where
// tokens are chosen of logits, or probabilities are returned, logits are returned instead; [batch, words, tokens] is
// turned. Whether the graph was changed; `choice` is then the operator that chose tokens, if there was one.
bool returnLogits(Graph& graph, const OpRegistry& registry, std::string& choice);

// Where the graph first returns `given`, it returns `made`.
void replaceReturned(Graph& graph, const Value* given, Value* made);

// What the graph returns first are probabilities: it returns their logarithms instead, which are logits.
void returnLogarithms(Graph& graph, const OpRegistry& registry);

// A node that draws random numbers for what the graph returns first; null if there is none.
const Node* randomNodeOfLogits(const Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
