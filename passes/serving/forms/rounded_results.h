// A model whose products are rounded in other ways: what its logits depend on is more than any arithmetic can hold.
#pragma once

#include "ir/graph/graph.h"

namespace tscompile {

// Changes whatever a graph without calls computes from its weights by as much as they are rounded, or as numbers of
// `precision` are. Experts that are chosen by numbers which are nearly equal are others then, as are steps of quantised
// values. Each of `kWaysToRound` ways gives others.
void roundOtherwise(Graph& graph, DType precision, int way);
inline constexpr int kWaysToRound = 6;

}  // namespace tscompile
