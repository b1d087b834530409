// Values as the command line writes them: `3`, `[1, 2]`, `@x.npy`, `1x3x224x224:f32:randn(seed=0)`, `2x2:f32=[1 2; 3
// 4]`. The grammar is in docs/values.md.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/values/ivalue.h"

#include <string>
#include <string_view>

namespace tscompile {

// Reads one value. `what` names it in messages ("--input x"). `expected` (may be null) gives empty lists and dicts
// their element types, and makes an integer a float where a float is expected.
Result<IValue> parseValueText(std::string_view text, std::string_view what, Diagnostics& diagnostics,
                              TypePtr expected = nullptr, const Limits& limits = {});

// The value in the same grammar, exact to the last bit; tensors in full. For golden files and small tensors.
std::string valueToText(const IValue& value);

}  // namespace tscompile
