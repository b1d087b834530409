// Graphs that were made for a number of texts, or of tokens, and no others.
#pragma once

#include "ir/graph/graph.h"

namespace tscompile {

// How many texts, of any number of tokens or of one, a graph is for, and no others; 0: any number of them, or one.
int64_t fixedTexts(const Graph& graph);
// Takes a graph of fixedTexts() and gives its logits for one text, which takes the place of all of them: that is right
// for each graph whose texts have nothing to do with each other, and computes as much as before. False if that are not
// the rows of its inputs and logits; the graph is then as it was.
bool repeatText(Graph& graph);
// The same for its last text, beside others of zeros: a graph that gives other logits so has no texts in its rows.
bool putTextLast(Graph& graph);

// Makes a graph that takes so many tokens alone one that takes fewer as well: others of this id fill up what is left,
// and the logits of these are dropped. That is right where tokens do not see those after them. Returns how many tokens
// there are at most; 0 if the graph takes any number, a few alone, or gives no logits of all: it is then as it was.
int64_t fillTexts(Graph& graph, int64_t id);

}  // namespace tscompile
