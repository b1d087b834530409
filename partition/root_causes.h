// What nodes stay out of engines for in the end.
#pragma once

#include "partition/partition.h"

namespace tscompile {

class RootCauses {
 public:
  RootCauses(const Graph& graph, const Partition& partition);
  // The end of the node's chain of causes; the node itself if it is its own cause. Of nodes that are each other's cause
  // it is the same for all.
  const Node* of(const Node* node) const { return roots_.get(node); }

 private:
  NodeTable<const Node*> roots_;
};

}  // namespace tscompile
