// From decisions to segments, and back where a segment would be too small.
#include "partition/boundary.h"
#include "partition/changing_sizes.h"
#include "partition/decide.h"
#include "partition/estimate.h"
#include "partition/partition.h"
#include "partition/strategies.h"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace tscompile {
namespace {

class Segmenter {
 public:
  Segmenter(const Graph& graph, const OpRegistry& registry, const EngineSupport& support,
            const PartitionOptions& options)
      : graph_(graph),
        registry_(registry),
        options_(options),
        partition_(graph),
        decider_(graph, registry, support, options, partition_),
        blocks_(dependenciesOf(graph, partition_.given, decider_.memory())),
        place_(graph),
        sizes_(graph) {
    for (BlockGraph& b : blocks_) b.counts.assign(b.size(), 1);
  }

  Partition run() {
    partition_.strategy = options_.strategy;
    partition_.minBlockSize = options_.minBlockSize;
    partition_.countsGains = options_.countsGains;
    if (options_.countsGains) changing_ = tensorsOfChangingSizes(graph_, registry_, options_.shapes);
    decider_.decide();
    if (options_.strategy == Strategy::Cost)
      cutByCost();
    else
      cut(options_.strategy);
    if (options_.countsGains) fitMinimums();
    return std::move(partition_);
  }

 private:
  // Segments by the strategy; engines that are too small fall back, until there are none.
  void cut(Strategy strategy) {
    strategyOfCut_ = strategy;
    knowsSizes_ = false;
    while (true) {
      takeDecisions();
      if (strategy == Strategy::Dependency && !options_.countsGains && dropSmallRuns()) continue;
      runs_.clear();
      for (const BlockGraph& b : blocks_)
        runs_.push_back(isInside(b) ? std::vector<Run>() : withMovedNumbers(b, runsOf(b, strategy)));
      if (!dropSmallSegments() && !dropSplitLists()) break;
    }
    write();
  }

  // The best of the other strategies; then engines whose border costs more than they gain fall back as long as that
  // makes the whole faster.
  void cutByCost() {
    const Partition decided = partition_;
    std::optional<Partition> best;
    Strategy ofBest = Strategy::Dependency;
    for (Strategy s : {Strategy::Dependency, Strategy::Minimal, Strategy::Greedy}) {
      partition_ = decided;
      cut(s);
      if (best && partition_.seconds >= best->seconds) continue;
      best = partition_;
      ofBest = s;
    }
    partition_ = *best;
    takeDecisions();
    while (!wholeGraph_ && (withoutLosers(SIZE_MAX, ofBest) || withoutLosers(1, ofBest))) {
    }
  }

  // Takes back at most `most` engines that do not pay, the worst first; false and nothing changed if that is no gain.
  bool withoutLosers(size_t most, Strategy strategy) {
    std::vector<const Segment*> losers;
    for (const Segment& s : partition_.segments)
      if (s.target == Target::Accelerated && s.gainSeconds < s.borderSeconds) losers.push_back(&s);
    if (losers.empty()) return false;
    auto loss = [](const Segment* s) { return s->borderSeconds - s->gainSeconds; };
    std::stable_sort(losers.begin(), losers.end(), [&](auto* a, auto* b) { return loss(a) > loss(b); });
    losers.resize(std::min(losers.size(), most));
    const Partition before = partition_;
    std::vector<Segment> taken;
    for (const Segment* s : losers) taken.push_back(*s);
    for (const Segment& s : taken)
      for (const Node* n : s.nodes)
        decider_.fallBack(n, Reason::SmallBlock,
                          "its engine would gain " + microseconds(s.gainSeconds) + ", less than the " +
                              microseconds(s.borderSeconds) + " of its border",
                          Remedy(Remedy::Kind::AvoidGains, {"dependency"}));
    decider_.settle();
    cut(strategy);
    if (partition_.seconds < before.seconds) return true;
    partition_ = before;
    return false;
  }

  static std::string microseconds(double seconds) { return fmt::format("{:.1f} us", seconds * 1e6); }

