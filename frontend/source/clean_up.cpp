// What emission leaves behind that nothing uses is removed from the last node to the first.
#include "frontend/source/emitter.h"

#include <unordered_set>

namespace tscompile::source {
namespace {

bool isBuilding(Symbol kind) {
  static const std::unordered_set<Symbol> kKinds = {
      sym::Constant,      sym::TupleConstruct, sym::TupleUnpack,  sym::TupleIndex,      sym::TupleSlice,
      sym::ListConstruct, sym::ListUnpack,     sym::GetAttr,      sym::unchecked_cast,  sym::Uninitialized,
      sym::isinstance,    Symbol::of("prim::DictConstruct")};
  return kKinds.count(kind) != 0;
}

bool hasEffects(const Node* n, const OpRegistry& registry) {
  if (isBuilding(n->kind())) return false;
  if (n->kind() == sym::If || n->kind() == sym::Loop) {
    for (const Block* b : n->blocks())
      if (!b->empty()) return true;
    return false;
  }
  const Operator* op = registry.resolve(*n);
  return !op || op->schema().isMutable() || !op->isImplemented() || op->def().sideEffects || op->def().random;
}

bool isUsed(const Node* n) {
  for (const Value* v : n->outputs())
    if (v->hasUses()) return true;
  return false;
}

void removeResult(Node* n, size_t output, size_t result) {
  for (Block* b : n->blocks()) b->returnNode()->removeInput(result);
  n->removeOutput(output);
}

void dropUnusedResults(Node* n) {
  for (size_t i = n->outputCount(); n->kind() == sym::If && i-- > 0;)
    if (!n->output(i)->hasUses()) removeResult(n, i, i);
  for (size_t i = n->outputCount(); n->kind() == sym::Loop && i-- > 0;) {
    Block* body = n->block(0);
    Value* carried = body->parameter(i + 1);
    bool onlyPassed = !carried->hasUses() || (carried->useCount() == 1 && body->result(i + 1) == carried);
    if (n->output(i)->hasUses() || !onlyPassed) continue;
    removeResult(n, i, i + 1);
    body->removeParameter(i + 1);
    n->removeInput(i + 2);
  }
}

void sweep(Block* block, const OpRegistry& registry) {
  for (Node *n = block->last(), *before = nullptr; n; n = before) {
    before = n->previous();
    dropUnusedResults(n);
    for (Block* b : n->blocks()) sweep(b, registry);
    if (!isUsed(n) && !hasEffects(n, registry)) n->destroy();
  }
}

}  // namespace

void cleanUp(Graph& graph, const OpRegistry& registry) { sweep(graph.block(), registry); }

}  // namespace tscompile::source
