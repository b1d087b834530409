#include "partition/order_check.h"

#include "ir/graph/node_text.h"
#include "partition/dependencies.h"
#include "partition/stitch.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {
namespace {

// Of one block: nodes of the original graph in the order in which they now run.
struct BlockOrder {
  const Block* block;
  std::vector<const Node*> nodes;
};

// Counts writes and effects along an order, so that two orders can be compared access by access. Knows nothing of the
// edges that segments were made from.
class Clock {
 public:
  explicit Clock(const MemoryUses& memory) : memory_(memory) {}

  // What the node finds: for each location that it touches, how often that was written before; the same of effects.
  std::vector<std::pair<uint32_t, uint32_t>> pass(const Node* n) {
    constexpr uint32_t kEffects = UINT32_MAX;
    const MemoryUse& use = memory_.of(n);
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (const LocationSet* touched : {&use.reads, &use.writes})
      for (uint32_t l : touched->list()) {
        auto it = writes_.find(l);
        found.emplace_back(l, it == writes_.end() ? 0 : it->second);
      }
    if (use.effects) found.emplace_back(kEffects, effects_++);
    for (uint32_t l : use.writes.list()) ++writes_[l];
    return found;
  }

 private:
  const MemoryUses& memory_;
  std::unordered_map<uint32_t, uint32_t> writes_;
  uint32_t effects_ = 0;
};

class OrderChecker {
 public:
  OrderChecker(const Graph& graph, const OpRegistry& registry, std::string& violation)
      : graph_(graph), given_(graph), aliases_(graph, registry), memory_(graph, aliases_), violation_(violation) {
    forEachNode(graph, [&](const Node* n) {
      if (!n->hasBlocks()) written_.add(memory_.of(n).writes);
    });
  }

  bool check(const std::vector<BlockOrder>& orders) {
    std::unordered_set<const Block*> seen;
    for (const BlockOrder& o : orders) {
      seen.insert(o.block);
      if (!checkBlock(o)) return false;
    }
    bool all = seen.contains(graph_.block());
    forEachNode(graph_, [&](const Node* n) {
      for (const Block* b : n->blocks()) all &= seen.contains(b);
    });
    return all || fail("a block is missing");
  }

  const GivenNodes& given() const { return given_; }

 private:
  bool fail(std::string what) {
    violation_ = std::move(what);
    return false;
  }

  // Gives the same wherever it runs.
  bool isTimeless(const Node* n) const {
    const MemoryUse& use = memory_.of(n);
    bool holds = n->kind() == sym::ListConstruct || n->kind() == sym::TupleConstruct;
    return !use.moreThanRaises && use.writes.empty() && (holds || !use.reads.intersects(written_));
  }

  bool checkBlock(const BlockOrder& order) {
    std::unordered_map<const Node*, std::vector<std::pair<uint32_t, uint32_t>>> expected;
    Clock original(memory_);
    for (const Node* n : order.block->nodes())
      if (!given_.contains(n)) expected[n] = original.pass(n);
    Clock now(memory_);
    std::unordered_set<const Node*> done;
    for (const Node* n : order.nodes) {
      if (!isMade(n, order.block, done)) return false;
      bool timeless = isTimeless(n);
      if (n->block() != order.block) {
        if (!timeless) return fail(nodeName(n) + " runs inside another block");
        done.insert(n);
        continue;
      }
      if (!done.insert(n).second) {
        if (!timeless) return fail(nodeName(n) + " runs twice");
        continue;
      }
      const bool first = !timeless || memory_.of(n).effects;
      if (first && now.pass(n) != expected[n]) return fail(nodeName(n) + " finds other memory than before");
    }
    for (const auto& [n, access] : expected)
      if (!done.contains(n)) return fail(nodeName(n) + " does not run");
    return true;
  }

  // Whether all that the node takes of its own block, blocks inside included, was made before.
  bool isMade(const Node* n, const Block* block, const std::unordered_set<const Node*>& done) {
    const Node* missing = nullptr;
    auto look = [&](std::span<const Use> uses) {
      for (const Use& u : uses) {
        const Node* from = u.value->node();
        if (from && from->block() == block && from != n && !given_.contains(from) && !done.contains(from))
          missing = from;
      }
    };
    look(n->inputs());
    for (Block* b : n->blocks()) {
      look(b->results());
      forEachNode(b, [&](const Node* inner) {
        look(inner->inputs());
        for (const Block* deeper : inner->blocks()) look(deeper->results());
      });
    }
    return !missing || fail(nodeName(n) + " runs before " + nodeName(missing) + ", which it needs");
  }

  const Graph& graph_;
  GivenNodes given_;
  AliasAnalysis aliases_;
  MemoryUses memory_;
  LocationSet written_;
  std::string& violation_;
};

// Finds the nodes of a stitched graph in the original.
class NodeFinder {
 public:
  explicit NodeFinder(const Graph& graph) {
    forEachNode(graph, [&](const Node* n) { known_[keyOf(n)].push_back(n); });
  }

