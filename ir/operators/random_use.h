// Operators that draw random numbers only if they are asked to.
#pragma once

#include "ir/operators/op_registry.h"

namespace tscompile {

// Whether a node of this operator may draw random numbers: not those whose `train` or `training` is the constant false,
// or whose `dropout` or `dropout_p` is the constant 0.
bool drawsRandom(const Node& node, const Operator& op);
// Whether that depends on the node.
bool mayDrawNothing(const Operator& op);

}  // namespace tscompile
