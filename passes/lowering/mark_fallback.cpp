// Marks the nodes that are to stay out of engines: by the class or path of the module that they belong to, or by name.
#include "ir/graph/module_path.h"
#include "ir/support/text.h"
#include "passes/lowering/fallback_marks.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

std::set<std::string> namesOf(const RewriteArguments& arguments, std::string_view key) {
  std::set<std::string> names;
  auto found = arguments.find(key);
  if (found == arguments.end() || !found->second.isList()) return names;
  for (const IValue& v : found->second.toList().items)
    if (v.isString()) names.insert(v.toString());
  return names;
}

std::vector<std::string_view> partsOf(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(separator, at), text.size());
    parts.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

bool hasNoWork(const Node* n) {
  return n->kind() == sym::Constant || n->kind() == sym::GetAttr || n->kind() == sym::SetAttr;
}

}  // namespace

std::string FallbackMarks::plainClass(std::string_view name) {
  std::string out;
  for (std::string_view part : partsOf(name, '.')) {
    if (part == "__torch__" || part.starts_with("___torch_mangle_")) continue;
    if (!out.empty()) out += '.';
    out += part;
  }
  return out;
}

FallbackMarks::FallbackMarks(RewriteContext& context)
    : classes_(namesOf(context.arguments, "fallback_classes")),
      paths_(namesOf(context.arguments, "fallback_paths")),
      nodes_(namesOf(context.arguments, "fallback_nodes")),
      operators_(namesOf(context.arguments, "fallback_operators")),
      context_(context) {}

bool FallbackMarks::found(const std::set<std::string>& names, const std::string& name) const {
  if (!names.contains(name)) return false;
  context_.reports["fallback:" + name] = IValue(true);
  return true;
}

bool FallbackMarks::marksModule(const Value* module) const {
  bool any = false;
  while (module && module->type()->is(TypeKind::Class)) {
    std::string mangled(module->type()->name());
    any |= found(classes_, mangled) | found(classes_, plainClass(mangled));
    if (!paths_.empty()) any |= found(paths_, modulePath(module));
    const Node* n = module->node();
    module = n && n->kind() == sym::GetAttr ? n->input(0) : nullptr;
  }
  return any;
}

bool FallbackMarks::marksCall(const Node* call) const {
  return call->kind() == sym::CallMethod && call->inputCount() > 0 && marksModule(call->input(0));
}

std::vector<std::string> FallbackMarks::pathsOf(std::string_view scope) {
  constexpr std::string_view kModule = "__module.";
  std::vector<std::string> paths;
  for (std::string_view part : partsOf(scope, '/')) {
    const size_t colons = part.rfind("::");
    if (colons != std::string_view::npos) part = part.substr(colons + 2);
    if (part.starts_with(kModule)) paths.emplace_back(part.substr(kModule.size()));
  }
  return paths;
}

bool FallbackMarks::marksScope(std::string_view scope) const {
  const std::vector<std::string> paths = pathsOf(scope);
  return std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return found(paths_, path); });
}

bool FallbackMarks::marksOperator(const Node* node) const {
  if (operators_.empty()) return false;
  std::string kind(node->kind().text());
  bool any = found(operators_, kind);
  auto named = operators_.lower_bound(kind + ".");
  if (named == operators_.end() || !startsWith(*named, kind + ".")) return any;
  const Operator* op = context_.registry.resolve(*node);
  return any | (op && found(operators_, op->fullName()));
}

bool FallbackMarks::marks(const Node* node) const {
  if (hasNoWork(node)) return false;
  bool any = marksCall(node) | marksOperator(node);
  if (!nodes_.empty())
    for (const Value* v : node->outputs()) any |= found(nodes_, v->name());
  if (!paths_.empty() && !node->scope.empty()) any |= marksScope(node->scope.text());
  // What reads an attribute of a marked module belongs to the module.
  for (const Use& u : node->inputs()) {
    const Node* from = u.value->node();
    if (from && from->kind() == sym::GetAttr && !u.value->type()->is(TypeKind::Class))
      any |= marksModule(from->input(0));
  }
  return any;
}

bool FallbackMarks::mark(Node* node) {
  bool changed = false;
  auto one = [&](Node* n) {
    if (hasNoWork(n) || isMarked(n)) return;
    n->setAttribute(sym::toCompile, IValue(int64_t{0}));
    changed = true;
  };
  one(node);
  for (Block* b : node->blocks()) forEachNode(b, one);
  return changed;
}

bool markFallback(Graph& graph, RewriteContext& context) {
  FallbackMarks marks(context);
  if (marks.empty()) return false;
  bool changed = false;
  forEachNode(graph, [&](Node* n) {
    if (marks.marks(n)) changed |= FallbackMarks::mark(n);
  });
  return changed;
}

}  // namespace tscompile