  // What a node counts for the minimal size of its engine.
  size_t countOf(const Node* n) const {
    if (!options_.countsGains) return countWithin(n, partition_.given);
    size_t count = gainOf(n);
    for (Block* b : n->blocks()) forEachNode(b, [&](const Node* inner) { count += gainOf(inner); });
    return count;
  }
  size_t gainOf(const Node* n) const {
    if (n->kind().nameSpace() == "prim") return 0;
    const Operator* op = n->subgraph() ? nullptr : registry_.resolve(*n);
    if (!op || !op->isImplemented()) return 1;
    const OpDef& def = op->def();
    if (def.scalar || def.has(Trait::ReadsGeometry) || def.has(Trait::ReadsSizes)) return 0;
    const Schema& schema = op->schema();
    const bool view =
        def.has(Trait::GivesViews) || std::any_of(schema.returns.begin(), schema.returns.end(),
                                                  [](const Argument& r) { return r.alias && !r.alias->isWrite; });
    if (view) return 0;
    const bool heavy = def.cost != Cost::Step && def.cost != Cost::Function && def.cost != Cost::Reduction;
    if (!heavy) return isOfChangingSizes(n) ? 0 : 1;
    // Of sizes that are known it is known whether they are worth it.
    constexpr double kLeastOperations = 1e5;
    const Work work = options_.shapes ? workOf(n, *options_.shapes) : Work();
    return work.known && work.flops < kLeastOperations ? 1 : options_.minBlockSize;
  }

  // A plan for each size costs more than light nodes gain.
  bool isOfChangingSizes(const Node* n) const {
    auto changes = [this](const Value* v) { return changing_.contains(v); };
    return std::ranges::any_of(n->outputs(), changes) ||
           std::ranges::any_of(n->inputs(), [&](const Use& u) { return changes(u.value); });
  }

  // Whether the block runs inside of an engine, with the control flow that it belongs to.
  bool isInside(const BlockGraph& b) const {
    return b.block->owner() && partition_.decisions[b.block->owner()].accelerated();
  }

  void takeDecisions() {
    wholeGraph_ = true;
    for (BlockGraph& b : blocks_)
      for (size_t i = 0; i < b.size(); ++i) {
        const Node* n = b.nodes[i];
        b.accelerated[i] = partition_.decisions[n].accelerated();
        wholeGraph_ &= b.accelerated[i] || partition_.wrapping.contains(n);
        if (n->hasBlocks()) b.alone[i] = !b.accelerated[i];
        if (b.accelerated[i]) b.counts[i] = static_cast<uint32_t>(countOf(n));
      }
  }

  void tooSmall(const BlockGraph& block, const std::vector<uint32_t>& items, size_t count) {
    findSizes();
    auto nodes = [](size_t n) { return std::to_string(n) + (n == 1 ? " node" : " nodes"); };
    const size_t gains = count;
    if (options_.countsGains) {
      count = 0;
      for (uint32_t i : items) count += countWithin(block.nodes[i], partition_.given);
    }
    for (uint32_t i : items) {
      const Node* n = block.nodes[i];
      const Sizes& sizes = sizes_[n];
      std::string detail = "its engine would have " + nodes(count);
      detail += gains == count ? "," : ", of which " + std::to_string(gains) + " would gain by it, which is";
      detail += " fewer than " + std::to_string(options_.minBlockSize);
      if (options_.countsGains) detail += count == 1 ? ", and is not worth one alone" : ", none worth one alone";
      if (isOfChangingSizes(n)) detail += ": its sizes are others in each iteration of the loop, each with a plan";
      if (gains == count && sizes.joined > count)
        detail += ", until it is joined with others to one of " + nodes(sizes.joined);
      const bool minimal = strategyOfCut_ != Strategy::Minimal && sizes.minimal >= options_.minBlockSize;
      Remedy remedy(
          Remedy::Kind::LowerMinimum, {},
          {static_cast<int64_t>(sizes.joined > count ? 1 : count), minimal ? static_cast<int64_t>(sizes.minimal) : 0});
      decider_.fallBack(n, Reason::SmallBlock, std::move(detail), std::move(remedy));
    }
  }

  // A minimum that is asked for counts nodes and no gains: one that helps some engines is not to cost those there are.
  void fitMinimums() {
    // Such a minimum looks at the pieces in text order that engines are joined of.
    size_t least = SIZE_MAX;
    for (const BlockGraph& b : blocks_) {
      if (isInside(b)) continue;
      for (const std::vector<uint32_t>& piece : smallRuns(b, SIZE_MAX)) {
        size_t count = 0;
        for (uint32_t i : piece) count += countWithin(b.nodes[i], partition_.given);
        least = std::min(least, count);
      }
    }
    if (least == SIZE_MAX) return;
    forEachNode(graph_, [&](const Node* n) {
      Remedy& remedy = partition_.decisions[n].remedy;
      if (partition_.decisions[n].reason == Reason::SmallBlock && remedy.kind == Remedy::Kind::LowerMinimum)
        remedy.numbers[0] = std::min(remedy.numbers[0], static_cast<int64_t>(least));
    });
  }

