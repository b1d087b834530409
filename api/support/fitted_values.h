// Values of callers as the declared types of what they are given to.
#pragma once

#include "ir/values/ivalue.h"

#include <optional>

namespace tscompile {

// The value as one of the type: lists, tuples and dicts with the declared element types, integers as floats where
// floats are wanted, lists for tuples and tuples for lists; other values, and tensors, are as they are. Nothing if it
// does not fit. Containers that have the type already stay the same objects.
std::optional<IValue> fitted(const IValue& value, TypePtr type);

}  // namespace tscompile
