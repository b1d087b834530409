// What the ranges of inputs say to shape propagation.
#pragma once

#include "api/input_range.h"
#include "ir/analysis/shape_propagation.h"

#include <vector>

namespace tscompile {

// Of inputs that are named twice, the last range counts. Sizes that are not fixed are not known, or with `largest` the
// most that they may be.
ShapeOptions shapeOptions(const Graph& graph, const std::vector<InputRange>& ranges, bool largest);

}  // namespace tscompile
