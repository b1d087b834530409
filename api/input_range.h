// What is known of the inputs of a method before it runs.
#pragma once

#include "ir/dtype.h"
#include "ir/ivalue.h"
#include "ir/shape.h"
#include "ir/support/diagnostics.h"

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

struct ValueInfo;

// "x=1..8x3x224x224:f32"; sizes that differ stay open.
struct InputRange {
  std::string name;
  DType dtype = DType::Undefined;  // Undefined: as the text says, else float32
  Dims least, most;                // of each dimension
};
// Reads NAME=DIMxDIM...[:dtype], where DIM is N or LEAST..MOST; nothing if it is malformed.
std::optional<InputRange> parseInputRange(std::string_view text);

// Whether the inputs of a run are in their ranges. Reports each that is not: its name, the dimension and the range
// (kind Model).
bool checkRanges(std::span<const InputRange> ranges, std::span<const ValueInfo> infos, std::span<const IValue> inputs,
                 Diagnostics& diagnostics);

}  // namespace tscompile
