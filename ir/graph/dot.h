// Graphs as pictures: the language of Graphviz.
#pragma once

#include "ir/graph/graph.h"
#include "ir/support/limits.h"
#include "ir/values/bounded_text.h"

#include <string>
#include <string_view>

namespace tscompile {

// A box for each node, an oval for each input and block parameter, the names of values on the edges; blocks are frames
// around their nodes. Constants stand in the box of what uses them. False if the text would be longer than maxBytes;
// what was written by then stays written.
bool printDot(const Graph& graph, std::string_view name, const TextSink& sink, uint64_t maxBytes = Limits().printBytes);
std::string dotText(const Graph& graph, std::string_view name = "graph");

}  // namespace tscompile
