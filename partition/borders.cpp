#include "partition/borders.h"

#include <algorithm>

namespace tscompile {

bool crossesBorders(const Value* value) {
  TypePtr t = value->type();
  return t->isTensor() || t->isListOf(TypeKind::Tensor) || t->is(TypeKind::Class);
}

bool isTakenAsNumber(const Value* value, const Node* node, const EngineSupport& support) {
  if (!isNumber(value->type())) return false;
  auto isInside = [&](const Node* user) {
    while (user && user != node) user = user->block()->owner();
    return user != nullptr;
  };
  for (const Use& u : value->uses())
    if (isInside(u.user) && (u.user->isReturn() || !support.takesNumber(*u.user, u.index()))) return false;
  return true;
}

Rematerialization::Rematerialization(const Graph& graph, const GivenNodes& given, const AliasAnalysis& aliases,
                                     const MemoryUses& memory, const std::unordered_set<const Value*>* bound)
    : given_(given), aliases_(aliases), memory_(memory), bound_(bound), allowed_(graph) {}

void Rematerialization::add(const Node* node, bool supported) {
  const MemoryUse& use = memory_.of(node);
  bool allowed = supported && !use.moreThanRaises && use.writes.empty() && neverChanges(node);
  if (allowed)
    forEachTaken(node, [&](const Value* v) {
      allowed &= isFixed(v) && (!node->hasBlocks() || !aliases_.graphHasWrites() || !aliases_.isWritten(v));
    });
  allowed_[node] = allowed;
}

// Whether the value can be had wherever it is needed.
bool Rematerialization::isFixed(const Value* v) const {
  const Node* from = v->node();
  return (from && (given_.contains(from) || allowed_[from])) || crossesBorders(v) || (bound_ && bound_->contains(v));
}

bool Rematerialization::neverChanges(const Node* node) const {
  if (!aliases_.graphHasWrites()) return true;
  for (const Value* v : node->outputs())
    if (aliases_.isWrittenItself(v)) return false;
  // Lists and tuples hold what they are given, whatever happens to it.
  bool holds = node->kind() == sym::ListConstruct || node->kind() == sym::TupleConstruct;
  return holds || std::none_of(node->inputs().begin(), node->inputs().end(),
                               [&](const Use& u) { return aliases_.isWritten(u.value); });
}

bool Rematerialization::isTakenIn(const Value* value) const {
  if (!crossesBorders(value)) return false;
  // Rather its elements than the list.
  const Node* from = value->node();
  return !from || from->kind() != sym::ListConstruct || !allowed_[from];
}

}  // namespace tscompile
