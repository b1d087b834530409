// Which nodes of a block must run before which others: uses, also those inside nested blocks; reads and writes of the
// same memory; effects.
#pragma once

#include "ir/analysis/alias.h"
#include "ir/graph/graph.h"
#include "partition/partition.h"

#include <span>
#include <vector>

namespace tscompile {

// What nodes do to memory, blocks inside included.
struct MemoryUse {
  LocationSet reads, writes;
  bool effects = false;
  bool moreThanRaises = false;  // effects other than raising, which may be done twice
};

class MemoryUses {
 public:
  MemoryUses(const Graph& graph, const AliasAnalysis& aliases);
  // False: nothing is written and nothing has effects.
  bool any() const { return any_; }
  const MemoryUse& of(const Node* node) const { return uses_[index_[node]]; }

 private:
  std::vector<MemoryUse> uses_;  // the first: of nodes that do nothing of the kind
  NodeTable<uint32_t> index_;
  bool any_ = false;
};

// The nodes of one block that are to be placed, and the edges between them. Where a chain of edges says the same, an
// edge may be left out.
struct BlockGraph {
  const Block* block = nullptr;
  std::vector<const Node*> nodes;  // in text order
  std::vector<bool> accelerated;   // of each
  std::vector<bool> alone;         // control flow that is not accelerated: a segment of its own
  std::vector<uint32_t> counts;    // of each: how many nodes it is with those inside; empty: one each

  size_t size() const { return nodes.size(); }
  size_t count(size_t i) const { return counts.empty() ? 1 : counts[i]; }
  size_t count(std::span<const uint32_t> items) const {
    size_t all = 0;
    for (uint32_t i : items) all += count(i);
    return all;
  }
  // Earlier nodes that node i depends on; one may be there several times.
  std::span<const uint32_t> predecessors(size_t i) const {
    return {edges_.data() + starts_[i], edges_.data() + starts_[i + 1]};
  }

 private:
  friend class DependencyBuilder;
  friend BlockGraph blockGraphOf(std::vector<bool> accelerated, const std::vector<std::vector<uint32_t>>& predecessors);
  std::vector<uint32_t> starts_, edges_;
};

// Of every block of the graph, in the order of Partition::blocks, with nothing accelerated.
std::vector<BlockGraph> dependenciesOf(const Graph& graph, const GivenNodes& given, const MemoryUses& memory);

// Without a graph behind it: node i depends on predecessors[i].
BlockGraph blockGraphOf(std::vector<bool> accelerated, const std::vector<std::vector<uint32_t>>& predecessors);

}  // namespace tscompile
