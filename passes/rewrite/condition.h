// Conditions of rules: `rank(%x) == 2 and dtype(%x) in {f32, f64} and %alpha == 1`.
#pragma once

#include "passes/rewrite/pattern.h"

#include <string_view>

namespace tscompile {

// Of values: dtype(%x) (f32, i64, bool ...), rank(%x), numel(%x), size(%x, -1), floating(%x), integral(%x) (bool
// counts), complex(%x), constant(%x), none(%x), uses(%x), length(%list), same_shape(%x, %y), written(%x); %x itself is
// the value of a number, string, flag or list that is known. Of the graph: memory_seen(%x), whether some node may tell
// a tensor from another with the same elements (GraphFacts::graphLooksAtMemory).
//
// What is not known makes a condition false, `not` included. `at` is where the text begins, for messages. Names must be
// those of the pattern.
Result<Pattern::MatchPredicate> parseCondition(std::string_view text, SourceRange at, const Pattern& pattern,
                                               Diagnostics& diagnostics);

}  // namespace tscompile
