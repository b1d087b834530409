// How tensors lie in memory, as far as a graph tells.
#pragma once

#include "passes/rewrite/facts.h"

namespace tscompile {

// Makes memory of its own.
inline const Symbol kOwnMemory = Symbol::of("aten::clone");

// Whether the elements of a tensor lie in memory without gaps and in the order of its dimensions, if those of the
// graph's inputs do (GraphFacts::inputsLieInOrder): then a view of it is what aten::reshape gives.
bool liesInOrder(const Value* tensor, GraphFacts& facts);
// Whether those of new memory that is laid out as the tensor do, which has no gaps: what is computed from it element by
// element.
bool likeLiesInOrder(const Value* tensor, GraphFacts& facts);

// Views of some elements, or of some several times, in the order of their first argument: there are gaps, but what is
// computed from them has none.
bool leavesGaps(const Node* view);

// Views of all elements in their order with other sizes, where these lie in it: others are copies, or raise.
bool changesSizesAlone(const Node* view);

}  // namespace tscompile
