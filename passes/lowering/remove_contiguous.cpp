// Removes aten::contiguous where nobody can tell: no node asks later for the strides of the value or of something made
// from it, no memory is written that it may share or not, and the caller gets none of it.
#include "ir/graph/side_table.h"
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

// Operators that tell a tensor from another one with the same elements.
bool tellsApart(const Node* n, GraphFacts& facts) { return facts.asksForStrides(n) || facts.asksForIdentity(n); }

// Results that lie in memory the same way however the arguments do.
bool setsStrides(const Node* n, GraphFacts& facts) {
  if (n->kind() == aten::contiguous && n->inputCount() == 2) return facts.integer(n->input(1)) == 0;
  const Operator* op = facts.resolve(n);
  return op && op->has(Trait::SetsStrides);
}

bool isKnown(const Node* n, GraphFacts& facts) {
  if (GraphFacts::isStructural(n->kind())) return true;
  const Operator* op = facts.resolve(n);
  return op && op->isImplemented();
}

// Values that matter to some nodes, and all from which these values are made.
class Origins {
 public:
  // Whether a node's outputs do not depend on its inputs in the way that matters.
  using Ends = bool (*)(const Node*, GraphFacts&);

  Origins(Graph& graph, GraphFacts& facts, Ends ends) : matters_(graph), facts_(facts), ends_(ends) {}
  void addInputs(const Node* n) {
    for (const Use& u : n->inputs()) add(u.value);
    while (!todo_.empty()) {
      const Value* v = todo_.back();
      todo_.pop_back();
      if (const Node* producer = v->node())
        throughNode(producer, v->index());
      else
        throughParameter(v);
    }
  }
  bool contains(const Value* v) const { return matters_[v]; }

 private:
  void add(const Value* v) {
    if (matters_[v] || !AliasAnalysis::canRefer(v->type())) return;
    matters_[v] = true;
    todo_.push_back(v);
  }
  void throughNode(const Node* n, size_t output) {
    if (n->kind() == sym::If || n->kind() == sym::Loop) {
      for (const Block* b : n->blocks()) add(b->result(output + (n->kind() == sym::Loop ? 1 : 0)));
      if (n->kind() == sym::Loop) add(n->input(output + 2));
    } else if (!ends_(n, facts_)) {
      for (const Use& u : n->inputs()) add(u.value);
    }
  }
  // What a loop carries: parameter i + 1 is result i + 1 of the round before, at first input i + 2.
  void throughParameter(const Value* v) {
    const Block* b = v->block();
    const Node* owner = b->owner();
    if (!owner || owner->kind() != sym::Loop || v->index() == 0) return;
    add(b->result(v->index()));
    add(owner->input(v->index() + 1));
  }

  ValueTable<bool> matters_;
  GraphFacts& facts_;
  Ends ends_;
  std::vector<const Value*> todo_;
};

// Values whose strides some node depends on.
Origins stridesThatMatter(Graph& graph, GraphFacts& facts) {
  Origins origins(graph, facts, setsStrides);
  forEachNode(graph, [&](Node* n) {
    if (tellsApart(n, facts) || !isKnown(n, facts)) origins.addInputs(n);
  });
  return origins;
}

// Values whose memory the caller may get, as a result or in something that is written.
Origins memoryOfCallers(Graph& graph, GraphFacts& facts) {
  Origins origins(graph, facts, [](const Node* n, GraphFacts& f) { return f.isFresh(n); });
  origins.addInputs(graph.returnNode());
  forEachNode(graph, [&](Node* n) {
    if (!n->hasBlocks() && !facts.isPure(n)) origins.addInputs(n);
  });
  return origins;
}

}  // namespace

bool removeContiguous(Graph& graph, RewriteContext& context) {
  std::vector<Node*> found;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == aten::contiguous && n->inputCount() == 2 && n->outputCount() == 1) found.push_back(n);
  });
  if (found.empty()) return false;
  Origins strides = stridesThatMatter(graph, context.facts), returned = memoryOfCallers(graph, context.facts);
  bool changed = false;
  for (Node* n : found) {
    Value *from = n->output(), *to = n->input(0);
    if (strides.contains(from) || returned.contains(from)) continue;
    if (context.facts.isWritten(from) || context.facts.isWritten(to)) continue;
    from->replaceAllUsesWith(to);
    n->destroy();
    changed = true;
  }
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
