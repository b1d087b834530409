// What a plugin must do and must not, tried out: for those who write plugins, and for those who are given one.
#pragma once

#include "runtime/plugin/plugin_registry.h"

#include <string>
#include <vector>

namespace tscompile {

struct PluginFinding {
  std::string plugin;  // its key; empty: of the library as a whole
  std::string check;   // "fields", "shapes", "workspace" ...
  std::string problem;
};

struct PluginReport {
  size_t plugins = 0, checks = 0;  // that were tried
  std::vector<PluginFinding> findings;
  std::vector<std::string> notes;  // what could not be tried
};

// Loads a library into a registry of its own, and tries all its plugins. docs/plugins.md lists the checks.
PluginReport checkPluginLibrary(const std::string& path);
// The same for one plugin.
void checkPlugin(const PluginCreatorPtr& creator, PluginReport& report);

}  // namespace tscompile
