// Trees of outputs: the containers that a program's results come in.
#pragma once

#include "frontend/export/export_builder.h"

#include <span>

namespace tscompile::exported {

// The value that a model returns whose leaves are these, by the `out_spec` of the file: a JSON text in a string. Dicts
// whose values have different types become named tuples. `namedTuples` has the fields of those by their types' names.
// Null after a report.
Value* buildOutput(ExportBuilder& builder, Json spec, Json namedTuples, std::span<Value* const> leaves);

}  // namespace tscompile::exported