  // Of the engines that there would be if none were too small.
  void findSizes() {
    if (knowsSizes_) return;
    knowsSizes_ = true;
    for (const BlockGraph& b : blocks_)
      for (bool minimal : {false, true}) {
        if (isInside(b)) continue;
        for (const Run& r : withMovedNumbers(b, runsOf(b, minimal ? Strategy::Minimal : strategyOfCut_)))
          for (uint32_t i : r.items)
            (minimal ? sizes_[b.nodes[i]].minimal : sizes_[b.nodes[i]].joined) = b.count(r.items);
      }
  }

  bool dropSmallRuns() {
    if (wholeGraph_) return false;
    bool any = false;
    for (const BlockGraph& b : blocks_) {
      if (isInside(b)) continue;
      for (const std::vector<uint32_t>& run : smallRuns(b, options_.minBlockSize)) {
        tooSmall(b, run, b.count(run));
        any = true;
      }
    }
    decider_.settle();
    return any;
  }

  bool dropSmallSegments() {
    if (wholeGraph_) return false;
    bool any = false;
    for (size_t i = 0; i < blocks_.size(); ++i)
      for (const Run& r : runs_[i])
        if (r.target == Target::Accelerated && blocks_[i].count(r.items) < options_.minBlockSize) {
          tooSmall(blocks_[i], r.items, blocks_[i].count(r.items));
          any = true;
        }
    decider_.settle();
    return any;
  }

  bool dropSplitLists() {
    NodeTable<uint32_t> run(graph_);
    uint32_t number = 0;
    for (size_t i = 0; i < blocks_.size(); ++i)
      for (const Run& r : runs_[i]) {
        ++number;
        for (uint32_t item : r.items) run[blocks_[i].nodes[item]] = number;
      }
    return decider_.dropSplitLists([&](const Node* n) { return run[n]; });
  }

  // Nodes that only make numbers and lists go to the first engine that needs them, if their own does not.
  std::vector<Run> withMovedNumbers(const BlockGraph& block, std::vector<Run> runs) {
    std::vector<uint32_t> runOf(block.size());
    for (uint32_t r = 0; r < runs.size(); ++r)
      for (uint32_t i : runs[r].items) runOf[i] = r;
    bool moved = false;
    for (uint32_t i = 0; i < block.size(); ++i) place_[block.nodes[i]] = i;
    for (uint32_t i = static_cast<uint32_t>(block.size()); i-- > 0;) {
      if (!block.accelerated[i]) continue;
      const Node* n = block.nodes[i];
      if (std::any_of(n->outputs().begin(), n->outputs().end(),
                      [&](const Value* v) { return decider_.recomputing().isTakenIn(v); }))
        continue;
      uint32_t first = UINT32_MAX;
      for (const Value* v : n->outputs())
        for (const Use& u : v->uses())
          first =
              std::min(first, u.user->block() == block.block && !u.user->isReturn() ? runOf[place_[u.user]] : runOf[i]);
      if (first == UINT32_MAX || first <= runOf[i]) continue;
      runOf[i] = first;
      moved = true;
    }
    if (!moved) return runs;
    for (Run& r : runs) r.items.clear();
    for (uint32_t i = 0; i < block.size(); ++i) runs[runOf[i]].items.push_back(i);
    std::erase_if(runs, [](const Run& r) { return r.items.empty(); });
    return merged(std::move(runs));
  }

