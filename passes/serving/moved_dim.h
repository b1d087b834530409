// Where a dimension is in the result of an operator that gives its first input in another order.
#pragma once

#include "passes/rewrite/facts.h"

#include <optional>

namespace tscompile {

// Of `number`, counted from the end where it is negative.
std::optional<size_t> dimNamed(const Value* number, size_t rank, const GraphFacts& facts);
// The place of dimension `dim` of the node's first input of this rank in its result, of rank `made`; nothing for other
// operators than transpose, permute, unsqueeze, squeeze, select and repeat_interleave, and where it is taken away.
std::optional<size_t> movedDim(const Node* node, size_t dim, size_t rank, size_t made, const GraphFacts& facts);

}  // namespace tscompile
