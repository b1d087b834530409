// Tensors as the value grammar writes them: `1x3x224x224:f32:randn(seed=0)`, `2x2:f32=[1 2; 3 4]`, `scalar:i64=7`. The
// grammar is in docs/values.md.
#pragma once

#include "frontend/files/text_cursor.h"
#include "ir/support/limits.h"
#include "ir/values/tensor.h"

#include <string>

namespace tscompile {

// Whether a tensor begins here: a shape and a colon.
bool startsTensor(const TextCursor& cursor);
// Reads one; false after a report. Nothing is allocated that is larger than limits.generatedBytes or than its literal.
bool readTensorText(TextCursor& cursor, const Limits& limits, Tensor& out);

// The tensor as a literal, exact to the last bit but for the bits of NaNs.
void appendTensorText(const Tensor& tensor, std::string& out);

}  // namespace tscompile
