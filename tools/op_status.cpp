#include "tools/op_status.h"

#include "ir/support/text.h"
#include "runtime/machine.h"

#include <algorithm>

namespace tscompile {

OpFinder::OpFinder(const OpRegistry& registry) : registry_(registry) {
  for (Symbol kind : structureKinds()) structure_.emplace(kind, true);
}

OpFinding OpFinder::find(const Node& node) {
  if (node.kind() == sym::PythonOp) return {OpStatus::Python, nullptr};
  if (isStructure(node.kind())) return {OpStatus::Structure, nullptr};
  uint64_t key = node.kind().hash();
  for (const Use& u : node.inputs()) key = hashCombine(key, u.value->type()->hash());
  auto [it, isNew] = known_.try_emplace(key);
  if (isNew) it->second = classify(node);
  return it->second;
}

OpFinding OpFinder::classify(const Node& node) const {
  auto overloads = registry_.overloads(node.kind());
  if (overloads.empty()) return {OpStatus::Unknown, nullptr};
  bool any = std::any_of(overloads.begin(), overloads.end(), [](const Operator* o) { return o->isImplemented(); });
  const Operator* op = registry_.resolve(node);
  if (op && op->isImplemented()) return {OpStatus::Implemented, op};
  if (!any) return {OpStatus::NotImplemented, op};
  return {op ? OpStatus::OverloadMissing : OpStatus::NoOverload, op};
}

std::string inputTypesText(const Node& node) {
  return "(" + join(node.inputs(), ", ", [](const Use& u) { return typeText(withoutRefinement(u.value->type())); }) +
         ")";
}

}  // namespace tscompile
