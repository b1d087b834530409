// Which of an operator's two records its arguments ask for.
#pragma once

#include "ir/values/ivalue.h"

namespace tscompile {

// Whether the first tensor, or that of the first list, is quantised: then the record for these computes.
bool takesQuantized(const IValue* const* arguments, size_t count);

}  // namespace tscompile
