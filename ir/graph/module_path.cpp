#include "ir/graph/module_path.h"

#include "ir/support/text.h"

#include <algorithm>
#include <vector>

namespace tscompile {
namespace {

constexpr std::string_view kModule = "__module.";

// The name of a module in a part of a scope that is not a whole path: "Conv2d[conv]", "torch.nn.Conv2d::conv".
std::string_view relativeName(std::string_view part) {
  if (size_t colons = part.rfind("::"); colons != std::string_view::npos) return part.substr(colons + 2);
  const size_t bracket = part.rfind('[');
  if (bracket == std::string_view::npos || !part.ends_with(']')) return {};
  return part.substr(bracket + 1, part.size() - bracket - 2);
}

std::string pathOfScope(std::string_view scope) {
  std::string out;
  while (!scope.empty()) {
    const std::string_view part = scope.substr(0, scope.find('/'));
    scope.remove_prefix(std::min(part.size() + 1, scope.size()));
    const size_t colons = part.rfind("::");
    const std::string_view named = colons == std::string_view::npos ? part : part.substr(colons + 2);
    if (named.starts_with(kModule)) {
      out = named.substr(kModule.size());
    } else if (std::string_view name = relativeName(part); !name.empty()) {
      out += (out.empty() ? "" : ".") + std::string(name);
    }
  }
  return out;
}

// "layer.0.conv" of "self.layer.0.conv.weight", as freezing names tensors.
std::string pathOfTensor(std::string_view name) {
  constexpr std::string_view kSelf = "self.";
  const size_t last = name.rfind('.');
  if (!name.starts_with(kSelf) || last < kSelf.size()) return "";
  return std::string(name.substr(kSelf.size(), last - kSelf.size()));
}

}  // namespace

std::string modulePath(const Value* module) {
  std::vector<std::string> parts;
  while (module->node() && module->node()->kind() == sym::GetAttr) {
    const IValue* name = module->node()->attributeValue(sym::name);
    if (!name || !name->isString()) return "";
    parts.push_back(name->toString());
    module = module->node()->input(0);
  }
  if (module->node() || parts.empty()) return "";
  std::reverse(parts.begin(), parts.end());
  return join(parts, ".", [](const std::string& s) { return s; });
}

std::string modulePath(const Node* node) {
  if (!node->scope.empty()) return pathOfScope(node->scope.text());
  for (const Use& u : node->inputs()) {
    const Node* from = u.value->node();
    if (!from) continue;
    std::string path;
    // Equal numbers of several modules are one constant.
    if (from->kind() == sym::Constant && u.value->isNamed() && u.value->type()->isTensor())
      path = pathOfTensor(u.value->givenName());
    if (from->kind() == sym::GetAttr) path = modulePath(from->input(0));
    if (!path.empty()) return path;
  }
  return "";
}

bool isObject(const ModuleAttribute& attribute) {
  return startsWith(attribute.text, "<") && attribute.text.find(" object at 0x") != std::string::npos;
}

std::vector<std::string> modulePaths(const ModuleDump& dump) {
  std::vector<std::string> paths(dump.modules.size());  // children come after their parents
  for (size_t i = 0; i < dump.modules.size(); ++i) {
    const DumpedModule& m = dump.modules[i];
    size_t child = 0;
    for (const ModuleAttribute& a : m.attributes)
      if (!a.isParameter && isObject(a) && child < m.children.size())
        paths[m.children[child++]] = paths[i].empty() ? a.name : paths[i] + "." + a.name;
  }
  return paths;
}

Symbol scopeOfModule(Symbol around, std::string_view path) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
  if (path.empty() || path.find_first_not_of(kPlain) != std::string_view::npos) return around;
  std::string out(around.text()), own = std::string(kModule).append(path);
  if (out == own || endsWith(out, "/" + own)) return around;  // a method that calls another one of its module
  if (!out.empty()) out += '/';
  return Symbol::of(out + own);
}

}  // namespace tscompile
