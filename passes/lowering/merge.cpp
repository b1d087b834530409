// Equal computations become one (value numbering by hash-consing), and equal constants one at the top of the graph.
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/edits.h"

#include <algorithm>

namespace tscompile {
namespace {

// Which values are written, and which memory the caller gets to see, or the graph compares: sharing may not become
// visible.
class Visibility {
 public:
  Visibility(Graph& graph, GraphFacts& facts) : facts_(facts), escapes_(graph) {
    forEachNode(graph, [this](Node* n) {
      if (facts_.asksForIdentity(n) && !hasNone(n))
        for (const Use& u : n->inputs()) escape(u.value);
      if (!mayWrite(n)) return;
      writes_ = true;
      if (mayKeep(n))
        for (const Use& u : n->inputs()) escape(u.value);
    });
    for (const Use& u : graph.outputs()) escape(u.value);
    while (!todo_.empty()) {
      Value* v = todo_.back();
      todo_.pop_back();
      follow(v);
    }
  }

  // What the node makes or reads.
  bool isWritten(const Node* n) { return writes_ && !facts_.isUndisturbed(n); }

  // Whether one node may stand for both, whose memory nobody writes. Two results that the caller gets stay two.
  bool mayBeOne(const Node* a, const Node* b) {
    if (a->kind() == sym::GetAttr) return true;
    for (size_t i = 0; i < a->outputCount(); ++i)
      if (escapes_[a->output(i)] && escapes_[b->output(i)]) return false;
    return true;
  }
  void becomesOne(const Node* kept, const Node* gone) {
    for (size_t i = 0; i < kept->outputCount(); ++i)
      if (escapes_[gone->output(i)]) escapes_[kept->output(i)] = true;
  }

 private:
  static bool hasNone(const Node* n) {
    return std::ranges::any_of(n->inputs(), [](const Use& u) { return u.value->type()->is(TypeKind::None); });
  }
  bool mayWrite(Node* n) {
    if (n->hasBlocks() || facts_.isPure(n)) return false;
    if (n->kind() == sym::RaiseException) return false;
    const Operator* op = facts_.resolve(n);
    return !op || !op->isImplemented() || op->schema().isMutable() || op->trains(*n);
  }

  // Whether what it is given may end up in a container or object.
  bool mayKeep(const Node* n) {
    if (!facts_.resolve(n)) return true;
    for (const Use& u : n->inputs())
      if (AliasAnalysis::canRefer(u.value->type()) && !u.value->type()->isTensor()) return true;
    return false;
  }

  void escape(Value* v) {
    if (escapes_[v] || !AliasAnalysis::canRefer(v->type())) return;
    escapes_[v] = true;
    todo_.push_back(v);
  }
  // What the value may share memory with, or hold.
  void follow(Value* v) {
    Node* n = v->node();
    if (!n) {
      Node* owner = v->block()->owner();
      if (owner && owner->kind() == sym::Loop && v->index() > 0) carried(owner, v->index() - 1);
      return;
    }
    if (n->kind() == sym::Loop) return carried(n, v->index());
    if (n->hasBlocks()) {
      for (Block* b : n->blocks())
        if (v->index() < b->results().size()) escape(b->result(v->index()));
      return;
    }
    // New lists may hold what other lists do.
    if (n->kind() == sym::Constant || (v->type()->isTensor() && facts_.isFresh(n))) return;
    for (const Use& u : n->inputs()) escape(u.value);
  }
  void carried(Node* loop, size_t i) {
    escape(loop->input(i + 2));
    escape(loop->block(0)->result(i + 1));
  }

  GraphFacts& facts_;
  bool writes_ = false;
  ValueTable<bool> escapes_;
  std::vector<Value*> todo_;
};

// Whether values of these types may become one: tensors, if one type says all that the other does.
bool comparable(TypePtr a, TypePtr b) {
  return a == b || (a->isTensor() && b->isTensor() && (isSubtype(a, b) || isSubtype(b, a)));
}

uint64_t hashOfTypes(const Node* n) {
  uint64_t h = 0;
  for (const Value* v : n->outputs()) h = hashCombine(h, v->type()->isTensor() ? 1 : v->type()->hash());
  return h;
}

// Nodes by what they compute. What was added last can be taken out again, as scopes end.
class Candidates {
 public:
  Candidates() : heads_(64, kEnd) {}

  size_t size() const { return entries_.size(); }
  void shrink(size_t size) {
    while (entries_.size() > size) {
      heads_[entries_.back().hash & (heads_.size() - 1)] = entries_.back().next;
      entries_.pop_back();
    }
  }
  void add(uint64_t hash, Node* n) {
    if (entries_.size() >= heads_.size()) grow();
    entries_.push_back({hash, n, kEnd});
    link(entries_.size() - 1);
  }
  template <class Fits>
  Node* find(uint64_t hash, Fits&& fits) const {
    for (size_t i = heads_[hash & (heads_.size() - 1)]; i != kEnd; i = entries_[i].next)
      if (entries_[i].hash == hash && fits(entries_[i].node)) return entries_[i].node;
    return nullptr;
  }

 private:
  static constexpr size_t kEnd = SIZE_MAX;
  struct Entry {
    uint64_t hash;
    Node* node;
    size_t next;
  };
  void link(size_t at) {
    Entry& e = entries_[at];
    size_t& head = heads_[e.hash & (heads_.size() - 1)];
    e.next = head;
    head = at;
  }
  void grow() {
    heads_.assign(heads_.size() * 2, kEnd);
    for (size_t i = 0; i < entries_.size(); ++i) link(i);
  }

