// Whether what follows from positions and numbers of tokens alone is the same for a token however many come after it:
// only then is it right for tokens that come piece by piece.
#pragma once

#include "passes/serving/small_instance.h"

#include <unordered_set>

namespace tscompile {

struct TextLengthFindings {
  // What nodes of texts read, and is other in long texts.
  std::unordered_set<const Value*> changing;
  // A branch or a loop that is chosen by what all tokens are, or by how many there are; null: there is none.
  const Node* choice = nullptr;
  // A branch that is chosen by how many tokens there are, if there is more than one.
  const Node* byLength = nullptr;
};

// `positions`: the input [batch, tokens]; `ids`: the other; `longest`: tokens of a text; `most`: of all those of a
// step.
TextLengthFindings findTextLengths(RewriteContext& context, const Value* ids, const Value* positions, int64_t longest,
                                   int64_t most);

// Questions whether there is more than one token, or whether there are more than any text has, are answered as texts of
// several tokens do. True if there were any.
bool answerForTexts(RewriteContext& context, const Value* positions, int64_t longest);

// Answers as many questions as can be answered so, one after what the other has decided, and leaves the branches that
// are taken.
void answerQuestions(RewriteContext& context, const Value* positions, int64_t longest);

}  // namespace tscompile
