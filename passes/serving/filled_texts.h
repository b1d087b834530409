// Graphs that were made for texts of one number of tokens, and no others.
#pragma once

#include "ir/graph/graph.h"

namespace tscompile {

// Makes a graph that takes so many tokens alone one that takes fewer as well: others of this id fill up what is left,
// and the logits of these are dropped. That is right where tokens do not see those after them. Returns how many tokens
// there are at most; 0 if the graph takes any number, a few alone, or gives no logits of all: it is then as it was.
int64_t fillTexts(Graph& graph, int64_t id);

}  // namespace tscompile
