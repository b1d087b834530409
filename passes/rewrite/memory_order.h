// How tensors lie in memory, as far as a graph tells.
#pragma once

#include "passes/rewrite/facts.h"

namespace tscompile {

// Whether the elements of a tensor lie in memory without gaps and in the order of its dimensions, if those of the
// graph's inputs do (GraphFacts::inputsLieInOrder): then a view of it is what aten::reshape gives.
bool liesInOrder(const Value* tensor, GraphFacts& facts);

}  // namespace tscompile
