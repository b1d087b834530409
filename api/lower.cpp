#include "api/lower.h"

#include "api/module_state.h"
#include "ir/clone.h"
#include "runtime/evaluator.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

// A copy of a graph whose constants hold the data that was supplied for them.
std::unique_ptr<Graph> copyWithData(const Graph& graph, const ProgramSources& sources, Diagnostics& diagnostics) {
  std::unique_ptr<Graph> copy = cloneGraph(graph);
  std::vector<Node*> copies;
  forEachNode(*copy, [&](Node* n) { copies.push_back(n); });
  size_t at = 0;
  forEachNode(graph, [&](Node* n) {
    Node* twin = copies[at++];
    auto opaque = sources.constants.find(n);
    if (opaque == sources.constants.end() || !opaque->second.data) return;
    const IValue& data = *opaque->second.data;
    TypePtr type = withoutRefinement(n->output()->type());
    if (isInstance(data, type)) return twin->setAttribute(sym::value, data);
    diagnostics.error(n->range, fmt::format("the tensor '{}' of the weights is {}, not {}", opaque->second.key,
                                            typeText(withoutRefinement(dynamicType(data))), typeText(type)));
  });
  return copy;
}

// The graphs that calls may mean, with their data.
class Callees {
 public:
  Callees(const ProgramSources& sources, Diagnostics& diagnostics) : sources_(sources), diagnostics_(diagnostics) {
    for (const auto& [type, methods] : sources.methods)
      for (const auto& [name, graph] : methods) targets.methods[type][name] = copyOf(graph);
    for (const auto& [name, graph] : sources.functions) targets.functions[name] = copyOf(graph);
  }

  CallTargets targets;

 private:
  const Graph* copyOf(const Graph* graph) {
    std::unique_ptr<Graph>& copy = copies_[graph];
    if (!copy) copy = copyWithData(*graph, sources_, diagnostics_);
    return copy.get();
  }

  const ProgramSources& sources_;
  Diagnostics& diagnostics_;
  std::unordered_map<const Graph*, std::unique_ptr<Graph>> copies_;
};

// Drops the module from the inputs if nothing uses it. Tells whether it is still there.
bool keepsSelf(Graph& graph, const std::string& name) {
  if (graph.inputs().empty() || graph.input(0)->name() != name) return false;
  if (graph.input(0)->hasUses()) return true;
  graph.block()->removeParameter(0);
  return false;
}

}  // namespace

Result<Module> Module::lowered(const LowerOptions& options, Diagnostics& diagnostics) const {
  const Graph* entry = findGraph(options.method, diagnostics);
  if (!entry) return Failed{};
  size_t before = diagnostics.errorCount();
  ProgramSources sources = collectSources(*state_, *entry, diagnostics);
  std::unique_ptr<Graph> graph = copyWithData(*entry, sources, diagnostics);
  Callees callees(sources, diagnostics);
  if (diagnostics.errorCount() != before) return Failed{};
  std::optional<IValue> self = bindSelf(*state_, *entry, true, diagnostics);
  if (self) callees.targets.self = Ref<ObjectValue>::share(&self->toObject());
  callees.targets.maxNodes = options.limits.nodes;
  callees.targets.onCall = options.onCall;
  std::string selfName = self ? graph->input(0)->name() : "";

  std::unique_ptr<Evaluator> evaluator = makeEvaluator(*state_->registry);
  RewriteContext context(*graph, *state_->registry, diagnostics);
  context.module = &callees.targets;
  context.evaluator = evaluator.get();
  context.arguments = options.arguments;
  const RewriteDatabase& database = options.database ? *options.database : loweringDatabase();
  database.query(options.query).run(context, options.settings);
  if (diagnostics.errorCount() != before) return Failed{};

  auto state = std::make_shared<ModuleState>();
  state->registry = state_->registry;
  state->origin = state_->origin ? state_->origin : state_;
  state->takesSelf = self && keepsSelf(*graph, selfName);
  state->text.graphs.push_back(std::move(graph));
  Module m;
  m.state_ = std::move(state);
  return m;
}

}  // namespace tscompile
