// What an exported program asks of the sizes of its inputs.
#pragma once

#include "api/module.h"
#include "frontend/export/program.h"

#include <span>
#include <vector>

namespace tscompile {

// Reports (as Model) inputs that the program was not exported for: sizes outside of their bounds, and sizes that differ
// though they stand for one symbol. `values` are as many as `inputs`.
bool checkExportedSizes(std::span<const ExportedInput> sizes, std::span<const ValueInfo> inputs,
                        std::span<const IValue> values, Diagnostics& diagnostics);

}  // namespace tscompile
