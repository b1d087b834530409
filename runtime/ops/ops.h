// One registration function for each family of operators, in runtime/ops/<subject>/<family>.cpp.
#pragma once

#include "ir/operators/op_registry.h"

namespace tscompile {

#define TS_FAMILY(name) void register##name##Ops(OpRegistry& ops);
#include "runtime/ops/families.def"
#undef TS_FAMILY

}  // namespace tscompile
