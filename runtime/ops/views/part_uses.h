// What becomes of a tensor that only serves to replace parts of others: then it needs no memory of its own.
#pragma once

#include "ir/operators/view_twins.h"
#include "runtime/engine/network/convert_call.h"

namespace tscompile {

// Whether each use of the call's result is one of these. Calls that a converter makes for another operator have none.
template <class Accepted>
bool usesAreAll(const ConvertCall& call, Accepted accepted) {
  const Node* node = call.node();
  if (node->kind() != call.op().kind() || node->outputCount() != 1 || !node->output()->hasUses()) return false;
  for (const Use& u : node->output()->uses())
    if (u.user->isReturn() || u.user->hasBlocks() || !accepted(u)) return false;
  return true;
}

// Its users copy what they need of it, or ask for its sizes alone.
inline bool isCopiedByUsers(const ConvertCall& call) {
  const OpRegistry& registry = call.op().registry();
  return usesAreAll(call, [&](const Use& u) {
    const Symbol kind = u.user->kind();
    const Operator* op = registry.resolve(*u.user);
    return u.index() == 0 && op && !op->has(Trait::MindsStrides) &&
           (kind.text().ends_with("_copy") || kind.text() == "aten::copy" || isScatter(kind, registry));
  });
}

// It replaces parts of other tensors, and nothing else.
inline bool isPartOfOthers(const ConvertCall& call) {
  const OpRegistry& registry = call.op().registry();
  return usesAreAll(call, [&](const Use& u) { return u.index() == 1 && isScatter(u.user->kind(), registry); });
}

}  // namespace tscompile
