// Graphs that were made for a number of texts, and no others.
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

}  // namespace tscompile
