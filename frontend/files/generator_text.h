// The rule of a generated tensor as the value grammar writes it: `randn(seed=7)`, `uniform(-1,1)`, `zeros`.
#pragma once

#include "frontend/files/tensor_generator.h"
#include "frontend/files/text_cursor.h"
#include "ir/support/limits.h"

namespace tscompile {

// Reads one; false after a report.
bool readGenerator(TextCursor& cursor, const Limits& limits, TensorGenerator& out);

}  // namespace tscompile
