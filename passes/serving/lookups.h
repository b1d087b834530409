// Operators that take rows of a table by ids, embedding(table, ids) and index(table, [ids]), that put rows at places of
// a tensor, and that take all of it.
#pragma once

#include "ir/graph/node.h"
#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"

#include <cstdint>
#include <string>

namespace tscompile {

inline const Symbol kEmbedding = Symbol::of("aten::embedding"), kIndex = Symbol::of("aten::index");
inline const Symbol kRemainder = Symbol::of("aten::remainder");  // places of a ring
inline const Symbol kIndexCopy = Symbol::of("aten::index_copy"), kIndexPut = Symbol::of("aten::index_put");
inline const Symbol kEinsum = Symbol::of("aten::einsum"), kMax = Symbol::of("aten::max");
inline const Symbol kSliceScatter = Symbol::of("aten::slice_scatter"), kAny = Symbol::of("aten::any");
inline const Symbol kScatter = Symbol::of("aten::scatter");

// The operator itself, or the one that writes its result in place.
inline bool isOrWrites(Symbol kind, Symbol op) { return kind == op || kind.text() == std::string(op.text()) + "_"; }

// x[:]
inline bool isWholeSlice(const Node* n, const GraphFacts& facts) {
  if (!n || n->kind() != aten::slice) return false;
  return (GraphFacts::isNone(n->input(2)) || facts.integer(n->input(2)) == 0) &&
         (GraphFacts::isNone(n->input(3)) || facts.integer(n->input(3)) == INT64_MAX) &&
         facts.integer(n->input(4)) == 1;
}

}  // namespace tscompile
