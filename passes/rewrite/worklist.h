// Which nodes a plan looks at, in which order, and which rewrites are asked about each.
#pragma once

#include "ir/graph/edit_log.h"
#include "ir/graph/side_table.h"
#include "passes/rewrite/plan.h"

#include <deque>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace tscompile {

// Which rewrites are asked about a node: a small hash table from kinds, so that a node that none wants costs little.
class Dispatch {
 public:
  Dispatch(const std::vector<NodeRewrite>& rewrites, const KindTable& table);

  const std::vector<const NodeRewrite*>& of(Symbol kind) const {
    const Slot& slot = slots_[place(kind)];
    if (slot.kind == kind) return slot.rewrites;
    return wildcards_.empty() ? everywhere_ : byWildcard(kind);
  }
  bool wants(Symbol kind) const { return !of(kind).empty(); }

 private:
  struct Slot {
    Symbol kind;
    std::vector<const NodeRewrite*> rewrites;
  };
  size_t place(Symbol kind) const {
    size_t mask = slots_.size() - 1;
    size_t i = kind.hash() & mask;
    while (!slots_[i].kind.empty() && !(slots_[i].kind == kind)) i = (i + 1) & mask;
    return i;
  }
  const std::vector<const NodeRewrite*>& byWildcard(Symbol kind) const;  // of kinds that no rewrite names
  std::vector<Slot> slots_;
  std::vector<const NodeRewrite*> everywhere_;
  std::vector<std::pair<const NodeRewrite*, std::vector<Symbol>>> wildcards_;  // all rewrites, if one has "aten::*"
  mutable std::unordered_map<Symbol, std::vector<const NodeRewrite*>> others_;
};

// The nodes that none of these values is computed by; none if there are no values.
NodeTable<bool> nodesApartFrom(const Graph& graph, const std::vector<const Value*>& values);

// Nodes that are still to be looked at, each at most once at a time.
class Worklist : public EditObserver {
 public:
  Worklist(EditLog& log, const Dispatch& dispatch, Revisit revisit)
      : log_(log), dispatch_(dispatch), revisit_(revisit), waiting_(log.graph()) {
    log_.attach(this);
  }
  ~Worklist() override { log_.detach(this); }

  void fill(Graph& graph, Order order, uint64_t seed, const NodeTable<bool>& leftOut);
  Node* take(bool fromBack) {
    while (!queue_.empty()) {
      Node* n = fromBack ? queue_.back() : queue_.front();
      fromBack ? queue_.pop_back() : queue_.pop_front();
      waiting_[n] = false;
      pushed_ = 0;
      lookAhead(fromBack);
      if (n->isInserted() && !n->isDestroyed()) return n;
    }
    return nullptr;
  }

  void imported(Node* n) override {
    // What comes back with a change that is taken back was seen.
    if (log_.isTakingBack()) return;
    if (revisit_ == Revisit::OneSweep) made_.insert(n);
    if (revisit_ != Revisit::None && revisit_ != Revisit::OneSweep && dispatch_.wants(n->kind())) push(n);
  }
  // In one sweep: what is not to be matched again.
  const std::unordered_set<const Node*>* made() const { return revisit_ == Revisit::OneSweep ? &made_ : nullptr; }
  void inputChanged(Node* n, size_t, Value* before, Value* after) override {
    if (revisit_ == Revisit::CreatedAndUsers && !log_.isTakingBack() && before && after && !n->isReturn() &&
        dispatch_.wants(n->kind()))
      push(n);
  }
  // Nodes that are gone with it are among the last; the next change may free them.
  void takenBack(size_t) override;

 private:
  // Begins to load what the next rewrites will look at: in large graphs most of the time goes into waiting for memory.
  void lookAhead(bool fromBack) const;
  void push(Node* n) {
    if (waiting_[n]) return;
    waiting_[n] = true;
    ++pushed_;
    queue_.push_back(n);
  }
  EditLog& log_;
  const Dispatch& dispatch_;
  Revisit revisit_;
  NodeTable<bool> waiting_;
  std::deque<Node*> queue_;
  size_t pushed_ = 0;  // since the last one was taken
  std::unordered_set<const Node*> made_;
};

}  // namespace tscompile
