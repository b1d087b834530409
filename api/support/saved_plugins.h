// Plugins in engine files: each node's settings as its plugin saved them, by name and version, never by a path.
#pragma once

#include "ir/graph/graph.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "runtime/plugin/plugin_operators.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// Calls visit(node, operators) for the nodes of plugins in the graph and in the graphs inside its nodes.
void forEachPluginNode(const Graph& graph, const OpRegistry& registry,
                       const std::function<void(const Node&, const PluginOperators&)>& visit);

// What the nodes of plugins save, in the order in which the graph and its subgraphs have them. Nothing after a report.
std::optional<std::vector<std::string>> savePlugins(const Graph& graph, const OpRegistry& registry,
                                                    Diagnostics& diagnostics);

// Gives such nodes the settings that were saved, upgraded where a plugin has another version of its table, and has
// their instances made for runs. Reports plugins that are missing, damaged settings, and settings that belong to no
// node.
bool restorePlugins(Graph& graph, const std::vector<std::string>& saved, const OpRegistry& registry,
                    const std::string& path, Diagnostics& diagnostics);

// Takes back what restorePlugins() says of instances: for a graph that is saved or compiled anew.
void forgetPluginPhases(Graph& graph);

}  // namespace tscompile
