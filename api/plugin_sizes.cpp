#include "api/plugin_sizes.h"

#include "api/support/saved_plugins.h"
#include "api/symbolic_ranges.h"
#include "runtime/plugin/fields.h"

namespace tscompile {

PluginArguments pluginArguments(const Node& node, const PluginCreator& creator, const ShapePropagation& shapes) {
  PluginArguments out;
  std::string ignored;  // the instance could be made
  out.places = PluginOperators::inputsOf(node, creator, ignored);
  out.known.resize(out.places.size());
  for (size_t i = 0; i < out.places.size(); ++i) {
    if (out.places[i] < 0) continue;
    const Value* v = node.input(static_cast<size_t>(out.places[i]));
    TypePtr type = shapes.of(v).type;
    if (type->is(TypeKind::None)) {
      out.places[i] = -1;
      continue;
    }
    if (!type->isTensor() || !type->tensor().hasRank || type->tensor().dtype == DType::Undefined) {
      out.unknown = v;
      continue;
    }
    out.known[i].dtype = static_cast<int32_t>(type->tensor().dtype);
    for (int64_t s : type->tensor().sizes) out.known[i].sizes.push_back(s < 0 ? -1 : s);
  }
  return out;
}

bool configurePlugins(const Prepared& prepared, const std::vector<InputRange>& ranges, Diagnostics& diagnostics) {
  std::vector<std::pair<const Node*, std::shared_ptr<const PluginInstance>>> nodes;
  forEachPluginNode(*prepared.graph, *prepared.registry, [&](const Node& node, const PluginOperators& operators) {
    if (auto plugin = operators.instanceOf(node, nullptr); plugin && plugin->creator().table().configure)
      nodes.emplace_back(&node, std::move(plugin));
  });
  if (nodes.empty()) return true;
  const ShapePropagation most(*prepared.graph, *prepared.registry, shapeOptions(*prepared.graph, ranges, true));
  const ShapePropagation& least = prepared.leastShapes ? *prepared.leastShapes : most;
  bool good = true;
  for (const auto& [node, plugin] : nodes) {
    std::vector<PluginArguments> sizes;
    bool known = true;
    for (const ShapePropagation* shapes : {&least, prepared.shapes.get(), &most}) {
      sizes.push_back(pluginArguments(*node, plugin->creator(), *shapes));
      known &= !sizes.back().unknown;
    }
    try {
      for (size_t i = 0; known && i < sizes.size(); ++i) plugin->infer(sizes[i].known);
    } catch (const ExecutionError&) {
      known = false;
    }
    if (!known) continue;
    try {
      plugin->configure(sizes[0].known, sizes[1].known, sizes[2].known);
    } catch (const ExecutionError& e) {
      diagnostics.error(node->range, problemText(plugin->creator(), {e.message()}), e.kind());
      good = false;
    }
  }
  return good;
}

}  // namespace tscompile
