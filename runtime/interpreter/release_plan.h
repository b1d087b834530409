// Where a run gives up the values of a graph: after their last use on every path.
#pragma once

#include "ir/graph/liveness.h"

#include <span>
#include <utility>
#include <vector>

namespace tscompile {

class ReleasePlan {
 public:
  explicit ReleasePlan(const Graph& graph);

  const Liveness& liveness() const { return liveness_; }
  // Values of the node's own block that nothing after the node uses. Of a return node: what only the block's results
  // are left to use.
  std::span<const std::pair<uint32_t, const Value*>> endingAt(const Node* node) const {
    return at(ending_, liveness_.place(node));
  }
  // Values of blocks around the node's block, inside a branch of an If: nothing on this path needs them any longer.
  std::span<const std::pair<uint32_t, const Value*>> endingEarlyAt(const Node* node) const {
    return at(early_, liveness_.place(node));
  }
  // Values that only the other branch of an If uses.
  std::span<const std::pair<uint32_t, const Value*>> unusedIn(const Block* branch) const {
    return at(unused_, liveness_.span(branch).first);
  }
  // Whether the node itself, and nothing inside its blocks, is the last to use the value on this path.
  bool isLastUse(const Value* value, const Node* node) const;

 private:
  using Entry = std::pair<uint32_t, const Value*>;  // a place in text order
  static std::span<const Entry> at(const std::vector<Entry>& entries, uint32_t place);
  void plan(const Value* value, const Block* block);
  void planBranches(const Value* value, const Node* node, int depth);

  Liveness liveness_;
  std::vector<Entry> ending_, early_, unused_;  // sorted by place
};

}  // namespace tscompile
