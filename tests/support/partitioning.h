// Checks of partitioning: support that says no to chosen operators, segments as text.
#pragma once

#include "api/partition.h"
#include "partition/partition.h"
#include "tests/support/choices.h"

#include <set>
#include <string>
#include <vector>

namespace tscompile::test {

// The operators of PyTorch, and test:: ones without converters.
const OpRegistry& partitionOps();

// Says no to all test:: operators and to those that are named, with Reason::NoOp.
class TestSupport : public EngineSupport {
 public:
  explicit TestSupport(std::set<std::string> without = {});
  Verdict accepts(const Node& node) const override;
  bool takesNumber(const Node& node, size_t input) const override { return base_->takesNumber(node, input); }

 private:
  std::set<std::string> without_;
  std::unique_ptr<EngineSupport> base_;
};

PartitionOptions optionsOf(size_t minBlockSize = 1, Strategy strategy = Strategy::Dependency);

// "E{0 1 2} T{3} E{4}": nodes that are no constants, numbered in text order of the outermost block; blocks inside are
// left out.
std::string nodeMap(const Graph& graph, const Partition& partition);
// "E{%a %b}" of every block, one line each; nodes by their first output or kind.
std::string segmentsText(const Partition& partition);

// Fails the test unless the segments hold every node once, engines take and give what they may, the order is kept, the
// stitched graph verifies and reads back, and is the graph again once its engines are inlined. Returns the stitched
// graph.
std::unique_ptr<Graph> checkPartition(const Graph& graph, const OpRegistry& registry, const Partition& partition);

}  // namespace tscompile::test
