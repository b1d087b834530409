// Graphs as pictures that any browser shows: SVG, without Graphviz.
#pragma once

#include "ir/graph/graph.h"

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tscompile {

// Graphs one below the other, with what they are called (empty: nothing is written). Nodes are boxes, inputs and
// results rounded ones, blocks and subgraphs frames inside the boxes of their nodes. Constants stand in the box of what
// takes them. Nothing if the text would be longer than `maxBytes`.
std::optional<std::string> graphsAsSvg(const std::vector<std::pair<std::string, const Graph*>>& graphs,
                                       uint64_t maxBytes);

}  // namespace tscompile
