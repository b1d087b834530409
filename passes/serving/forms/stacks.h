// Tensors that hold several others side by side, as run_decompositions() leaves them.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// A part that is put into a stack and taken out again is taken as it is, and others from the stack that was before:
//   s = where(arange(n).reshape([.., -1, ..]) == i, expand(unsqueeze(part, dim)), stack)
//   select(s, dim, i) -> part; select(s, dim, j) -> select(stack, dim, j)
// up to the first node that writes.
void takePartsAsPut(Graph& graph, const OpRegistry& registry);

// What is unbound of inputs and attributes is selected: unbind(stack, dim) -> select(stack, dim, 0), ..
void selectUnbound(Graph& graph);

}  // namespace tscompile
