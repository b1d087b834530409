// Whether what follows from positions and numbers of tokens alone is the same for a token however many come after it:
// only then is it right for tokens that come piece by piece.
#pragma once

#include "passes/serving/small_instance.h"

#include <unordered_set>

namespace tscompile {

struct TextLengthFindings {
  // What nodes of texts read, and is other in long texts.
  std::unordered_set<const Value*> changing;
};

// `positions`: the input [batch, tokens]; `ids`: the other; `longest`: tokens of a text.
TextLengthFindings findTextLengths(RewriteContext& context, const Value* ids, const Value* positions, int64_t longest);

}  // namespace tscompile
