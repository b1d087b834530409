#include "partition/root_causes.h"

namespace tscompile {

// Follows each chain once: what was passed leads straight to the end (path compression).
RootCauses::RootCauses(const Graph& graph, const Partition& partition) : roots_(graph) {
  std::vector<const Node*> path;
  forEachNode(graph, [&](const Node* node) {
    path.clear();
    const Node* at = node;
    // Each node of the path is marked with itself meanwhile, so that a circle ends where it is entered.
    while (!roots_[at]) {
      roots_[at] = at;
      path.push_back(at);
      const Node* cause = partition.decisions[at].cause;
      if (!cause) break;
      at = cause;
    }
    const Node* root = roots_[at];
    for (const Node* passed : path) roots_[passed] = root;
  });
}

}  // namespace tscompile
