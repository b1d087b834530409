// Modules as a dump shows them: classes with attributes, methods and submodules.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace tscompile {

struct ModuleAttribute {
  std::string name;
  std::string text;          // as the dump has it; "..." for tensors
  bool isParameter = false;  // listed among the parameters; listed among the attributes again
  SourceRange range;
};

struct Method {
  std::string name;
  std::unique_ptr<Graph> graph;  // null if the dump leaves its code out
};

// One instance. Submodules are owned by the ModuleTree, so that depth costs no recursion.
struct Module {
  std::string className;  // "__torch__.LeNet"
  std::vector<ModuleAttribute> attributes;
  std::vector<Method> methods;
  std::vector<size_t> children;  // indices into ModuleTree::modules, in the order of the attributes that hold them
  SourceRange range;

  const Method* method(std::string_view name) const {
    for (const Method& m : methods)
      if (m.name == name) return &m;
    return nullptr;
  }
};

// The root comes first.
struct ModuleTree {
  std::vector<Module> modules;
};

// What a text holds: graphs, or a module dump.
struct ParsedText {
  std::vector<std::unique_ptr<Graph>> graphs;
  std::unique_ptr<ModuleTree> module;
};

}  // namespace tscompile