  void write() {
    partition_.segments.clear();
    partition_.blocks.clear();
    for (size_t b = 0; b < blocks_.size(); ++b) {
      if (isInside(blocks_[b])) {
        // Outer blocks come first.
        for (const Node* n : blocks_[b].nodes)
          partition_.decisions[n].segment = partition_.decisions[blocks_[b].block->owner()].segment;
        continue;
      }
      auto first = static_cast<uint32_t>(partition_.segments.size());
      for (const Run& r : runs_[b]) {
        Segment s;
        s.id = static_cast<uint32_t>(partition_.segments.size());
        s.target = r.target;
        s.block = blocks_[b].block;
        s.doNotMerge = r.doNotMerge;
        for (uint32_t i : r.items) {
          s.nodes.push_back(blocks_[b].nodes[i]);
          partition_.decisions[blocks_[b].nodes[i]].segment = s.id;
        }
        partition_.segments.push_back(std::move(s));
      }
      partition_.blocks.push_back({blocks_[b].block, first, static_cast<uint32_t>(runs_[b].size())});
    }
    findBorders(graph_, decider_.recomputing(), partition_);
    estimate(partition_, options_);
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const PartitionOptions& options_;
  Partition partition_;
  Decider decider_;
  std::vector<BlockGraph> blocks_;
  NodeTable<uint32_t> place_;                  // in its block
  std::vector<std::vector<Run>> runs_;         // of each block
  std::unordered_set<const Value*> changing_;  // tensors whose sizes are others in each iteration of a loop
  bool wholeGraph_ = false;
  Strategy strategyOfCut_ = Strategy::Dependency;
  struct Sizes {
    size_t joined = 0, minimal = 0;
  };
  NodeTable<Sizes> sizes_;  // before the cut dropped any
  bool knowsSizes_ = false;
};

}  // namespace

GivenNodes::GivenNodes(const Graph& graph) {
  // The graph's own modules, and what they hold; not objects that something else gives.
  std::unordered_set<const Value*> ofModules(graph.inputs().begin(), graph.inputs().end());
  forEachNode(graph, [&](const Node* n) {
    if (n->kind() == sym::Constant || (n->kind() == sym::GetAttr && ofModules.contains(n->input(0))))
      ofModules.insert(n->outputs().begin(), n->outputs().end());
    else if (n->kind() == sym::GetAttr)
      attributesToo_ = false;
    if (n->kind() == sym::SetAttr || n->kind() == sym::CallMethod || n->kind() == sym::CallFunction)
      attributesToo_ = false;
  });
}

WrappingNodes::WrappingNodes(const Graph& graph) {
  static const Symbol kTaking[] = {sym::TupleUnpack, sym::TupleIndex, sym::ListUnpack, Symbol::of("aten::__getitem__")};
  auto isOneOf = [](Symbol kind, std::span<const Symbol> kinds) {
    return std::find(kinds.begin(), kinds.end(), kind) != kinds.end();
  };
  const Block* block = graph.block();
  for (const Node* n : block->nodes()) {
    if (!isOneOf(n->kind(), kTaking) || n->inputCount() == 0) continue;
    const Value* from = n->input(0);
    const bool known = from->node() ? nodes_.contains(from->node()) : from->block() == block;
    const bool fixed = std::all_of(n->inputs().begin() + 1, n->inputs().end(), [](const Use& u) {
      return u.value->node() && u.value->node()->kind() == sym::Constant;
    });
    if (known && fixed) nodes_.insert(n);
  }
  static const Symbol kMaking[] = {sym::TupleConstruct, sym::ListConstruct, sym::DictConstruct};
  std::vector<const Node*> todo{block->returnNode()};
  while (!todo.empty()) {
    const Node* user = todo.back();
    todo.pop_back();
    for (const Use& u : user->inputs()) {
      const Node* n = u.value->node();
      if (!n || n->block() != block || !isOneOf(n->kind(), kMaking) || nodes_.contains(n)) continue;
      bool handedOn = true;
      for (const Use& use : n->output()->uses()) handedOn &= use.user->isReturn() || nodes_.contains(use.user);
      if (!handedOn) continue;
      nodes_.insert(n);
      todo.push_back(n);
    }
  }
}

std::string_view targetName(Target target) { return target == Target::Accelerated ? "Accelerated" : "Fallback"; }

std::string_view strategyName(Strategy strategy) {
  constexpr std::string_view names[] = {"greedy", "dependency", "minimal", "cost"};
  return names[static_cast<size_t>(strategy)];
}

size_t Partition::count(Target target) const {
  return static_cast<size_t>(
      std::count_if(segments.begin(), segments.end(), [&](const Segment& s) { return s.target == target; }));
}
size_t countWithin(const Node* node, const GivenNodes& given) {
  size_t count = 1;
  for (Block* b : node->blocks()) forEachNode(b, [&](const Node* n) { count += !given.contains(n); });
  return count;
}

size_t Partition::count(const Segment& s) const {
  size_t count = 0;
  for (const Node* n : s.nodes) count += s.target == Target::Accelerated ? countWithin(n, given) : 1;
  return count;
}
size_t Partition::wrappingCount() const {
  size_t count = 0;
  for (const Segment& s : segments)
    if (s.target == Target::Fallback)
      count += static_cast<size_t>(
          std::count_if(s.nodes.begin(), s.nodes.end(), [&](const Node* n) { return wrapping.contains(n); }));
  return count;
}
size_t Partition::nodeCount() const {
  size_t count = 0;
  for (const Segment& s : segments) count += this->count(s);
  return count - wrappingCount();
}
size_t Partition::acceleratedCount() const {
  size_t count = 0;
  for (const Segment& s : segments)
    if (s.target == Target::Accelerated) count += this->count(s);
  return count;
}

std::vector<const Node*> Partition::causes(const Node* node, size_t most) const {
  std::vector<const Node*> chain;
  std::unordered_set<const Node*> seen{node};
  for (const Node* c = decisions[node].cause; c && chain.size() < most && seen.insert(c).second; c = decisions[c].cause)
    chain.push_back(c);
  return chain;
}

Partition segment(const Graph& graph, const OpRegistry& registry, const EngineSupport& support,
                  const PartitionOptions& options) {
  return Segmenter(graph, registry, support, options).run();
}

}  // namespace tscompile
