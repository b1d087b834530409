// Constant tensors without dimensions, which stand for numbers of the traced program.
#pragma once

#include "ir/graph/module.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// What PyTorch runs takes a prim::Constant of a float64 tensor without dimensions for a number of Python, which leaves
// tensors of integers float32: traces write `x * 2.5` so. Where an operator has an overload for numbers it is told so:
//   aten::mul(%x, {2.5} : Tensor)  ->  aten::mul(%x, 2.5 : float)
void takeConstantsAsNumbers(const ParsedText& text, const OpRegistry& registry);

}  // namespace tscompile
