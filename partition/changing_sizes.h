// Sizes that follow from elements, anew in each iteration of a loop.
#pragma once

#include "ir/analysis/shape_propagation.h"

#include <unordered_set>

namespace tscompile {

// The tensors in loops whose sizes may be others in each iteration by what elements are there: `boxes[scores > t]` in
// a loop that suppresses boxes, and what is computed of it. An engine makes a plan for each of these sizes.
// `shapes`: what is known besides types; may be null.
std::unordered_set<const Value*> tensorsOfChangingSizes(const Graph& graph, const OpRegistry& registry,
                                                        const ShapePropagation* shapes);

}  // namespace tscompile
