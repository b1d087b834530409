#include "partition/dependencies.h"

#include <unordered_map>
#include <unordered_set>

namespace tscompile {

MemoryUses::MemoryUses(const Graph& graph, const AliasAnalysis& aliases) : uses_(1), index_(graph) {
  bool writes = aliases.graphHasWrites();
  std::vector<const Node*> order;
  forEachNode(graph, [&](const Node* n) {
    order.push_back(n);
    if (n->hasBlocks() || n->kind() == sym::Constant) return;
    MemoryUse use;
    use.effects = aliases.hasEffects(n);
    use.moreThanRaises = use.effects && n->kind() != sym::RaiseException;
    if (writes) {
      use.reads = aliases.reads(n);
      use.writes = aliases.writes(n);
    }
    if (!use.effects && use.reads.empty() && use.writes.empty()) return;
    any_ = true;
    index_[n] = static_cast<uint32_t>(uses_.size());
    uses_.push_back(std::move(use));
  });
  if (!any_) return;
  // From the inside out: a node with blocks does what the nodes inside do, and reads what its blocks give.
  for (size_t i = order.size(); i-- > 0;) {
    const Node* n = order[i];
    if (n->hasBlocks() && writes) {
      if (index_[n] == 0) {
        index_[n] = static_cast<uint32_t>(uses_.size());
        uses_.emplace_back();
      }
      for (const Block* b : n->blocks())
        for (const Use& u : b->results()) uses_[index_[n]].reads.add(aliases.reachable(u.value));
    }
    const Node* owner = n->block()->owner();
    if (!owner || index_[n] == 0) continue;
    if (index_[owner] == 0) {
      index_[owner] = static_cast<uint32_t>(uses_.size());
      uses_.emplace_back();
    }
    const MemoryUse& inner = uses_[index_[n]];
    MemoryUse& outer = uses_[index_[owner]];
    outer.reads.add(inner.reads);
    outer.writes.add(inner.writes);
    outer.effects |= inner.effects;
    outer.moreThanRaises |= inner.moreThanRaises;
  }
}

class DependencyBuilder {
 public:
  DependencyBuilder(const Graph& graph, const GivenNodes& given, const MemoryUses& memory)
      : graph_(graph), given_(given), memory_(memory), place_(graph) {}

  std::vector<BlockGraph> build() {
    findBlocks();
    if (memory_.any()) findWritten();
    std::vector<BlockGraph> out;
    for (const Block* b : blocks_) out.push_back(start(b));
    addUses(out);
    if (memory_.any())
      for (BlockGraph& b : out) addConflicts(b);
    for (size_t i = 0; i < out.size(); ++i) finish(out[i], pairs_[i]);
    return out;
  }

 private:
  using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;  // user, what it depends on

  void findBlocks() {
    blockIndex_ = BlockTable<uint32_t>(graph_);
    auto add = [&](const Block* b) {
      blockIndex_[b] = static_cast<uint32_t>(blocks_.size());
      blocks_.push_back(b);
    };
    add(graph_.block());
    forEachNode(graph_, [&](const Node* n) {
      for (const Block* b : n->blocks()) add(b);
    });
    pairs_.resize(blocks_.size());
  }

  void findWritten() {
    forEachNode(graph_, [&](const Node* n) {
      if (n->hasBlocks()) return;
      for (uint32_t l : memory_.of(n).writes.list()) written_.insert(l);
    });
  }

  BlockGraph start(const Block* block) {
    BlockGraph g;
    g.block = block;
    for (const Node* n : block->nodes()) {
      if (given_.contains(n)) continue;
      place_[n] = static_cast<uint32_t>(g.nodes.size());
      g.nodes.push_back(n);
      g.alone.push_back(n->hasBlocks());
    }
    g.accelerated.assign(g.nodes.size(), false);
    return g;
  }

  // A use inside blocks is one of the node around them, in the block where the value is defined.
  void addUses(std::vector<BlockGraph>& graphs) {
    auto uses = [&](const Node* user) {
      for (const Use& u : user->inputs()) {
        const Node* from = u.value->node();
        if (!from || given_.contains(from)) continue;
        const Node* at = user;
        while (at->block() != from->block()) at = at->block()->owner();
        if (at->isReturn()) continue;
        pairs_[blockIndex_[from->block()]].emplace_back(place_[at], place_[from]);
      }
    };
    for (const BlockGraph& g : graphs) {
      for (const Node* n : g.nodes) uses(n);
      uses(g.block->returnNode());
    }
  }

  struct Access {
    static constexpr uint32_t kNone = UINT32_MAX;
    uint32_t writer = kNone;
    std::vector<uint32_t> readers;  // since it was written
  };

  void addConflicts(BlockGraph& g) {
    std::unordered_map<uint32_t, Access> accesses;
    Pairs& pairs = pairs_[blockIndex_[g.block]];
    uint32_t lastEffect = Access::kNone;
    for (uint32_t i = 0; i < g.nodes.size(); ++i) {
      const MemoryUse& use = memory_.of(g.nodes[i]);
      for (uint32_t l : use.writes.list()) {
        Access& a = accesses[l];
        if (a.writer != Access::kNone) pairs.emplace_back(i, a.writer);
        for (uint32_t r : a.readers) pairs.emplace_back(i, r);
        a.writer = i;
        a.readers.clear();
      }
      for (uint32_t l : use.reads.list()) {
        if (!written_.contains(l)) continue;
        Access& a = accesses[l];
        if (a.writer == i) continue;
        if (a.writer != Access::kNone) pairs.emplace_back(i, a.writer);
        a.readers.push_back(i);
      }
      if (!use.effects) continue;
      if (lastEffect != Access::kNone) pairs.emplace_back(i, lastEffect);
      lastEffect = i;
    }
  }

  static void finish(BlockGraph& g, const Pairs& pairs) {
    g.starts_.assign(g.nodes.size() + 1, 0);
    for (auto [user, from] : pairs) ++g.starts_[user + 1];
    for (size_t i = 0; i < g.nodes.size(); ++i) g.starts_[i + 1] += g.starts_[i];
    g.edges_.resize(pairs.size());
    std::vector<uint32_t> next(g.starts_.begin(), g.starts_.end());
    for (auto [user, from] : pairs) g.edges_[next[user]++] = from;
  }

  const Graph& graph_;
  const GivenNodes& given_;
  const MemoryUses& memory_;
  NodeTable<uint32_t> place_;
  std::vector<const Block*> blocks_;
  BlockTable<uint32_t> blockIndex_;
  std::vector<Pairs> pairs_;
  std::unordered_set<uint32_t> written_;
};

std::vector<BlockGraph> dependenciesOf(const Graph& graph, const GivenNodes& given, const MemoryUses& memory) {
  return DependencyBuilder(graph, given, memory).build();
}

BlockGraph blockGraphOf(std::vector<bool> accelerated, const std::vector<std::vector<uint32_t>>& predecessors) {
  BlockGraph g;
  g.nodes.assign(accelerated.size(), nullptr);
  g.alone.assign(accelerated.size(), false);
  g.accelerated = std::move(accelerated);
  g.starts_.push_back(0);
  for (const auto& list : predecessors) {
    g.edges_.insert(g.edges_.end(), list.begin(), list.end());
    g.starts_.push_back(static_cast<uint32_t>(g.edges_.size()));
  }
  return g;
}

}  // namespace tscompile