  // `block`: where it should have been, for nodes without names of their own.
  const Node* find(const Node* n, const Block* block) {
    auto it = known_.find(keyOf(n));
    if (it == known_.end()) return nullptr;
    if (n->outputCount()) return it->second[0];
    std::vector<const Node*> candidates;
    for (const Node* c : it->second)
      if (c->block() == block) candidates.push_back(c);
    if (const Node* owner = ownerOfWhatIsInside(n, candidates)) return owner;
    // Nodes without outputs that look the same are taken in text order.
    std::vector<const Node*> alike;
    for (const Node* candidate : candidates)
      if (!n->hasBlocks() || !ownerOfWhatIsInside(candidate, {candidate})) alike.push_back(candidate);
    if (alike.empty()) return nullptr;
    return alike[std::min(taken_[{it->first, block}]++, alike.size() - 1)];
  }

 private:
  // The candidate in whose blocks the named nodes inside `n` were.
  const Node* ownerOfWhatIsInside(const Node* n, const std::vector<const Node*>& candidates) const {
    const Node* found = nullptr;
    // `levels`: how many blocks of `n` are around the node.
    auto look = [&](const Node* inner, size_t levels) {
      if (found || inner->outputCount() == 0 || inner->kind() == sym::Constant) return;
      auto it = known_.find(keyOf(inner));
      if (it == known_.end()) return;
      const Block* b = it->second[0]->block();
      for (; levels > 1 && b; --levels) b = b->parent();
      if (b && std::find(candidates.begin(), candidates.end(), b->owner()) != candidates.end()) found = b->owner();
    };
    for (Block* b : n->blocks())
      forEachNode(b, [&](const Node* inner) {
        size_t levels = inner->block()->depth() - n->block()->depth();
        if (inner->kind() != sym::Engine || !inner->subgraph()) return look(inner, levels);
        const size_t outside = inner->subgraph()->block()->depth();
        forEachNode(*inner->subgraph(),
                    [&](const Node* deeper) { look(deeper, levels + deeper->block()->depth() - outside); });
      });
    return found;
  }

  static std::string keyOf(const Node* n) {
    std::string key(n->kind().text());
    if (n->outputCount()) return key + "%" + n->output()->name();
    for (const Use& u : n->inputs()) key += " %" + u.value->name();
    return key;
  }
  std::map<std::string, std::vector<const Node*>> known_;
  std::map<std::pair<std::string, const Block*>, size_t> taken_;
};

}  // namespace

bool keepsOrder(const Graph& graph, const OpRegistry& registry, const Partition& partition, std::string& violation) {
  std::vector<BlockOrder> orders;
  // What is inside of an engine's control flow keeps its order.
  std::vector<BlockOrder> inside;
  auto asWritten = [&](const Block* b) {
    inside.push_back({b, {}});
    for (const Node* n : b->nodes())
      if (!partition.given.contains(n)) inside.back().nodes.push_back(n);
  };
  for (const Partition::BlockSegments& b : partition.blocks) {
    orders.push_back({b.block, {}});
    for (uint32_t i = 0; i < b.count; ++i) {
      const Segment& s = partition.segments[b.first + i];
      for (const auto* nodes : {&s.recomputed, &s.nodes})
        orders.back().nodes.insert(orders.back().nodes.end(), nodes->begin(), nodes->end());
      if (s.target != Target::Accelerated) continue;
      for (const Node* n : s.nodes)
        for (Block* own : n->blocks()) {
          asWritten(own);
          forEachNode(own, [&](const Node* inner) {
            for (const Block* deeper : inner->blocks()) asWritten(deeper);
          });
        }
    }
  }
  orders.insert(orders.end(), inside.begin(), inside.end());
  return OrderChecker(graph, registry, violation).check(orders);
}

bool keepsOrder(const Graph& graph, const OpRegistry& registry, const Graph& stitched, std::string& violation) {
  OrderChecker checker(graph, registry, violation);
  NodeFinder finder(graph);
  std::vector<BlockOrder> orders{{graph.block(), {}}};
  std::unordered_map<const Block*, size_t> orderOf{{stitched.block(), 0}};
  bool known = true;
  auto place = [&](const Node* n, size_t order) {
    if (checker.given().contains(n)) return;
    const Node* original = finder.find(n, orders[order].block);
    if (!original || original->blocks().size() != n->blocks().size()) {
      violation = nodeName(n) + " is not in the original graph";
      known = false;
      return;
    }
    orders[order].nodes.push_back(original);
    for (size_t b = 0; b < n->blocks().size(); ++b) {
      orderOf[n->block(b)] = orders.size();
      orders.push_back({original->block(b), {}});
    }
  };
  forEachNode(stitched, [&](const Node* n) {
    if (!known) return;
    size_t order = orderOf.at(n->block());
    if (n->kind() != sym::Engine || !n->subgraph()) return place(n, order);
    const Block* whole = n->subgraph()->block();
    forEachNode(*n->subgraph(), [&](const Node* inner) {
      if (known) place(inner, inner->block() == whole ? order : orderOf.at(inner->block()));
    });
  });
  return known && checker.check(orders);
}

}  // namespace tscompile
