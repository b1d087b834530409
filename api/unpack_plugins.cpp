#include "api/unpack_plugins.h"

#include "api/plugin_sizes.h"
#include "frontend/text/parse.h"
#include "ir/analysis/shape_propagation.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "ir/values/error.h"
#include "runtime/plugin/plugin_operators.h"
#include "runtime/registry.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

const Symbol kInPlace = Symbol::of("inplace");

// A node and what takes its place.
struct Unpacked {
  Node* node;
  std::shared_ptr<const PluginInstance> plugin;
  std::vector<int> places;
  std::unique_ptr<Graph> graph;
};

void replace(Graph& graph, const Unpacked& u) {
  ValueMap values;
  size_t parameter = 0;
  for (int place : u.places)
    if (place >= 0) values[u.graph->input(parameter++)] = u.node->input(static_cast<size_t>(place));
  cloneNodesBefore(*u.graph->block(), u.node, values);
  std::vector<std::pair<Value*, std::string>> names;  // free when the node is gone
  const IValue* inPlace = u.node->attributeValue(kInPlace);
  bool writes = inPlace && inPlace->isInt() && inPlace->toInt() != 0;
  // What other results show of an input that is written is kept before.
  std::vector<Value*> results;
  for (size_t o = 0; o < u.node->outputCount(); ++o) {
    Value* result = values.at(u.graph->output(o));
    if (writes && u.plugin->alias(o) < 0) {
      Builder builder(graph, u.node);
      result = builder.call(aten::clone, {result, builder.constant(IValue())}, result->type());
    }
    results.push_back(result);
  }
  for (size_t o = 0; o < u.node->outputCount(); ++o) {
    Value *old = u.node->output(o), *result = results[o];
    int alias = u.plugin->alias(o);
    int place = alias < 0 ? -1 : u.places[static_cast<size_t>(alias)];
    if (writes && place >= 0) {
      Builder builder(graph, u.node);
      Value* target = u.node->input(static_cast<size_t>(place));
      result = builder.call(aten::copy_, {target, result, builder.constant(IValue(false))}, old->type());
    }
    old->replaceAllUsesWith(result);
    bool isGiven = std::ranges::any_of(u.node->inputs(), [&](const Use& use) { return use.value == result; });
    if (old->isNamed() && !result->isNamed() && !isGiven) names.emplace_back(result, old->name());
  }
  u.node->destroy();
  for (auto& [value, name] : names) value->setName(name);
}

}  // namespace

std::optional<size_t> unpackPlugins(Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics) {
  ShapePropagation shapes(graph, registry);
  std::vector<Unpacked> all;
  size_t before = diagnostics.errorCount();
  auto unpack = [&](Node* n, const PluginOperators& operators) {
    OperatorProblem problem;
    std::shared_ptr<const PluginInstance> plugin = operators.instanceOf(*n, &problem);
    if (!plugin) {
      diagnostics.error(n->range, problem.text, problem.kind);
      return;
    }
    if (!plugin->creator().table().decompose) return;
    PluginArguments arguments = pluginArguments(*n, plugin->creator(), shapes);
    if (arguments.unknown) {
      diagnostics.warning(n->range, fmt::format("{} stays a plugin: dtype or rank of %{} is not known",
                                                n->kind().text(), arguments.unknown->name()));
      return;
    }
    std::string text;
    try {
      text = plugin->decomposition(arguments.known);
    } catch (const ExecutionError& e) {
      diagnostics.error(n->range, e.message(), e.kind());
      return;
    }
    if (text.empty()) return;
    ParseOptions options;
    options.registry = &allOps();
    Diagnostics own;
    Result<std::unique_ptr<Graph>> made = parseGraph(text, own, options);
    size_t present = 0;
    for (int place : arguments.places) present += place >= 0;
    std::string why = made ? problemOfDecomposition(**made, allOps()) : own.list().at(0).message;
    if (why.empty() && ((*made)->inputs().size() != present || (*made)->outputs().size() != n->outputCount()))
      why = "it has other inputs or outputs";
    if (!why.empty()) {
      diagnostics.error(n->range, fmt::format("the decomposition of {} cannot be used: {}", n->kind().text(), why));
      return;
    }
    all.push_back({n, plugin, std::move(arguments.places), std::move(*made)});
  };
  forEachNode(graph, [&](Node* n) {
    if (auto* operators = dynamic_cast<const PluginOperators*>(registry.configured(n->kind()))) unpack(n, *operators);
  });
  if (diagnostics.errorCount() != before) return std::nullopt;
  for (const Unpacked& u : all) replace(graph, u);
  return all.size();
}

}  // namespace tscompile