  std::vector<size_t> heads_;
  std::vector<Entry> entries_;
};

class Merger {
 public:
  Merger(Graph& graph, RewriteContext& context) : graph_(graph), facts_(context.facts), visible_(graph, facts_) {
    auto it = context.arguments.find("commutative");
    commutative_ = it != context.arguments.end() && it->second.isBool() && it->second.toBool();
  }

  // In text order: when a node's turn comes, its inputs have been merged. Nodes of the blocks around it that stand
  // before it dominate it.
  bool run() {
    struct Open {
      Node* node;
      size_t block, size;
    };
    std::vector<Open> stack;
    Node* n = graph_.block()->first();
    while (true) {
      if (n && n->hasBlocks()) {
        stack.push_back({n, 0, candidates_.size()});
        n = n->block(0)->first();
        continue;
      }
      if (n) {
        Node* next = n->next();
        visit(n);
        n = next;
        continue;
      }
      if (stack.empty()) return changed_;
      Open& open = stack.back();
      candidates_.shrink(open.size);
      if (++open.block < open.node->blocks().size()) {
        n = open.node->block(open.block)->first();
      } else {
        n = open.node->next();
        stack.pop_back();
      }
    }
  }

 private:
  void visit(Node* n) {
    if (n->outputCount() == 0 || !facts_.isPure(n) || visible_.isWritten(n)) return;
    bool swap = commutative_ && n->inputCount() >= 2 && isCommutative(n);
    uint64_t hash = hashOf(n, swap);
    Node* twin = candidates_.find(hash, [&](Node* other) { return equal(other, n, swap); });
    if (!twin) return candidates_.add(hash, n);
    if (!visible_.mayBeOne(twin, n)) return;
    visible_.becomesOne(twin, n);
    for (size_t i = 0; i < n->outputCount(); ++i) {
      // What is known of a value in a branch need not hold outside.
      bool everywhere = n->block() == twin->block() || n->kind() == sym::Constant;
      if (everywhere && isSubtype(n->output(i)->type(), twin->output(i)->type()))
        twin->output(i)->setType(n->output(i)->type());
      replaceValue(n->output(i), twin->output(i));
    }
    n->destroy();
    changed_ = true;
  }

  // `a + alpha * b` commutes only with alpha 1.
  bool isCommutative(const Node* n) {
    const Operator* op = facts_.resolve(n);
    if (!op || !op->has(Trait::Commutative)) return false;
    return n->inputCount() < 3 || (n->inputCount() == 3 && facts_.number(n->input(2)) == 1.0);
  }

  static uint64_t hashOf(const Node* n, bool swap) {
    uint64_t h = hashCombine(n->kind().hash(), hashOfAttributes(*n) + hashOfTypes(n));
    size_t i = 0;
    if (swap) {
      h = hashCombine(h, uint64_t{Graph::idOf(n->input(0))} + Graph::idOf(n->input(1)));
      i = 2;
    }
    for (; i < n->inputCount(); ++i) h = hashCombine(h, Graph::idOf(n->input(i)));
    return h;
  }

  static bool equal(const Node* a, const Node* b, bool swap) {
    if (a->kind() != b->kind() || a->inputCount() != b->inputCount() || a->outputCount() != b->outputCount())
      return false;
    size_t i = 0;
    if (swap) {
      bool crossed = a->input(0) == b->input(1) && a->input(1) == b->input(0);
      bool straight = a->input(0) == b->input(0) && a->input(1) == b->input(1);
      if (!crossed && !straight) return false;
      i = 2;
    }
    for (; i < a->inputCount(); ++i)
      if (a->input(i) != b->input(i)) return false;
    for (size_t o = 0; o < a->outputCount(); ++o)
      if (!comparable(a->output(o)->type(), b->output(o)->type())) return false;
    return sameAttributes(*a, *b);
  }

  Graph& graph_;
  GraphFacts& facts_;
  Visibility visible_;
  Candidates candidates_;
  bool commutative_ = false, changed_ = false;
};

}  // namespace

bool mergeCommonSubexpressions(Graph& graph, RewriteContext& context) {
  bool changed = Merger(graph, context).run();
  if (changed) context.facts.refresh();
  return changed;
}

bool poolConstants(Graph& graph, RewriteContext& context) {
  std::vector<Node*> constants;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::Constant && n->outputCount() == 1) constants.push_back(n);
  });
  Visibility visible(graph, context.facts);
  Candidates pool;
  Node* last = nullptr;
  bool changed = false;
  for (Node* n : constants) {
    if (visible.isWritten(n)) continue;
    uint64_t hash = hashCombine(hashOfAttributes(*n), hashOfTypes(n));
    Value* v = n->output();
    Node* twin = pool.find(hash, [&](Node* other) {
      return comparable(other->output()->type(), v->type()) && sameAttributes(*other, *n);
    });
    if (twin && visible.mayBeOne(twin, n)) {
      visible.becomesOne(twin, n);
      if (isSubtype(v->type(), twin->output()->type())) twin->output()->setType(v->type());
      replaceValue(v, twin->output());
      n->destroy();
      changed = true;
      continue;
    }
    if (!twin) pool.add(hash, n);
    Node* place = last ? last->next() : graph.block()->first();
    if (place != n) {
      n->moveBefore(place);
      changed = true;
    }
    last = n;
  }
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
