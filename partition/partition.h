// The door of partitioning: which nodes run in engines, and in which segments. Nothing is executed, and the graph stays
// as it is; see docs/partitioning.md.
#pragma once

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/graph.h"
#include "ir/graph/side_table.h"
#include "ir/operators/engine_support.h"
#include "ir/operators/op_registry.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tscompile {

enum class Target : uint8_t { Accelerated, Fallback };
std::string_view targetName(Target target);

// How a block is cut once it is known which nodes can go to engines.
enum class Strategy : uint8_t {
  Greedy,      // a new segment wherever the target changes in text order
  Dependency,  // nodes join a segment that is open as long as their dependencies allow
  Minimal,     // no other order gives fewer segments
  Cost,        // the best of the others by estimated time, without the engines that do not pay
};
std::string_view strategyName(Strategy strategy);

struct PartitionOptions {
  // Engines of fewer nodes are not made, unless the whole graph is one.
  size_t minBlockSize = 3;
  // Nodes count by what an engine gains with them: none that only look at sizes or make views, and a product, a
  // convolution or a recurrent layer as many as are needed.
  bool countsGains = false;
  Strategy strategy = Strategy::Dependency;
  // Kinds or overloads that stay out of engines: "aten::relu", "aten::add.Tensor". Nodes with the attribute
  // to_compile=0 stay out as well.
  std::vector<std::string> fallbackOperators = {};
  // Those that nodes were marked for earlier: reasons name them.
  std::vector<std::string> markedOperators = {};
  // What the user has said to mark nodes, as Remedy::Kind::AllowMarked: for reports.
  Remedy marks = Remedy(Remedy::Kind::AllowMarked);
  // Nodes that an engine has turned down, whatever the support said. Null: none.
  const std::unordered_map<const Node*, Verdict>* refused = nullptr;
  // Nodes that are taken to be fit for engines whatever else is said: "what if". Null: none.
  const std::unordered_set<const Node*>* assumed = nullptr;
  // Inputs of the graph that are taken to be constants: "what if". Null: none.
  const std::unordered_set<const Value*>* bound = nullptr;
  // For estimates of work; null: every node counts alike. Not kept.
  const ShapePropagation* shapes = nullptr;
};

inline constexpr uint32_t kNoSegment = UINT32_MAX;

// Where a node runs and why.
struct Decision {
  Reason reason = Reason::Ok;
  std::string detail = {};      // one sentence
  Remedy remedy = {};           // what would change it; may be empty
  const Node* cause = nullptr;  // the node because of which this one runs elsewhere; null: it is its own cause
  uint32_t segment = kNoSegment;

  bool accelerated() const { return reason == Reason::Ok; }
};

// What a node is estimated to do; 0 where sizes are not known.
struct Work {
  double flops = 0, bytes = 0;
  bool known = false;
};

struct Segment {
  uint32_t id = 0;
  Target target = Target::Fallback;
  const Block* block = nullptr;
  std::vector<const Node*> nodes;  // in text order
  // Nodes of other segments that this engine computes once more because their results cannot cross a border.
  std::vector<const Node*> recomputed;
  // What it takes, by first use, and what others need of it, by definition. Constants are in neither: each segment has
  // its own copies.
  std::vector<const Value*> inputs, outputs;
  bool doNotMerge = false;
  double seconds = 0;        // estimated, where it runs
  double borderSeconds = 0;  // estimated, of entering it and handing over what crosses; of engines only
  double gainSeconds = 0;    // what running elsewhere would cost more, without the border
};

// Constants, and attributes of modules that nothing writes: they belong to no segment.
class GivenNodes {
 public:
  explicit GivenNodes(const Graph& graph);
  bool contains(const Node* node) const {
    return node->kind() == sym::Constant || (attributesToo_ && node->kind() == sym::GetAttr);
  }

 private:
  bool attributesToo_ = true;
};

// Nodes that only put outputs of the graph into tuples, lists and dicts, or take inputs out of such: no work that an
// engine could do.
class WrappingNodes {
 public:
  explicit WrappingNodes(const Graph& graph);
  bool contains(const Node* node) const { return nodes_.contains(node); }

 private:
  std::unordered_set<const Node*> nodes_;
};

struct Partition {
  struct BlockSegments {
    const Block* block;
    uint32_t first, count;  // into segments, in the order in which they run
  };

  explicit Partition(const Graph& graph) : given(graph), wrapping(graph), decisions(graph), work(graph) {}

  GivenNodes given;
  WrappingNodes wrapping;
  std::vector<Segment> segments;
  std::vector<BlockSegments> blocks;  // outer blocks before the blocks inside, text order
  NodeTable<Decision> decisions;
  NodeTable<Work> work;
  double seconds = 0;  // estimated, of all segments with their borders, each counted once
  Strategy strategy = Strategy::Dependency;
  size_t minBlockSize = 0;
  bool countsGains = false;

  size_t count(Target target) const;
  // Nodes of a segment; of an engine with those inside of control flow.
  size_t count(const Segment& segment) const;
  // Nodes outside of engines that only put outputs together; nodeCount() does not have them.
  size_t wrappingCount() const;
  size_t nodeCount() const;  // of all segments, but for those that only wrap inputs and outputs elsewhere
  size_t acceleratedCount() const;
  // The cause of a cause, and so on, from the node's own cause on, at most `most` of them.
  std::vector<const Node*> causes(const Node* node, size_t most = SIZE_MAX) const;
};

// How many nodes it is: one, and those inside of control flow that runs in an engine, without constants.
size_t countWithin(const Node* node, const GivenNodes& given);

// Decides for every node of the graph, blocks inside included, and cuts every block.
Partition segment(const Graph& graph, const OpRegistry& registry, const EngineSupport& support,
                  const PartitionOptions& options = {});

}  // namespace tscompile
