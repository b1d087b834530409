// Compares what serves a language model with the model that it was made from.
#pragma once

#include "api/built_model.h"
#include "api/module.h"
#include "passes/serving/entrance.h"

namespace tscompile {

// Some texts of random ids run through `served`, in pieces, packed beside each other and after a cache, and through
// `given` as a whole: logits must be the same. Else the output is named, and the first node that differs.
bool proveServing(const Module& given, const Entrance& entrance, const Module& served, const BuiltModel& built,
                  Diagnostics& diagnostics);

}  // namespace tscompile
