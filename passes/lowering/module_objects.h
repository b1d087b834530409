// The objects of the module that values of a graph are, for steps that change how attributes are read and written.
#pragma once

#include "passes/rewrite/rewrite.h"

#include <optional>
#include <unordered_map>

namespace tscompile {

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
