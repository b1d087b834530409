// One registration function for each family of operators, in runtime/ops/<subject>/<family>.cpp.
// They run once, so they stand together, apart from what runs often: pages of kernels that nobody calls stay on disk.
#pragma once

#include "ir/operators/op_registry.h"

namespace tscompile {

#define TS_FAMILY(name) \
  [[gnu::cold, gnu::section(".text.startup.operators")]] void register##name##Ops(OpRegistry& ops);
#include "runtime/ops/families.def"
#undef TS_FAMILY

}  // namespace tscompile
