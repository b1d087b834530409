// What the user calls an operator that lowering made another one of.
#pragma once

#include "ir/graph/graph.h"

#include <string>
#include <string_view>

namespace tscompile {

// The operator that stands in the graph text or the archive's code where the node comes from, if the node's own is an
// inner one, whose name begins with an underscore: aten::conv2d of an aten::_convolution that was made of it. Else that
// of the node.
std::string writtenOperator(const Node& node);

// The operator that stands where the node comes from, inner or not: aten::add_ of an aten::add that was made of it.
// That of the node if none of its namespace stands there.
std::string calledOperator(const Node& node);

// The operator of the graph whose name is the nearest to this one, which is none of its; empty if none is near. A name
// without a namespace is held against names without theirs.
std::string nearestOperator(const Graph& graph, std::string_view asked);

// "aten::conv2d, aten::relu and 3 more": the operators of the graph, the first ones by name.
std::string someOperators(const Graph& graph);

}  // namespace tscompile
