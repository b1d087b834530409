// Conditions of rules: `rank(%x) == 2 and dtype(%x) in {f32, f64} and %alpha == 1`.
#pragma once

#include "passes/rewrite/pattern.h"

#include <string_view>

namespace tscompile {

// What is not known makes a condition false, `not` included. `at` is where the text begins, for messages. Names must be
// those of the pattern.
Result<Pattern::MatchPredicate> parseCondition(std::string_view text, SourceRange at, const Pattern& pattern,
                                               Diagnostics& diagnostics);

}  // namespace tscompile
