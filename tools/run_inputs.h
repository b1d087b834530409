// The inputs of a run, as --input gives them.
#pragma once

#include "api/input_range.h"
#include "api/module.h"
#include "tools/session.h"

#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Reads NAME=VALUE for every input, in order. Tensors that are not given are filled with seeded random numbers if
// `shapes` has their sizes. Fails after reporting files that are wrong; throws UsageError for what is missing or does
// not fit.
Result<std::vector<IValue>> readInputs(const std::vector<ValueInfo>& wanted, const std::vector<std::string>& texts,
                                       Session& session, std::span<const InputRange> shapes = {});

}  // namespace tscompile
