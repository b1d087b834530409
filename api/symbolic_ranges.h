// Ranges of inputs in which sizes are expressions: `x=Nx8`, `y=2*Nx3` with `N=1..8`. Both bounds of such a dimension
// are the expression, whose symbols have bounds of their own.
#pragma once

#include "api/input_range.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/values/size_expression.h"

#include <vector>

namespace tscompile {

inline bool isExpression(const InputRange& range, size_t d) { return !isKnownSize(range.least[d]); }
// What a dimension may be, as numbers.
SizeRange boundsOf(const InputRange& range, size_t d);
// The same range with numbers in place of expressions.
InputRange withoutExpressions(InputRange range);
// Adds what an input or, as "N=1..8", a symbol of other inputs may be: symbols that are named in both get their bounds,
// in whatever order they come.
void addInputRange(std::vector<InputRange>& ranges, InputRange range);

// Reports (as Model) expressions that come to another size than the input has: a symbol is one number in all inputs.
bool checkExpressions(const std::vector<InputRange>& ranges, std::span<const ValueInfo> inputs,
                      std::span<const IValue> values, Diagnostics& diagnostics);

// What the ranges of inputs say to shape propagation. Of inputs that are named twice, the last range counts. Sizes that
// are not fixed are not known, or with `largest` the most that they may be.
ShapeOptions shapeOptions(const Graph& graph, const std::vector<InputRange>& ranges, bool largest);

}  // namespace tscompile
