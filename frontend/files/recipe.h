// Weights recipes: text that says how to make tensors instead of holding them, one `name = 64x3:f32:randn(seed=1)` a
// line, `#` for comments. The grammar is in docs/values.md.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/values/tensor.h"

#include <string>
#include <utility>
#include <vector>

namespace tscompile {

// The tensors of a recipe in its order. All of them together may have limits.generatedBytes.
Result<std::vector<std::pair<std::string, Tensor>>> parseRecipe(SourcePtr source, Diagnostics& diagnostics,
                                                                const Limits& limits);

}  // namespace tscompile
