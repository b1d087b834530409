// What is known of an operator that writes its first argument and of the one of the same name that does not.
#pragma once

#include "ir/graph/node.h"
#include "passes/rewrite/facts.h"

namespace tscompile {

// Whether the functional form is known to give the sizes of its first argument.
bool keepsSizes(const Node* n, const Operator& twin, GraphFacts& facts);
// Whether the functional form is known to give the dtype of its first argument, whatever that is.
bool keepsDType(const Node* n, const Operator& twin, GraphFacts& facts);
// Whether both forms take the same dtypes, as far as the functional one's result can be written to the argument. Some
// want more when they write (`addmv_` the dtype of the product), some less.
bool takesAlike(const Node* n, const Operator& op, const Operator& twin, GraphFacts& facts);

}  // namespace tscompile
