// Which nodes are to stay out of engines, as arguments of rewriting say it: "fallback_classes" and "fallback_paths"
// name modules, "fallback_nodes" values, "fallback_operators" kinds of nodes or overloads. Marked nodes have the
// attribute to_compile=0, and so has all that is made of them. What was found is reported as "fallback:" and the name.
#pragma once

#include "passes/rewrite/rewrite.h"

#include <set>
#include <string>
#include <vector>

namespace tscompile {

class FallbackMarks {
 public:
  explicit FallbackMarks(RewriteContext& context);

  bool empty() const { return classes_.empty() && paths_.empty() && nodes_.empty() && operators_.empty(); }
  // Whether a call is one of a method of a marked module, or of a module inside.
  bool marksCall(const Node* call) const;
  bool marks(const Node* node) const;
  bool marksOperator(const Node* node) const;

  // "net.Block" for "__torch__.net.___torch_mangle_3.Block": classes may be named so, too.
  static std::string plainClass(std::string_view name);
  // Of the modules that a scope of a traced graph names, as in "__module.layer/__module.layer.0".
  static std::vector<std::string> pathsOf(std::string_view scope);
  static bool isMarked(const Node* node) { return node->hasAttribute(sym::toCompile); }
  // Marks a node and those inside; returns whether one was not marked before. Constants and attributes of modules need
  // no engine and get no mark.
  static bool mark(Node* node);

 private:
  bool marksModule(const Value* module) const;
  bool marksScope(std::string_view scope) const;
  bool found(const std::set<std::string>& names, const std::string& name) const;

  std::set<std::string> classes_, paths_, nodes_, operators_;
  RewriteContext& context_;
};

// The step that marks nodes so.
bool markFallback(Graph& graph, RewriteContext& context);

}  // namespace tscompile
