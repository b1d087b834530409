// The database of all lowering steps, and the door to running them.
#pragma once

#include "passes/rewrite/database.h"
#include "passes/rewrite/rules_file.h"

#include <optional>
#include <string_view>

namespace tscompile {

// Every lowering step as a named entry of a sequence; what runs without being asked for has the tag "default".
// docs/rewriting.md prints the order. Made at the first call.
const RewriteDatabase& loweringDatabase();

// Queries with names, from what makes one graph of a method to what is not exact any more: min (also o0), merge, o1, o2
// (what is done without being asked), o3 (all that is exact), o4 (also in place), stabilize, unsafe (all that is fast,
// exact or not). Nothing for other names.
std::optional<Query> loweringMode(std::string_view name);

}  // namespace tscompile
