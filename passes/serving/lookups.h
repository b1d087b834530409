// Operators that take rows of a table by ids: embedding(table, ids), index(table, [ids]).
#pragma once

#include "ir/values/symbol.h"

namespace tscompile {

inline const Symbol kEmbedding = Symbol::of("aten::embedding"), kIndex = Symbol::of("aten::index");

}  // namespace tscompile
