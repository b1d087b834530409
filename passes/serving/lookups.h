// Operators that take rows of a table by ids, embedding(table, ids) and index(table, [ids]), and that put rows at
// places of a tensor.
#pragma once

#include "ir/values/symbol.h"

#include <string>

namespace tscompile {

inline const Symbol kEmbedding = Symbol::of("aten::embedding"), kIndex = Symbol::of("aten::index");
inline const Symbol kIndexCopy = Symbol::of("aten::index_copy"), kIndexPut = Symbol::of("aten::index_put");
inline const Symbol kSliceScatter = Symbol::of("aten::slice_scatter"), kAny = Symbol::of("aten::any");

// The operator itself, or the one that writes its result in place.
inline bool isOrWrites(Symbol kind, Symbol op) { return kind == op || kind.text() == std::string(op.text()) + "_"; }

}  // namespace tscompile
