// What a plugin must do and must not, tried out: for those who write plugins, and for those who are given one.
#pragma once

#include "ir/operators/op_registry.h"
#include "runtime/plugin/plugin_registry.h"

#include <functional>
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

// Loads a library into a registry of its own, and tries all its plugins. docs/plugins.md lists the checks. A plugin
// that ends the process ends this one; the command line tool goes from check to check in processes of its own.
// `operators`: that decompositions may consist of.
PluginReport checkPluginLibrary(const std::string& path, const OpRegistry& operators);

// The checks of one plugin have numbers, from 0 on.
struct PluginCheckSteps {
  size_t from = 0;  // those before are made only as far as later ones need what they find, and not reported
  // Told before each. Without what some of them find, there are no others.
  std::function<void(size_t number, const char* check, bool isNeeded)> begin = nullptr;
};
void checkPlugin(const PluginCreatorPtr& creator, const OpRegistry& operators, PluginReport& report,
                 const PluginCheckSteps& steps = {});

}  // namespace tscompile
