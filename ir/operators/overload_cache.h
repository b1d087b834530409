// Remembers which overloads the nodes of a graph mean: large graphs repeat few combinations of kind and input types.
#pragma once

#include "ir/graph/node.h"
#include "ir/operators/op_registry.h"

#include <cstdint>
#include <unordered_map>

namespace tscompile {

class OverloadCache {
 public:
  explicit OverloadCache(const OpRegistry& registry) : registry_(registry) {}

  // As OpRegistry::resolve.
  const Operator* resolve(const Node& node) {
    if (!node.attributes().empty() && registry_.configured(node.kind())) return registry_.resolve(node);
    auto [it, isNew] = known_.try_emplace(keyOf(node), nullptr);
    if (isNew) it->second = registry_.resolve(node);
    return it->second;
  }

  // The same for nodes of one kind whose inputs have the same types; of no use for kinds that attributes configure.
  static uint64_t keyOf(const Node& node) {
    uint64_t key = node.kind().hash();
    for (const Use& u : node.inputs()) key = hashCombine(key, u.value->type()->hash());
    return key;
  }

 private:
  const OpRegistry& registry_;
  std::unordered_map<uint64_t, const Operator*> known_;
};

}  // namespace tscompile
