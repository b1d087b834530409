// Sizes of inputs that a module is compiled for.
#pragma once

#include "api/module.h"
#include "ir/values/dtype.h"
#include "ir/values/shape.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

// What is known of an input of a graph: "x=1..8x3x224x224:f32"; sizes that are open stay open.
struct InputRange {
  std::string name;
  DType dtype = DType::Undefined;  // Undefined: as the text says, else float32
  Dims least, most;                // of each dimension
};
// Reads NAME=DIMxDIM...[:dtype], where DIM is N or LEAST..MOST; nothing if it is malformed.
std::optional<InputRange> parseInputRange(std::string_view text);
// What is wrong with the first size of a text that is malformed; empty: nothing that could be said.
std::string sizesFault(std::string_view text);
// The same, reporting what is wrong with it; a text without "NAME=" gives a range without a name.
Result<InputRange> readInputRange(std::string_view text, Diagnostics& diagnostics);
// The text that parseInputRange() reads.
std::string inputRangeText(const InputRange& range);
// The same without the name and the dtype: "1..8x3x224x224".
std::string rangeSizesText(const InputRange& range);

// Reports (as Model) inputs that are outside of their ranges. `values` are as many as `inputs`.
bool checkInputRanges(const std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs,
                      std::span<const IValue> values, Diagnostics& diagnostics);

}  // namespace tscompile
