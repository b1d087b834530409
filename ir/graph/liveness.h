// Where values are needed for the last time.
#pragma once

#include "ir/graph/side_table.h"

#include <cstdint>
#include <vector>

namespace tscompile {

// Numbers every node of a graph, nested blocks included, in text order; answers in O(log n). Valid until the graph
// changes.
class Liveness {
 public:
  explicit Liveness(const Graph& graph);

  // The place of a node in text order; return nodes stand at the end of their block.
  uint32_t place(const Node* node) const { return places_[node]; }
  // One after the last place inside a node's blocks.
  uint32_t end(const Node* node) const { return nodes_[place(node)].end; }
  const Node* nodeAt(uint32_t place) const { return nodes_[place].node; }
  uint32_t size() const { return static_cast<uint32_t>(nodes_.size()); }

  // The node of `block` that holds the place, or is there.
  const Node* ancestorIn(const Block* block, uint32_t place) const;
  // The places of a block: its first node (or its return node) to its return node.
  std::pair<uint32_t, uint32_t> span(const Block* block) const;

  // The last place that uses it inside these places, or UINT32_MAX.
  uint32_t lastUseIn(const Value* value, uint32_t from, uint32_t to) const;
  // All blocks in text order, the outermost first.
  const std::vector<const Block*>& blocks() const { return blockOrder_; }

 private:
  struct Entry {
    const Node* node;
    uint32_t end;
  };
  // The places of a block's nodes, its return node last.
  std::span<const uint32_t> placesOf(const Block* block) const {
    const Run& run = runs_[block];
    return {blockPlaces_.data() + run.begin, run.count};
  }

  struct Run {
    uint32_t begin = 0, count = 0;
  };
  std::vector<Entry> nodes_;  // in text order
  NodeTable<uint32_t> places_;
  BlockTable<Run> runs_;
  std::vector<uint32_t> blockPlaces_;  // block by block
  std::vector<const Block*> blockOrder_;
};

}  // namespace tscompile
