// Tensors in tuples, lists and dicts that are attributes of a model: weights files keep them by the places that they
// have in there ("table.0", "table.1.2"), and None in their place in the text of the attribute.
#pragma once

#include "frontend/files/weights.h"
#include "ir/values/ivalue.h"

#include <string>
#include <utility>
#include <vector>

namespace tscompile {

// The value without its tensors, which are appended to `data`.
IValue withoutTensors(const IValue& value, const std::string& path, std::vector<std::pair<std::string, Tensor>>& data);

// The value that withoutTensors() had, as one that runs share.
IValue withTensors(const IValue& value, const std::string& path, Weights& weights);

}  // namespace tscompile
