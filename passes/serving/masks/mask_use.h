// What the numbers of a mask that is given say, as far as what is done with it tells.
#pragma once

#include "passes/rewrite/facts.h"

#include <optional>

namespace tscompile {

struct MaskUse {
  enum class Kind : uint8_t {
    Shown,   // 1 where a token is seen
    Hidden,  // 1 where it is not
    Added,   // to scores: 0 where it is seen, else minus infinity
  };
  Kind kind = Kind::Shown;
  DType dtype = DType::Bool;  // or Int64 or Float32
};

// Nothing where it does not tell, or tells several, or the mask is of another dtype.
std::optional<MaskUse> useOfMask(const Graph& graph, const OpRegistry& registry, const Value* mask);

// How many dimensions it is given before it meets another tensor: mask[:, None, None] 2.
int64_t dimsGivenToMask(const Value* mask);

}  // namespace tscompile
