#include "api/lower.h"

#include "api/exported_sizes.h"
#include "api/extensions.h"
#include "api/module_state.h"
#include "api/other_inputs.h"
#include "api/support/autocast.h"
#include "api/support/enum_members.h"
#include "api/symbolic_ranges.h"
#include "api/unpack_plugins.h"
#include "ir/analysis/context_kind.h"
#include "ir/graph/clone.h"
#include "ir/support/text.h"
#include "partition/stitch.h"
#include "passes/lowering/assumed_weights.h"
#include "passes/lowering/kept_state.h"
#include "passes/rewrite/compare.h"
#include "runtime/interpreter/evaluator.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

namespace tscompile {
namespace {

// The data of a constant that is shown as text: what was supplied, or what the text says to the last bit.
std::optional<IValue> dataOf(const Node* n, const ProgramSources& sources) {
  if (n->kind() != sym::Constant) return std::nullopt;
  if (auto opaque = sources.constants.find(n); opaque != sources.constants.end() && opaque->second.data)
    return opaque->second.data;
  const IValue* v = n->attributeValue(sym::value);
  if (v && v->isLiteral() && v->toLiteral().kind == LiteralValue::Kind::ExactTensor) return IValue(v->toLiteral().data);
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Graph> copyWithData(const Graph& graph, const ProgramSources& sources) {
  std::unique_ptr<Graph> copy = cloneGraph(graph);
  std::vector<std::pair<const Graph*, Graph*>> todo{{&graph, copy.get()}};
  while (!todo.empty()) {
    auto [from, to] = todo.back();
    todo.pop_back();
    std::vector<Node*> copies;
    forEachNode(*to, [&](Node* n) { copies.push_back(n); });
    size_t at = 0;
    forEachNode(*from, [&](Node* n) {
      Node* twin = copies[at++];
      if (n->subgraph()) todo.emplace_back(n->subgraph(), twin->subgraph());
      std::optional<IValue> data = dataOf(n, sources);
      if (!data) return;
      // What was supplied may be of another type than the text tells.
      if (data->isTensor() && !isInstance(*data, n->output()->type())) twin->output()->setType(dynamicType(*data));
      twin->setAttribute(sym::value, std::move(*data));
    });
  }
  return copy;
}

namespace {

// Takes away what the types say of the tensors that the text was made with. Constants are what they are.
void forgetExample(Graph& graph) {
  auto forget = [](std::span<Value* const> values) {
    for (Value* v : values) v->setType(withoutRefinement(v->type()));
  };
  forget(graph.inputs());
  forEachNode(graph, [&](Node* n) {
    if (n->kind() != sym::Constant) forget(n->outputs());
    for (Block* b : n->blocks()) forget(b->parameters());
    if (n->subgraph()) forgetExample(*n->subgraph());
  });
}

// The graphs that calls may mean, with their data.
class Callees {
 public:
  Callees(const ProgramSources& sources, bool forgetSizes) : sources_(sources), forgetSizes_(forgetSizes) {
    for (const auto& [type, methods] : sources.methods) {
      if (contextKindOf(type->name()) != ContextKind::Other) targets.modes.insert(type);
      for (const auto& [name, graph] : methods) targets.methods[type][name] = copyOf(graph);
    }
    for (const auto& [name, graph] : sources.functions) targets.functions[name] = copyOf(graph);
  }

  CallTargets targets;

 private:
  const Graph* copyOf(const Graph* graph) {
    std::unique_ptr<Graph>& copy = copies_[graph];
    if (!copy) {
      copy = copyWithData(*graph, sources_);
      if (forgetSizes_) forgetExample(*copy);
    }
    return copy.get();
  }

  const ProgramSources& sources_;
  bool forgetSizes_;
  std::unordered_map<const Graph*, std::unique_ptr<Graph>> copies_;
};

// Drops the module from the inputs if nothing uses it. Tells whether it is still there.
bool keepsSelf(Graph& graph, const std::string& name) {
  if (graph.inputs().empty() || graph.input(0)->name() != name) return false;
  if (graph.input(0)->hasUses()) return true;
  graph.block()->removeParameter(0);
  return false;
}

void assumeShapes(Graph& graph, const std::vector<InputRange>& ranges) {
  ShapeOptions shapes = shapeOptions(graph, ranges, false);
  for (size_t i = 0; i < shapes.inputs.size(); ++i)
    if (shapes.inputs[i]) graph.input(i)->setType(shapes.inputs[i]->type);  // one that may be left out is there
}

// Keeps the records that were asked for: of nodes that are there, and of calls as they are inlined.
class Recorder {
 public:
  Recorder(Graph& graph, const OpRegistry& registry, const std::vector<std::string>& kinds)
      : registry_(registry), log_(graph), records_(log_) {
    for (const std::string& kind : kinds) records_.request(kind);
    forEachNode(graph, [&](Node* n) { record(n); });
  }

  CallRecords& records() { return records_; }

  void inlined(const CallSite& call) {
    // Those inside of blocks are what is left where a branch is known.
    std::vector<Node*> nodes;
    for (Node* n : call.nodes) {
      nodes.push_back(n);
      for (Block* b : n->blocks()) forEachNode(b, [&](Node* inner) { nodes.push_back(inner); });
    }
    for (Node* n : nodes) record(n);
    const std::string* kind = records_.requestFor(call.callee);
    if (!kind) return;
    CallArguments arguments;
    for (const auto& [name, value] : call.arguments) arguments.emplace_back(name, value);
    records_.add(*kind, std::move(arguments), call.outputs, std::move(nodes));
  }

 private:
  // Once, though it is part of several calls.
  void record(Node* n) {
    const std::string* kind = records_.requestFor(n->kind().text());
    if (!kind || !recorded_.insert(n).second) return;
    const Operator* op = registry_.resolve(*n);
    CallArguments arguments;
    for (size_t i = 0; i < n->inputCount(); ++i) {
      bool named = op && i < op->schema().arguments.size();
      arguments.emplace_back(named ? op->schema().arguments[i].name : std::to_string(i), n->input(i));
    }
    records_.add(*kind, std::move(arguments), {n->outputs().begin(), n->outputs().end()}, {n});
  }

  const OpRegistry& registry_;
  EditLog log_;
  CallRecords records_;
  std::unordered_set<const Node*> recorded_;
};

// Runs the plan that the options ask of their database; false if something was reported. `takesInOrder` is set if the
// graph now serves no inputs but those that lie in order.
bool runPlan(Graph& graph, const OpRegistry& registry, const CallTargets& targets, const LowerOptions& options,
             Recorder* recorder, bool& takesInOrder, Diagnostics& diagnostics) {
  size_t before = diagnostics.errorCount();
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(registry);
  RewriteContext context(graph, registry, diagnostics);
  context.module = &targets;
  context.evaluator = evaluator.get();
  context.arguments = options.arguments;
  if (options.keepsState) context.arguments.emplace(kKeptState, true);
  if (options.settings.compare && targets.self) context.arguments.emplace(kSampledModule, targets.self);
  if (recorder) context.records = &recorder->records();
  if (options.arguments.contains(kAnyOrder)) context.facts.takeInputsAnyhow();
  PlanSettings settings = options.settings;
  settings.maxNodes = std::min(settings.maxNodes, options.limits.nodes);
  options.database->query(options.query).run(context, settings);
  if (options.onReports) options.onReports(context.reports);
  takesInOrder |= context.facts.reliesOnInputOrder();
  return diagnostics.errorCount() == before;
}

// All entries of lowering, with the rules that a module was loaded with.
const RewriteDatabase& databaseOf(const ModuleState& state) {
  const ModuleState& loaded = state.origin ? *state.origin : state;
  return loaded.extensions ? loaded.extensions->lowering() : loweringDatabase();
}

bool checkNames(const RewriteDatabase& database, const Query& query, Diagnostics& diagnostics) {
  const std::vector<std::string> unknown = database.unknownNames(query);
  for (const std::string& name : unknown) {
    Diagnostic& d =
        diagnostics.error("there is no rewrite and no tag '" + abbreviate(name, 80) + "'", ErrorKind::Input);
    if (std::string nearest = database.nearestName(name); !nearest.empty()) d.note("did you mean '" + nearest + "'?");
  }
  return unknown.empty();
}

}  // namespace

Result<Module> Module::lowered(const LowerOptions& given, Diagnostics& diagnostics) const {
  LowerOptions options = given;
  if (!options.database) {
    options.database = &databaseOf(*state_);
    if (!checkNames(*options.database, options.query, diagnostics)) return Failed{};
  }
  const Graph* entry = findGraph(options.method, diagnostics);
  if (!entry) return Failed{};
  size_t before = diagnostics.errorCount();
  std::optional<ExportedInputs> exported =
      withBoundInputs(exportedInputsOf(*state_, *entry), options.arguments, diagnostics);
  if (!exported) return Failed{};
  const Metadata members = membersOfInputs(*state_, *entry);
  for (auto& [name, value] : options.arguments) findMembers(value, members, diagnostics);
  ProgramSources sources = collectSources(*state_, *entry, diagnostics);
  if (diagnostics.errorCount() != before) return Failed{};
  std::unique_ptr<Graph> graph = copyWithData(*entry, sources);
  inlineEngines(*graph);  // they are made of what was lowered
  if (options.forgetSizes) forgetExample(*graph);
  assumeShapes(*graph, options.shapes);
  Callees callees(sources, options.forgetSizes);
  const bool isAssumed = options.arguments.contains(kAssumedWeights);
  std::optional<IValue> self =
      bindSelf(*state_, *entry, isAssumed ? Unsupplied::Assumed : Unsupplied::LeftOut, diagnostics);
  if (self) callees.targets.self = Ref<ObjectValue>::share(&self->toObject());
  callees.targets.maxNodes = options.limits.nodes;
  std::optional<Recorder> recorder;
  if (!options.records.empty()) recorder.emplace(*graph, *state_->registry, options.records);
  if (recorder || options.onCall)  // what it would be told costs time
    callees.targets.onCall = [&](const CallSite& call) {
      if (recorder) recorder->inlined(call);
      if (options.onCall) options.onCall(call);
    };
  std::string selfName = self ? graph->input(0)->name() : "";
  if (isUncastText(*state_) && hasContexts(*entry, sources) &&
      !castWithCallees(*graph, callees.targets, *state_->registry, diagnostics))
    return Failed{};
  bool takesInOrder = state_->takesInOrder;
  auto run = [&] {
    return runPlan(*graph, *state_->registry, callees.targets, options, recorder ? &*recorder : nullptr, takesInOrder,
                   diagnostics);
  };
  if (!run()) return Failed{};
  if (options.unpackPlugins) {
    std::optional<size_t> unpacked = unpackPlugins(*graph, *state_->registry, diagnostics);
    if (!unpacked || (*unpacked && !run())) return Failed{};
  }
  if (recorder && options.onRecords) options.onRecords(recorder->records());
  recorder.reset();

  auto state = std::make_shared<ModuleState>();
  state->registry = state_->registry;
  state->takesInOrder = takesInOrder;
  state->forgetsState = state_->forgetsState || !options.keepsState;
  state->origin = state_->origin ? state_->origin : state_;
  const auto& names = state_->graphNames;
  state->originGraph = state_->origin
                           ? state_->originGraph
                           : static_cast<size_t>(std::find(names.begin(), names.end(), options.method) - names.begin());
  state->originEntry = state_->origin ? state_->originEntry : entry;
  state->exportedRest = std::move(exported);
  state->takesSelf = self && keepsSelf(*graph, selfName);
  state->text.graphs.push_back(std::move(graph));
  if (auto known = state_->defaults.find(options.method); known != state_->defaults.end())
    state->defaults["forward"] = known->second;
  Module m;
  m.state_ = std::move(state);
  return m;
}

}  // namespace tscompile
