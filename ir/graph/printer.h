// Graphs as text, byte for byte as PyTorch prints them.
#pragma once

#include "ir/graph/graph.h"
#include "ir/graph/module.h"
#include "ir/support/limits.h"
#include "ir/values/bounded_text.h"

#include <string>
#include <string_view>

namespace tscompile {

struct PrintOptions {
  bool locations = true;  // `# file:line:column`
  int typeVerbosity = 3;  // 0: no types, 1: sizes only, 2: and strides, 3: all, 20: symbolic sizes
  uint64_t maxBytes = Limits().printBytes;
};

// False if the text would be longer than options.maxBytes; what was written by then stays written. Indentation makes
// the text of deeply nested blocks grow with the square of their depth.
bool printGraph(const Graph& graph, const TextSink& sink, const PrintOptions& options = {});
bool printDump(const ModuleDump& module, const TextSink& sink, const PrintOptions& options = {});
std::string graphText(const Graph& graph, const PrintOptions& options = {});
// One line, without its blocks; subgraphs show as <Graph>.
std::string nodeText(const Node& node, const PrintOptions& options = {});
// "[a=1, b=2]"; nothing if there are none.
void appendAttributes(const Node& node, bool skipSubgraph, int typeVerbosity, std::string& out);

}  // namespace tscompile
