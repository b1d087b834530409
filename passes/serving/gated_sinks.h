#pragma once

#include "passes/rewrite/rewrite.h"

namespace tscompile {

// Sinks of attention that are written as a factor of its result, if `product` multiplies by that factor: the scores of
// one more key for each head, without a value. Null if it is none. See gated_sinks.cpp.
Value* joinGatedSinks(Node* product, RewriteContext& context);

}  // namespace tscompile
