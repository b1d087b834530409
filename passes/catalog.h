// The database of all lowering steps, and the door to running them.
#pragma once

#include "passes/rewrite/database.h"
#include "passes/rewrite/rules_file.h"

namespace tscompile {

// Every lowering step as a named entry of a sequence; what runs without being asked for has the tag "default".
// docs/rewriting.md prints the order. Made at the first call.
const RewriteDatabase& loweringDatabase();

}  // namespace tscompile
