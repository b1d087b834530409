// Constant tensors without dimensions, which stand for numbers of the traced program.
#pragma once

#include "ir/graph/module.h"
#include "ir/operators/op_registry.h"

#include <functional>

namespace tscompile {

// The data that is given for a constant which the text rounds or leaves out, by its key; or null.
using DataOfConstant = std::function<const Tensor*(const std::string& key)>;

// What PyTorch runs takes a prim::Constant of a float64 tensor without dimensions for a number of Python, which leaves
// tensors of integers float32: traces write `x * 2.5` so. Where an operator has an overload for numbers it is told so:
//   aten::mul(%x, {2.5} : Tensor)  ->  aten::mul(%x, 2.5 : float)
void takeConstantsAsNumbers(const ParsedText& text, const OpRegistry& registry, const DataOfConstant& dataOf);

}  // namespace tscompile
