// What a model hides of later tokens if it is given one at a time.
#pragma once

#include "ir/graph/evaluator.h"
#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// A token that comes alone sees all tokens before it, and none after it. Of a graph of whole texts that was made of one
// for single tokens, each attention of tokens to tokens hides later ones. False if there is none.
bool hideLaterTokens(Graph& graph, const OpRegistry& registry, Evaluator& evaluator);

}  // namespace tscompile
