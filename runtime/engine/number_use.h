// Numbers that only a run knows: which operators an engine can compute with them, and as what.
#pragma once

#include "ir/operators/engine_support.h"
#include "ir/operators/op_registry.h"

#include <cstdint>

namespace tscompile {

struct NumberUse {
  enum class Kind : uint8_t {
    None,      // it decides sizes, or how something is computed
    Operand,   // `onTensors` takes a tensor without dimensions in its place
    Index,     // of one place along a dimension, x[n]
    Elements,  // of a new tensor
  } kind = Kind::None;
  const Operator* onTensors = nullptr;
};

NumberUse numberUse(const Operator& op, size_t argument);

}  // namespace tscompile
