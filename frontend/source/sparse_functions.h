// Functions of sparse matrices that are said by their elements and places, as a program could have written them.
#pragma once

#include "ir/graph/graph.h"

namespace tscompile {

// Whether a value is a sparse matrix that the graph makes.
using IsSparse = bool (*)(const Value*);

// Softmax of the elements of each row or column, sums of one dimension, and products of two matrices:
//   %y = aten::_sparse_softmax(%a, %one, %none)   →   %i = aten::indices(%c), … %y = aten::sparse_coo_tensor(%i, …)
// A sum without its dimension is a vector, which is read densely or by its elements alone.
void spellOutSparseFunctions(Graph& graph, IsSparse isSparse);

}  // namespace tscompile
