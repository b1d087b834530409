// Models that choose the last tokens of a text before they make logits of them: `self.head(self.norm(x[:, -1:]))`.
#pragma once

#include "passes/serving/small_instance.h"

namespace tscompile {

// What only chooses tokens or names dimensions: the tensor [batch, tokens, width] whose last tokens, or all tokens, `v`
// has in its rows; else null.
Value* withAllTokens(Value* v, const SmallInstance& small, GraphFacts& facts);

// Where all that the graph's one output is made of are last tokens, chosen from tensors of all of them: it is made of
// all tokens, [batch, tokens, words], if what comes in between gives sizes for these. Whether it gives each token
// something of that token alone is for others to prove.
void makeOfAllTokens(RewriteContext& context, const Value* positions);

}  // namespace tscompile
