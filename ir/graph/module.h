// Modules as a dump shows them: classes with attributes, methods and submodules.
#pragma once

#include "ir/graph/graph.h"

#include <memory>
#include <string>
#include <vector>

namespace tscompile {

struct ModuleAttribute {
  std::string name;
  std::string text;          // as the dump has it; "..." for tensors
  bool isParameter = false;  // listed among the parameters; listed among the attributes again
  SourceRange range;
};

struct DumpedMethod {
  std::string name;
  std::unique_ptr<Graph> graph;  // null if the dump leaves its code out
};

// One instance. Submodules are owned by the ModuleDump, so that depth costs no recursion.
struct DumpedModule {
  std::string className;  // "__torch__.LeNet"
  std::vector<ModuleAttribute> attributes;
  std::vector<DumpedMethod> methods;
  std::vector<size_t> children;  // indices into ModuleDump::modules, in the order of the attributes that hold them
  SourceRange range;

  const DumpedMethod* method(std::string_view name) const {
    for (const DumpedMethod& m : methods)
      if (m.name == name) return &m;
    return nullptr;
  }
};

// The root comes first.
struct ModuleDump {
  std::vector<DumpedModule> modules;
  // What prim::CallFunction calls by name. PyTorch's dumps leave these out; export_torchscript.py adds them as a
  // section `functions` of the root.
  std::vector<DumpedMethod> functions;
};

// What a text holds: graphs, or a module dump.
struct ParsedText {
  std::vector<std::unique_ptr<Graph>> graphs;
  std::unique_ptr<ModuleDump> module;
};

}  // namespace tscompile
