// The sizes that nodes of plugins meet, as far as they are known before they run.
#pragma once

#include "api/partition.h"
#include "runtime/plugin/plugin_operators.h"

#include <vector>

namespace tscompile {

// What is known of the inputs of a node, in the order of the plugin's; `places`: which argument each is, or -1.
struct PluginArguments {
  std::vector<int> places;
  std::vector<PluginInstance::Input> known;
  const Value* unknown = nullptr;  // its dtype or rank is not known
};

PluginArguments pluginArguments(const Node& node, const PluginCreator& creator, const ShapePropagation& shapes);

// Tells the plugins of a graph that is compiled the least, the usual and the most sizes that the ranges of its inputs
// give them. Nodes of whose inputs a dtype or rank is not known, or whose sizes do not go together, are told nothing.
// False after reporting a plugin that refuses what it is told.
bool configurePlugins(const Prepared& prepared, const std::vector<InputRange>& ranges, Diagnostics& diagnostics);

}  // namespace tscompile
