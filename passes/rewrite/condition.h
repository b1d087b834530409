// Conditions of rules: `rank(%x) == 2 and dtype(%x) in {f32, f64} and %alpha == 1`.
#pragma once

#include "passes/rewrite/pattern.h"

#include <string_view>

namespace tscompile {

// What is not known does not hold.
struct Condition {
  Pattern::MatchPredicate holds, isKnown;
};

// Of values: dtype(%x) (f32, i64, bool ...), rank(%x), numel(%x), size(%x, -1), floating(%x), integral(%x) (bool
// counts), complex(%x), constant(%x), none(%x), uses(%x), length(%list), same_shape(%x, %y), same_numel(%x, %y),
// written(%x), scope(%x, "layer1.conv") (the node that makes it is of that part of the model); %x itself is the value
// of a number, string, flag or list that is known. Of memory: unseen(%y), whether the tensor may be laid out otherwise,
// and may_replace(%x, %y), whether %x may take the place of %y, which would have been a tensor of its own
// (GraphFacts::isUnseen and mayReplace).
//
// What is not known makes a condition false, `not` included. `at` is where the text begins, for messages. Names must be
// those of the pattern.
Result<Condition> parseCondition(std::string_view text, SourceRange at, const Pattern& pattern,
                                 Diagnostics& diagnostics);

}  // namespace tscompile
