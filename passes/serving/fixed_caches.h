// Attention over caches of a fixed length becomes attention over the tokens of a text.
#pragma once

#include "ir/support/result.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {

// Keys and values that a text puts at its own places of a tensor are read as they are, if attention sees no other
// places of it:
//   c = index_copy(cache, 2, arange(t), k); softmax(q @ c^T + mask) @ ..  ->  softmax(q @ k^T + mask[.., :t]) @ ..
// `ids` and `positions`, [batch, tokens], become inputs of one text. How many tokens have places; 0: there are no such
// tensors. What is read otherwise is reported, and the graph stays as it is.
Result<int64_t> readNewTokens(RewriteContext& context, Value* ids, Value* positions);

// How many places the longest tensor has that is written at places of one of its dimensions; 0 if there is none.
int64_t placesInCaches(const Graph& graph);

// The largest number by which a graph counts places round, as those of a ring are; 0 if there is none.
int64_t longestRing(const Graph& graph);

}  // namespace tscompile
