#include "partition/borders.h"

#include <algorithm>

namespace tscompile {

bool crossesBorders(const Value* value) {
  TypePtr t = value->type();
  return t->isTensor() || t->isListOf(TypeKind::Tensor) || t->is(TypeKind::Class);
}

namespace {

// Whether some use of the value by the node, or inside of it, is such.
template <class Is>
bool anyUseWithin(const Value* value, const Node* node, Is&& is) {
  for (const Use& u : value->uses()) {
    const Node* user = u.user;
    while (user && user != node) user = user->block()->owner();
    if (user && is(u)) return true;
  }
  return false;
}

}  // namespace

bool isTakenAsNumber(const Value* value, const Node* node, const EngineSupport& support) {
  return isNumber(value->type()) && !anyUseWithin(value, node, [&](const Use& u) {
           return u.user->isReturn() || !support.takesNumber(*u.user, u.index());
         });
}

bool wouldCopyByNumber(const Value* value, const Node* node, const EngineSupport& support, const OpRegistry& registry) {
  return isNumber(value->type()) && anyUseWithin(value, node, [&](const Use& u) {
           const Operator* op = u.user->isReturn() || u.user->hasBlocks() ? nullptr : registry.resolve(*u.user);
           return op && op->has(Trait::NumberIsIndex) && !support.takesNumber(*u.user, u.index());
         });
}

Rematerialization::Rematerialization(const Graph& graph, const GivenNodes& given, const AliasAnalysis& aliases,
                                     const MemoryUses& memory, const std::unordered_set<const Value*>& known)
    : given_(given), aliases_(aliases), memory_(memory), known_(known), allowed_(graph) {}

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
  return (from && (given_.contains(from) || allowed_[from])) || crossesBorders(v) || known_.contains(v);
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
