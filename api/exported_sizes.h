// What an exported program asks of its inputs.
#pragma once

#include "api/input_range.h"
#include "api/module.h"
#include "frontend/export/exported_input.h"
#include "frontend/files/weights.h"
#include "passes/rewrite/rewrite.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// Reports (as Model) inputs that the program was not exported for: sizes outside of their bounds, sizes that differ
// though they stand for one symbol, and conditions that do not hold. `values` are as many as `inputs`.
bool checkExportedInputs(const ExportedInputs& exported, std::span<const ValueInfo> inputs,
                         std::span<const IValue> values, Diagnostics& diagnostics);
// Reports (as Input) ranges that go beyond what the program was exported for.
bool checkExportedRanges(std::span<const ExportedInput> sizes, std::span<const InputRange> ranges,
                         Diagnostics& diagnostics);

// What is left to ask where lowering takes some inputs for known ("bind:NAME" among its arguments). Nothing after
// reporting (as Input) values that the program was not exported for.
std::optional<ExportedInputs> withBoundInputs(const ExportedInputs& exported, const RewriteArguments& arguments,
                                              Diagnostics& diagnostics);

// Up to which size dimension `dim` of the input may grow from the least for which the conditions hold, its other
// dimensions being 1; at most `most`. Conditions that speak of more than the symbols of this input are left out.
int64_t mostByConditions(const ExportedInputs& exported, const ExportedInput& input, size_t dim, int64_t most);

// Reports (as Input) a tensor beside those of `names` that is to have several elements along a dimension, which theirs
// do not share: a cache that a text begins without.
bool mayBeginEmpty(const ExportedInputs& exported, std::span<const std::string> names, Diagnostics& diagnostics);

// Files of weights beside a text that was made of a program keep them as these entries, of one graph.
void writeExportedInputs(const ExportedInputs& exported, Metadata& metadata);
ExportedInputs readExportedInputs(const Metadata& metadata);

// As engine files keep them, as JSON.
std::string exportedInputJson(const ExportedInput& input);
std::optional<ExportedInput> parseExportedInput(std::string_view json);
// "x=s0[0..9]x2", of a tensor in a container "x.0=2x3".
std::string exportedInputText(const ExportedInput& input);

}  // namespace tscompile
