// The list of all operators: one registration function for each family file.
#pragma once

#include "ir/op_registry.h"

namespace tscompile {

// PyTorch's schemas and our records. Made at the first call, then const.
const OpRegistry& allOps();

// One for each family, in runtime/ops/<family>.cpp.
#define TS_FAMILY(name) void register##name##Ops(OpRegistry& ops);
#include "runtime/ops/families.def"
#undef TS_FAMILY

}  // namespace tscompile
