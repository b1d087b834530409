// Copies of values that share no memory with the original.
#pragma once

#include "ir/values/ivalue.h"

#include <span>
#include <vector>

namespace tscompile {

// Copies the tensors in lists, tuples and dicts, so that a run that writes to them leaves the originals alone. What is
// one object in the originals is one in the copies; objects of classes stay the same.
std::vector<IValue> deepCopy(std::span<const IValue> values);

}  // namespace tscompile
