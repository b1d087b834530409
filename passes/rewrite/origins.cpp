#include "passes/rewrite/origins.h"

#include "ir/values/aten.h"

#include <unordered_set>

namespace tscompile {
namespace {

// Puts a value into one that holds others: append, __setitem__, SetAttr.
bool fillsContainer(const Node* n, GraphFacts& facts) {
  if (n->kind() == sym::SetAttr) return true;
  const Operator* op = n->hasBlocks() ? nullptr : facts.resolve(n);
  if (!op || !op->schema().isMutable()) return false;
  const auto& arguments = op->schema().arguments;
  for (size_t i = 0; i < arguments.size() && i < n->inputCount(); ++i)
    if (arguments[i].isWritten() && !n->input(i)->type()->isTensor()) return true;
  return false;
}

}  // namespace

Origins::Origins(const Graph& graph, GraphFacts& facts, Ends ends)
    : graph_(graph),
      matters_(graph),
      limit_(graph.idLimit(static_cast<const Value*>(nullptr))),
      facts_(facts),
      ends_(ends) {}

void Origins::addInputs(const Node* n) {
  for (const Use& u : n->inputs()) add(u.value);
  goBack();
  if (!hasContainer_ || hasFillings_) return;
  // What is put into containers later may come out of any of them.
  hasFillings_ = true;
  forEachNode(graph_, [&](const Node* filling) {
    if (fillsContainer(filling, facts_)) addInputs(filling);
  });
}

void Origins::goBack() {
  while (!todo_.empty()) {
    const Value* v = todo_.back();
    todo_.pop_back();
    if (const Node* producer = v->node())
      throughNode(producer, v->index());
    else
      throughParameter(v);
  }
}

void Origins::add(const Value* v) {
  if (matters_[v] || !AliasAnalysis::canRefer(v->type())) return;
  matters_[v] = hasAny_ = true;
  hasContainer_ = hasContainer_ || !v->type()->isTensor();
  todo_.push_back(v);
}

void Origins::throughNode(const Node* n, size_t output) {
  if (n->kind() == sym::If || n->kind() == sym::Loop) {
    for (const Block* b : n->blocks()) add(b->result(output + (n->kind() == sym::Loop ? 1 : 0)));
    if (n->kind() == sym::Loop) add(n->input(output + 2));
  } else if (!ends_(n, facts_)) {
    for (const Use& u : n->inputs()) add(u.value);
  }
}

// What a loop carries: parameter i + 1 is result i + 1 of the round before, at first input i + 2.
void Origins::throughParameter(const Value* v) {
  const Block* b = v->block();
  const Node* owner = b->owner();
  if (!owner || owner->kind() != sym::Loop || v->index() == 0) return;
  add(b->result(v->index()));
  add(owner->input(v->index() + 1));
}

bool isViewByOrder(const Node* n) {
  using Kinds = std::unordered_set<Symbol>;
  static const Kinds kinds{aten::reshape, aten::reshape_as, aten::flatten, aten::contiguous, Symbol::of("aten::ravel")};
  return kinds.contains(n->kind()) && n->outputCount() == 1;
}

Origins valuesThatAreSeen(const Graph& graph, GraphFacts& facts) {
  Origins origins(graph, facts, [](const Node* n, GraphFacts& f) { return f.setsStrides(n); });
  forEachNode(graph, [&](const Node* n) {
    if (facts.looksAtMemory(n)) origins.addInputs(n);
  });
  return origins;
}

}  // namespace tscompile
