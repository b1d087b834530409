// What an exported program asks of the sizes of its inputs.
#pragma once

#include "api/input_range.h"
#include "api/module.h"
#include "frontend/export/exported_input.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// Reports (as Model) inputs that the program was not exported for: sizes outside of their bounds, and sizes that differ
// though they stand for one symbol. `values` are as many as `inputs`.
bool checkExportedSizes(std::span<const ExportedInput> sizes, std::span<const ValueInfo> inputs,
                        std::span<const IValue> values, Diagnostics& diagnostics);
// Reports (as Input) ranges that go beyond what the program was exported for.
bool checkExportedRanges(std::span<const ExportedInput> sizes, std::span<const InputRange> ranges,
                         Diagnostics& diagnostics);

// As engine files keep them, as JSON.
std::string exportedInputJson(const ExportedInput& input);
std::optional<ExportedInput> parseExportedInput(std::string_view json);
// "x=s0[0..9]x2", of a tensor in a container "x.0=2x3".
std::string exportedInputText(const ExportedInput& input);

}  // namespace tscompile
