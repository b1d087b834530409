// The objects of the module that values of a graph are, for steps that change how attributes are read and written.
#pragma once

#include "passes/rewrite/rewrite.h"

#include <optional>
#include <unordered_map>
#include <vector>

namespace tscompile {

// An attribute, and the memory of tensors and the containers that it holds, at any depth, as often as they are there.
struct AttributeMemory {
  const ObjectValue* object;
  Symbol name;
  std::vector<const RefCounted*> memory;
};
// Those of a module and of all objects in it.
std::vector<AttributeMemory> memoryOfAttributes(const ObjectValue& self);

class ModuleObjects {
 public:
  // Nothing if the module is not known, or objects go where nothing is known of what is done to them: into calls, or
  // out of something else than chains of prim::GetAttr.
  static std::optional<ModuleObjects> of(const Graph& graph, const RewriteContext& context);

  // Null for values that are none.
  ObjectValue* find(const Value* value) const {
    auto found = objects_.find(value);
    return found == objects_.end() ? nullptr : found->second;
  }
  // Of a prim::GetAttr or prim::SetAttr of one of the objects; else null.
  ObjectValue* accessed(const Node* node) const;
  // The name that such a node has.
  static Symbol attributeOf(const Node* node);

 private:
  std::unordered_map<const Value*, ObjectValue*> objects_;
};

}  // namespace tscompile
