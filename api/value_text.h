// Values as the command line writes them: `3`, `[1, 2]`, `@x.npy`, `1x3x224x224:f32:randn(seed=0)`, `2x2:f32=[1 2; 3
// 4]`. The grammar is in docs/values.md.
#pragma once

#include "ir/support/diagnostics.h"
#include "ir/support/limits.h"
#include "ir/support/result.h"
#include "ir/values/ivalue.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

class Graph;

// Reads one value. `what` names it in messages ("--input x"). `expected` (may be null) gives empty lists and dicts
// their element types, and makes an integer a float where a float is expected.
Result<IValue> parseValueText(std::string_view text, std::string_view what, Diagnostics& diagnostics,
                              TypePtr expected = nullptr, const Limits& limits = {});

// The value in the same grammar, exact to the last bit; tensors in full. For golden files and small tensors.
std::string valueToText(const IValue& value);

// What inputs are where a caller leaves them out, as engine files keep it: "scale=1.5" for each of these that the graph
// has; numbers, texts, None and lists of them.
std::vector<std::string> defaultTexts(const std::map<std::string, IValue>& defaults, const Graph& graph);
// The same back. Nothing if a text is not such a value of an input of the graph: files are not read for one.
std::optional<std::map<std::string, IValue>> defaultsFromTexts(const std::vector<std::string>& texts,
                                                               const Graph& graph);

}  // namespace tscompile
