// Edits that several passes make.
#pragma once

#include "ir/graph/graph.h"

namespace tscompile {

// Gives all uses of a value to another one, which takes over the name if it has none.
void replaceValue(Value* old, Value* by);

// Puts the nodes of one block of a prim::If in its place and the block's results in place of its outputs.
void inlineBranch(Node* branch, size_t taken);

// Of a list or tuple that a pass writes down anew. Without a bound, sums of sums and parts of parts would grow beyond
// all measure.
constexpr size_t kMostItems = 256;

// Whether two values show the same to everybody: by bits, NaNs and zeros included; containers by what they hold. False
// where that is not known.
bool sameBits(const IValue& a, const IValue& b);
// Equal for what sameBits calls the same.
uint64_t hashOfBits(const IValue& v);

// Nodes of one kind that would compute the same from the same inputs: all attributes are equal, in any order.
bool sameAttributes(const Node& a, const Node& b);
uint64_t hashOfAttributes(const Node& n);

}  // namespace tscompile
