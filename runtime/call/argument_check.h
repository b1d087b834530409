// The one place that asks whether the values of a call are what the schema says. Types of a text may lie, so nothing
// behind it may be reached before: kernels, converters, the network of an engine.
#pragma once

#include "ir/operators/op_registry.h"
#include "ir/values/ivalue.h"

namespace tscompile {

// Throws ExecutionError (Model) for the first argument that the schema does not allow. What older texts write is
// allowed: a number for a tensor, an int for a bool or for a list of ints.
void checkArguments(const Operator& op, const IValue* const* arguments, size_t count);

}  // namespace tscompile
