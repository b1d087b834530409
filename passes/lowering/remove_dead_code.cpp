// Removes what nothing needs: nodes, outputs of If and Loop, values that a loop only hands to itself.
#include "passes/lowering/clean_up.h"

#include <algorithm>
#include <limits>
#include <unordered_map>

namespace tscompile {
namespace {

// Mark and sweep: marks what is needed, from results and effects backwards; then removes the rest.
class DeadCode {
 public:
  DeadCode(Graph& graph, RewriteContext& context)
      : graph_(graph), facts_(context.facts), neededNodes_(graph), neededValues_(graph) {}

  bool run() {
    forEachNode(graph_, [this](Node* n) { nodes_.push_back(n); });
    findRoots();
    mark();
    return sweep();
  }

 private:
  // ---- marking ----

  void findRoots() {
    std::vector<Node*> writers;
    for (Node* n : nodes_) {
      if (n->hasBlocks() && (n->kind() == sym::If || n->kind() == sym::Loop)) continue;
      if (!n->hasBlocks() && facts_.isPure(n)) {
        if (mayEndLoop(n)) need(n);
        continue;
      }
      if (writesOnly(n))
        writers.push_back(n);
      else
        need(n);
    }
    for (const Use& u : graph_.outputs()) need(u.value);
    // Only graphs with in-place operators need to know what shares memory.
    if (writers.empty()) return;
    aliases_ = &facts_.aliases();
    for (Node* n : writers) {
      if (aliases_->hasEffects(n)) {
        need(n);
        continue;
      }
      LocationSet written = aliases_->writes(n);
      for (uint32_t location : written.list()) waiting_[location].push_back(n);
    }
    for (const Use& u : graph_.outputs()) needMemory(aliases_->reachable(u.value));
  }

  // Whether the node gives numbers, and may raise instead, in a loop that nothing bounds, which may then have no other
  // end. What gives tensors goes: it costs time, and rewrites leave such nodes behind.
  bool mayEndLoop(const Node* n) {
    if (!isInUnboundedLoop(n) || GraphFacts::isStructural(n->kind())) return false;
    const Operator* op = facts_.resolve(n);
    return op && !op->has(Trait::ReadsSizes) && !op->has(Trait::ReadsOptions) &&
           std::ranges::none_of(n->outputs(), [](const Value* v) { return AliasAnalysis::canRefer(v->type()); });
  }
  bool isInUnboundedLoop(const Node* n) {
    bool found = false;
    while ((n = n->block()->owner()) && !found)
      found = n->kind() == sym::Loop && facts_.integer(n->input(0)) == std::numeric_limits<int64_t>::max();
    return found;
  }

  // Whether writing to its arguments is all that keeps the node from being pure.
  bool writesOnly(const Node* n) {
    const Operator* op = n->hasBlocks() ? nullptr : facts_.resolve(n);
    return op && op->isImplemented() && !op->has(Trait::SideEffects) && !op->drawsRandom(*n);
  }

  void need(Value* v) {
    if (neededValues_[v]) return;
    neededValues_[v] = true;
    values_.push_back(v);
  }
  void need(Node* n) {
    if (neededNodes_[n]) return;
    neededNodes_[n] = true;
    pending_.push_back(n);
  }
  // Somebody reads this memory, so what writes it matters.
  void needMemory(const LocationSet& locations) {
    for (uint32_t location : locations.list()) {
      auto it = waiting_.find(location);
      if (it == waiting_.end()) continue;
      std::vector<Node*> writers = std::move(it->second);
      waiting_.erase(it);
      for (Node* n : writers) need(n);
    }
  }

  void mark() {
    while (!pending_.empty() || !values_.empty()) {
      if (!pending_.empty()) {
        Node* n = pending_.back();
        pending_.pop_back();
        follow(n);
      } else {
        Value* v = values_.back();
        values_.pop_back();
        follow(v);
      }
    }
  }
  // What a node needs, whichever of its outputs are.
  void follow(Node* n) {
    if (Node* owner = n->block()->owner()) need(owner);
    if (n->kind() == sym::Loop) {
      need(n->input(0));
      need(n->input(1));
      need(n->block(0)->result(0));
      return;
    }
    for (const Use& u : n->inputs()) need(u.value);
    if (n->kind() == sym::If) return;
    for (Block* b : n->blocks())  // of a kind that nobody knows
      for (const Use& u : b->results()) need(u.value);
    if (aliases_) needMemory(aliases_->reads(n));
  }
  void follow(Value* v) {
    Node* n = v->node();
    if (!n) {
      Node* owner = v->block()->owner();
      if (owner) need(owner);
      if (owner && owner->kind() == sym::Loop && v->index() > 0) needCarried(owner, v->index() - 1);
      return;
    }
    need(n);
    if (n->kind() == sym::Loop) needCarried(n, v->index());
    if (n->kind() == sym::If)
      for (Block* b : n->blocks()) need(b->result(v->index()));
  }
  void needCarried(Node* loop, size_t i) {
    need(loop->input(i + 2));
    need(loop->block(0)->result(i + 1));
  }

  // ---- sweeping ----

  bool carriedIsNeeded(const Node* loop, size_t i) {
    return neededValues_[loop->output(i)] || neededValues_[loop->block(0)->parameter(i + 1)];
  }

  // Later nodes first, so that nothing that goes is still in use.
  bool sweep() {
    bool changed = false;
    for (Node* n : nodes_)
      if (n->hasBlocks()) changed |= dropResults(n);
    for (size_t i = nodes_.size(); i-- > 0;) {
      Node* n = nodes_[i];
      if (!neededNodes_[n]) {
        n->destroy();
        changed = true;
      } else if (n->kind() == sym::If) {
        for (size_t o = n->outputCount(); o-- > 0;)
          if (!neededValues_[n->output(o)]) n->removeOutput(o);
      } else if (n->kind() == sym::Loop) {
        for (size_t o = n->outputCount(); o-- > 0;) {
          if (carriedIsNeeded(n, o)) continue;
          n->removeOutput(o);
          n->block(0)->removeParameter(o + 1);
        }
      }
    }
    return changed;
  }

  // Gives up the uses by results that nobody needs.
  bool dropResults(Node* n) {
    if (!neededNodes_[n]) {
      for (Block* b : n->blocks()) b->returnNode()->removeAllInputs();
      return true;
    }
    bool changed = false;
    if (n->kind() == sym::If)
      for (size_t o = n->outputCount(); o-- > 0;) {
        if (neededValues_[n->output(o)]) continue;
        for (Block* b : n->blocks()) b->returnNode()->removeInput(o);
        changed = true;
      }
    if (n->kind() == sym::Loop)
      for (size_t o = n->outputCount(); o-- > 0;) {
        if (carriedIsNeeded(n, o)) continue;
        n->block(0)->returnNode()->removeInput(o + 1);
        n->removeInput(o + 2);
        changed = true;
      }
    return changed;
  }

  Graph& graph_;
  GraphFacts& facts_;
  const AliasAnalysis* aliases_ = nullptr;
  std::vector<Node*> nodes_;  // in text order
  NodeTable<bool> neededNodes_;
  ValueTable<bool> neededValues_;
  std::vector<Node*> pending_;  // marked, but not yet what they need
  std::vector<Value*> values_;  // the same
  // Nodes that write memory of the graph's own, until somebody reads it.
  std::unordered_map<uint32_t, std::vector<Node*>> waiting_;
};

}  // namespace

bool removeDeadCode(Graph& graph, RewriteContext& context) {
  bool changed = DeadCode(graph, context).run();
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
