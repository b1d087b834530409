#include "tools/reports/op_status.h"

#include "ir/operators/overload_cache.h"
#include "ir/support/text.h"
#include "runtime/interpreter/machine.h"

#include <algorithm>

namespace tscompile {

OpFinder::OpFinder(const OpRegistry& registry) : registry_(registry) {
  for (Symbol kind : structureKinds()) structure_.insert(kind);
  structure_.insert(sym::Engine);
}

OpFinding OpFinder::find(const Node& node) {
  if (node.kind() == sym::PythonOp) return {OpStatus::Python, nullptr};
  if (isStructure(node.kind())) return {OpStatus::Structure, nullptr};
  if (registry_.configured(node.kind())) {
    const Operator* op = registry_.resolve(node);
    return {op ? OpStatus::Implemented : OpStatus::NoOverload, op};
  }
  auto [it, isNew] = known_.try_emplace(OverloadCache::keyOf(node));
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
