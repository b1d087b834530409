// Walks over all graphs of a text, subgraphs of nodes included.
#pragma once

#include "ir/graph/module.h"

#include <algorithm>
#include <vector>

namespace tscompile {

// Calls visit(graph) for each graph among `todo` and the subgraphs inside, a graph before its own, without recursion.
template <class Visit>
void forEachGraph(std::vector<const Graph*> todo, Visit&& visit) {
  std::reverse(todo.begin(), todo.end());
  while (!todo.empty()) {
    const Graph* g = todo.back();
    todo.pop_back();
    visit(*g);
    size_t first = todo.size();
    forEachNode(*g, [&](Node* n) {
      for (const Attribute& a : n->attributes())
        if (a.graph()) todo.push_back(a.graph());
    });
    std::reverse(todo.begin() + static_cast<std::ptrdiff_t>(first), todo.end());
  }
}

// The graphs of a text, methods and functions of a dump included, without the subgraphs of their nodes.
inline std::vector<const Graph*> topGraphs(const ParsedText& text) {
  std::vector<const Graph*> out;
  for (const auto& g : text.graphs) out.push_back(g.get());
  if (!text.module) return out;
  auto add = [&out](const std::vector<DumpedMethod>& methods) {
    for (const DumpedMethod& m : methods)
      if (m.graph) out.push_back(m.graph.get());
  };
  for (const DumpedModule& m : text.module->modules) add(m.methods);
  add(text.module->functions);
  return out;
}

}  // namespace tscompile
