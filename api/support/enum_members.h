// Members of enums that a caller only names, as text does: "Mode.SUM".
#pragma once

#include "frontend/files/weights.h"
#include "ir/support/diagnostics.h"
#include "ir/values/ivalue.h"

namespace tscompile {

// Whether it is not known what the value, or a member of an enum in it, stands for.
bool lacksMembers(const IValue& value);

// Gives members the values that `known` has (frontend/files/attribute_tensors.h), in copies of the containers that hold
// them. Reports (as Input) what is no member of its enum. Nothing happens if nothing is known.
bool findMembers(IValue& value, const Metadata& known, Diagnostics& diagnostics);

}  // namespace tscompile
