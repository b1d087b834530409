// Inside of Dict and Union PyTorch prints the class of a named tuple, elsewhere its fields: one type in two spellings.
#pragma once

#include "ir/graph/module.h"

namespace tscompile::frontend {

// Gives `Dict(str, __torch__.Pair)` the fields that values which go in and come out tell: `NamedTuple(a : Tensor, n :
// int)`. Classes that nothing is told of stay as they are.
void joinTupleNames(const ParsedText& text);

}  // namespace tscompile::frontend
