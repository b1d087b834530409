// Which operators ask for sizes of tensors, and which make sizes of elements.
#pragma once

#include "ir/operators/op_registry.h"

namespace tscompile {

// Whether nodes of this kind ask for sizes of a tensor, and for nothing else: aten::size, aten::dim.
bool readsSizes(Symbol kind);
// Whether sizes of its results, or numbers that it gives, depend on elements: aten::nonzero, aten::item.
bool dependsOnElements(const Operator& op);

}  // namespace tscompile
