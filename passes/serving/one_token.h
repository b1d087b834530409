// A graph that was made for one token becomes one of any number of them.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"

namespace tscompile {

// Takes a graph whose ids are [1, 1], follows the tokens through it, and gives them a size that is open wherever a list
// of sizes has 1 for it. What was counted up to 1 counts tokens. Where a dimension of tokens is lost the graph is good
// for nothing, and this is false. Which of several dimensions of 1 is that of tokens is a guess: callers try it out.
bool widenToTexts(Graph& graph, const OpRegistry& registry);

}  // namespace tscompile
