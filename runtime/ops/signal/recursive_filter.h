// Filters that feed their output back: what torchaudio has operators of its own for.
#pragma once

#include "ir/operators/op_registry.h"

namespace tscompile {

void registerRecursiveFilterOps(OpRegistry& ops);

}  // namespace tscompile
