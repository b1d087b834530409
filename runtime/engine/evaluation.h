// Which operators are computed while an engine is made: on values that are known then, and on the geometry of tensors.
#pragma once

#include "ir/operators/op_registry.h"

namespace tscompile {

// Whether the operator looks at its tensors' sizes, strides and dtypes only, never at elements, and gives no tensor
// that is not an argument or an item of one: aten::size, prim::dtype, aten::append of a list of tensors.
bool readsGeometryOnly(const Operator& op);
// Whether what it gives depends on strides: aten::is_contiguous.
bool readsStrides(const Operator& op);
// Whether its results are views of its first argument, for some arguments or for all: aten::view, aten::reshape.
bool mayGiveViews(const Operator& op);
// Whether it writes sizes or strides of its argument: aten::t_, aten::resize_.
bool changesGeometry(const Operator& op);

}  // namespace tscompile
