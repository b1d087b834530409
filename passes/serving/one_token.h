// A graph that was made for one token becomes one of any number of them, and one for several texts one of one text.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// Of what a graph returns, logits alone are left; false if there are none.
bool keepLogitsAlone(Graph& graph, const OpRegistry& registry);

// Takes a graph whose ids are [1, 1], follows the tokens through it, and gives them a size that is open wherever a list
// of sizes has 1 for it. What was counted up to 1 counts tokens. Logits alone are returned. Where a dimension of tokens
// is lost the graph is good for nothing, and this is false. Which of several dimensions of 1 is that of tokens is a
// guess: callers try it out. `lost` becomes the node that lost them.
bool widenToTexts(Graph& graph, const OpRegistry& registry, SourceRange* lost = nullptr);

// Sizes that are open become 1: of a graph for one token whose caches were taken away.
void closeSizes(Graph& graph, const OpRegistry& registry);

// Follows the texts through a graph of fixedTexts(), and leaves the first one. What it writes has that one's part
// alone. Under the same terms as widenToTexts.
bool narrowToOneText(Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
