// Sparse matrices that a graph makes and multiplies at once. There are no sparse tensors here: what such a matrix is
// used for is said by its elements and their places.
#pragma once

#include "frontend/text/parse.h"

#include <utility>
#include <vector>

namespace tscompile {

// Attributes that hold sparse matrices, with the classes that have them.
using SparseAttributes = std::vector<std::pair<TypePtr, Symbol>>;
// What holds their parts.
inline constexpr std::string_view kSparsePlaces = ".places", kSparseElements = ".elements", kSparseSize = ".size";

// %a = prim::GetAttr[name="a"](%self)  →  aten::sparse_coo_tensor of a.places, a.elements and a.size
void makeSparseAttributes(Graph& graph, const SparseAttributes& attributes);

//   %a = aten::sparse_coo_tensor(%places, %elements, %size, …)
//   %y = aten::mm(%a, %x)          →  rows of %x, each times its element, added to where they belong
// and so with vectors, as the right factor, in addmm, with transposed, scaled, converted and coalesced matrices, those
// of to_sparse() and those by rows, to_dense(), sums of all, and what asks for elements, places, sizes, dtype and
// layout. Sums are made in the order of the elements. A matrix that is used for anything else stays as it is.
void spellOutSparseProducts(const ParsedText& text);

}  // namespace tscompile
