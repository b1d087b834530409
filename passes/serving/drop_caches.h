// What models remember from call to call. Those that take keys and values of earlier tokens and return them with new
// ones are models of whole texts if there are none.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"

namespace tscompile {

// Takes inputs out that are joined in front of what the model computes, cat([past, keys], dim), and asked for the
// number of their tokens at most: tensors, tensors of several, and lists and tuples of them. False if there are none,
// or if one is used otherwise; the graph is then as it was.
bool dropCaches(Graph& graph, const OpRegistry& registry);

// cat([cache, fresh], ..), of which callers are left to make the cache of the next call; null if there is none.
Value* joinOf(const Value* cache, const Value* fresh);

// Dicts and lists among the inputs that are asked whether they hold something, and lists of what may be None, are made
// in the graph, as they are in the first call of a text: without any. Whether there are any.
bool beginEmpty(Graph& graph);

// Whether there are inputs of three dimensions or more that are no mask.
bool takesTensorsBesideTexts(const Graph& graph);

// Texts begin at 0: places of the first token of a call become that; without caches, only those that tokens are counted
// from. Whether there are any.
bool beginAtFirstPlace(Graph& graph, bool hasCaches);

// Attributes that are only written, as a whole, in each call (frequencies of rotary positions that follow from the
// length of a text): the call writes a copy of its own instead. Whether there are any.
bool writeCopies(Graph& graph);

}  // namespace tscompile
