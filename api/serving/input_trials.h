// Whether a model treats its inputs as what they are taken for: tried out, whatever its graph looks like.
#pragma once

#include "passes/serving/entrance.h"

#include <functional>
#include <string>

namespace tscompile {

// Runs the model with texts of a few tokens, and with inputs that tell what they are from what they are not. Reports
// what fits no texts of other lengths, logits that are no numbers, positions that are no numbers of tokens, and masks
// that hide others than those of 0.
using RunModel =
    std::function<Result<std::vector<IValue>>(const std::vector<IValue>& inputs, Diagnostics& diagnostics)>;
bool tryInputs(const RunModel& model, const Entrance& entrance, Diagnostics& diagnostics);

// "ones for %attention_mask and 0, 1, .. for %position_ids"; empty if there are ids alone.
std::string givenText(const Entrance& entrance);
// Reports that the model itself gives logits that are no numbers.
void reportNoNumbers(const Entrance& entrance, int64_t tokens, Diagnostics& diagnostics);
// Whether some of them are no numbers: infinities hide tokens.
bool hasNoNumbers(const Tensor& logits);

}  // namespace tscompile
