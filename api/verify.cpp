#include "api/verify.h"

#include "api/module_state.h"
#include "api/support/deep_copy.h"
#include "ir/graph/printer.h"
#include "partition/report.h"
#include "partition/segment_graph.h"
#include "passes/lowering/bound_inputs.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/network/poison.h"
#include "runtime/engine/refusal_watch.h"
#include "runtime/interpreter/structure_runner.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

namespace tscompile {
namespace {

// A graph run by the interpreter. Throws ExecutionError.
std::vector<IValue> interpret(const Graph& graph, const OpRegistry& registry, std::span<const IValue> inputs,
                              const RunOptions& options) {
  Diagnostics diagnostics;
  ProgramSources sources;
  sources.boundInputs.resize(graph.inputs().size());
  Result<std::shared_ptr<const Program>> program = Program::compile(graph, registry, std::move(sources), diagnostics);
  if (program)
    if (Result<std::vector<IValue>> out = (*program)->run(inputs, options, diagnostics)) return std::move(*out);
  throw ExecutionError(diagnostics.firstErrorKind(), diagnostics.list().front().message);
}

// A graph run as one engine; what is wrong if that fails where the interpreter does not.
struct EngineRun {
  std::vector<IValue> outputs;
  bool ran = false, cut = false;  // cut: engines have run a part
  std::string failure;
};

EngineRun runEngine(const CompiledSegment& engine, std::span<const IValue> inputs, size_t outputs,
                    RunContext& context) {
  EngineRun run;
  run.outputs.resize(outputs);
  PoisonScope poison;
  RefusalWatch refusals;
  try {
    run.ran = engine.run(inputs, run.outputs, context);
    run.cut = run.ran && !refusals.rows().empty();
  } catch (const ExecutionError& e) {
    if (e.kind() == ErrorKind::Interrupted || e.kind() == ErrorKind::Limit) throw;
    run.failure = e.message();
  }
  return run;
}

// Some nodes of a graph as a graph of their own.
std::unique_ptr<Graph> partOf(const Graph& graph, std::vector<const Node*> nodes, std::vector<const Value*> inputs,
                              std::vector<const Value*> outputs) {
  Partition whole(graph);
  Segment segment;
  segment.target = Target::Accelerated;
  segment.block = graph.block();
  segment.nodes = std::move(nodes);
  segment.inputs = std::move(inputs);
  segment.outputs = std::move(outputs);
  return segmentGraph(segment, whole);
}

// Finds the node of an engine that goes wrong.
class Bisector {
 public:
  Bisector(const Graph& graph, const OpRegistry& registry, const EngineOptions& engine, const VerifyOptions& options,
           std::span<const IValue> inputs)
      : graph_(graph), registry_(registry), engine_(engine), options_(options), inputs_(inputs), given_(graph) {
    for (const Node* n : graph.block()->nodes())
      if (!given_.contains(n)) nodes_.push_back(n);
    for (const Node* n : nodes_)
      for (const Value* v : n->outputs()) values_.push_back(v);
  }

  std::optional<Blame> find() {
    std::unique_ptr<Graph> all = partOf(graph_, nodes_, graphInputs(), values_);
    std::vector<IValue> results = interpret(*all, registry_, inputs_, options_.run);
    for (size_t i = 0; i < values_.size(); ++i) known_[values_[i]] = results[i];
    for (size_t i = 0; i < graph_.inputs().size(); ++i) known_[graph_.input(i)] = inputs_[i];
    for (const Node* n : nodes_)
      if (Difference d = alone(n); !d.within) return Blame{n, true, d};
    return together();
  }

 private:
  std::vector<const Value*> graphInputs() const { return {graph_.inputs().begin(), graph_.inputs().end()}; }

  // One node as an engine, on the interpreter's values.
  Difference alone(const Node* n) {
    if (StructureRunner::runs(n->kind())) return {};
    std::vector<const Value*> inputs;
    for (const Use& u : n->inputs()) {
      bool isGiven = u.value->node() && given_.contains(u.value->node());
      if (!isGiven && std::find(inputs.begin(), inputs.end(), u.value) == inputs.end()) inputs.push_back(u.value);
    }
    return compare({n}, std::move(inputs), {n->outputs().begin(), n->outputs().end()});
  }

  // No node is wrong by itself, so layers that were made of several are, or small errors have added up: the first
  // value that is out of tolerance when all up to it is an engine.
  std::optional<Blame> together() {
    auto upTo = [&](size_t count) {
      std::vector<const Value*> outputs(nodes_[count - 1]->outputs().begin(), nodes_[count - 1]->outputs().end());
      return compare({nodes_.begin(), nodes_.begin() + static_cast<ptrdiff_t>(count)}, graphInputs(),
                     std::move(outputs));
    };
    size_t good = 0, bad = nodes_.size() + 1;
    while (bad - good > 1) {
      size_t middle = good + (bad - good) / 2;
      (upTo(middle).within ? good : bad) = middle;
    }
    if (bad > nodes_.size()) return std::nullopt;
    return Blame{nodes_[bad - 1], false, upTo(bad)};
  }

  Difference compare(std::vector<const Node*> nodes, std::vector<const Value*> inputs,
                     std::vector<const Value*> outputs) {
    std::erase_if(outputs, [&](const Value* v) { return !known_.contains(v); });
    std::unique_ptr<Graph> part = partOf(graph_, std::move(nodes), inputs, outputs);
    std::optional<Refusal> refusal;
    std::shared_ptr<Engine> engine = Engine::make(*part, registry_, {}, engine_, refusal);
    if (!engine) return {};
    std::vector<IValue> values;
    for (const Value* v : inputs) values.push_back(known_.at(v));
    values = deepCopy(values);
    RunContext context(options_.run);
    RunScope scope(context);
    EngineRun run = runEngine(*engine, values, outputs.size(), context);
    if (!run.failure.empty()) return wrongBy(run.failure);
    Difference all;
    for (size_t i = 0; run.ran && i < outputs.size(); ++i)
      all.add(difference(run.outputs[i], known_.at(outputs[i]), options_.tolerance));
    return all;
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const EngineOptions& engine_;
  const VerifyOptions& options_;
  std::span<const IValue> inputs_;
  GivenNodes given_;
  std::vector<const Node*> nodes_;
  std::vector<const Value*> values_;
  std::unordered_map<const Value*, IValue> known_;
};

}  // namespace

bool VerifyReport::passed() const { return worst().within; }

Difference VerifyReport::worst() const {
  Difference all = outputs;
  for (const EngineCheck& e : engines) all.add(e.own);
  return all;
}

// Two runs of the compiled method: one in which the interpreter's values go on, one in which the engines' do.
class EngineVerifier : public SegmentCalls {
 public:
  EngineVerifier(const Module& compiled, const VerifyOptions& options) : module_(compiled), options_(options) {}

  // The same module with the data of constants in its graphs, so that parts of them run by themselves.
  static std::shared_ptr<const Module> withData(const Module& module, Diagnostics& diagnostics) {
    const Graph* graph = module.findGraph("forward", diagnostics);
    size_t before = diagnostics.errorCount();
    ProgramSources sources = graph ? collectSources(*module.state_, *graph, diagnostics) : ProgramSources();
    if (diagnostics.errorCount() != before) return nullptr;
    return std::make_shared<const Module>(module.withGraph(copyWithData(*graph, sources)));
  }

  // Nothing after reporting. Without `wanted`, outputs are compared with those that the interpreter computes.
  Result<VerifyReport> run(std::span<const IValue> inputs, std::optional<std::vector<IValue>> wanted,
                           Diagnostics& diagnostics) {
    Result<Method> method = module_.prepare(diagnostics, "forward", this);
    if (!method) return Failed{};
    const Graph* graph = module_.findGraph("forward", diagnostics);
    if (graph)
      forEachNode(*graph, [&](const Node* n) {
        if (n->kind() == sym::Engine) checkOf(*n);
      });
    Result<std::vector<IValue>> reference = method->run(deepCopy(inputs), diagnostics, options_.run);
    if (!reference) return Failed{};
    if (!wanted) wanted = deepCopy(*reference);
    carrying_ = true;
    for (auto& [node, calls] : recorded_) calls.next = 0;
    // A failure here is a result.
    Diagnostics failures;
    Result<std::vector<IValue>> got = method->run(deepCopy(inputs), failures, options_.run);
    if (!got) {
      report_.outputs = wrongBy(failures.list().front().message);
    } else {
      for (size_t i = 0; i < wanted->size(); ++i)
        report_.outputs.add(difference((*got)[i], (*wanted)[i], options_.tolerance));
    }
    if (options_.bisect) bisect();
    return std::move(report_);
  }

  void call(const Node& node, const CompiledSegment& segment, std::span<const IValue> inputs, std::span<IValue> outputs,
            RunContext& context) override {
    EngineCheck& check = checkOf(node);
    EngineRun run = runEngine(segment, inputs, outputs.size(), context);
    Recorded& recorded = recorded_[&node];
    if (carrying_) {
      if (!run.ran) run.outputs = interpret(*node.subgraph(), module_.registry(), inputs, options_.run);
      if (recorded.next < recorded.outputs.size())
        for (size_t i = 0; i < outputs.size(); ++i)
          if (!isUnwritten(*node.subgraph(), i))
            check.carried.add(difference(run.outputs[i], recorded.outputs[recorded.next][i], options_.tolerance));
      ++recorded.next;
      std::move(run.outputs.begin(), run.outputs.end(), outputs.begin());
      return;
    }
    std::vector<IValue> kept = deepCopy(inputs);
    std::vector<IValue> wanted = interpret(*node.subgraph(), module_.registry(), inputs, options_.run);
    ++check.calls;
    check.planned += run.ran && !run.cut;
    check.cut += run.cut;
    Difference own = run.failure.empty() ? Difference() : wrongBy(run.failure);
    for (size_t i = 0; run.ran && i < outputs.size(); ++i) {
      if (isUnwritten(*node.subgraph(), i)) continue;
      Difference d = difference(run.outputs[i], wanted[i], options_.tolerance);
      if (!d.within && check.output.empty()) check.output = node.output(i)->name();
      own.add(d);
    }
    check.own.add(own);
    if (!own.within && !failing_) {
      failing_ = &node;
      failingInputs_ = std::move(kept);
    }
    if (recorded.outputs.size() < kMostRecorded) recorded.outputs.push_back(deepCopy(wanted));
    std::move(wanted.begin(), wanted.end(), outputs.begin());
  }

 private:
  // Of calls in loops, so many are compared with their carried values.
  static constexpr size_t kMostRecorded = 64;
  struct Recorded {
    std::vector<std::vector<IValue>> outputs;
    size_t next = 0;
  };

  // Whether an output of an engine is memory that others write later: it may hold anything.
  bool isUnwritten(const Graph& part, size_t output) const {
    const Value* v = part.output(output);
    const Operator* op = v->node() ? module_.registry().resolve(*v->node()) : nullptr;
    bool isUnwritten = op && op->has(Trait::Uninitialized);
    for (const Use& u : v->uses()) isUnwritten &= u.user->kind() == sym::Return;
    return isUnwritten;
  }

  EngineCheck& checkOf(const Node& node) {
    for (EngineCheck& e : report_.engines)
      if (e.node == &node) return e;
    EngineCheck check;
    check.node = &node;
    GivenNodes given(*node.subgraph());
    forEachNode(*node.subgraph(), [&](const Node* n) { check.nodes += !given.contains(n); });
    report_.engines.push_back(std::move(check));
    return report_.engines.back();
  }

  void bisect() {
    if (!failing_) return;
    report_.blame =
        Bisector(*failing_->subgraph(), module_.registry(), module_.state_->engine, options_, failingInputs_).find();
  }

  const Module& module_;
  const VerifyOptions& options_;
  VerifyReport report_;
  bool carrying_ = false;
  std::unordered_map<const Node*, Recorded> recorded_;
  const Node* failing_ = nullptr;  // the first engine that is out of tolerance
  std::vector<IValue> failingInputs_;
};

// The inputs of a method that lowering does not put constants in the place of.
static std::vector<IValue> unbound(std::span<const ValueInfo> infos, std::span<const IValue> inputs,
                                   const CompileSpec& spec) {
  std::vector<IValue> out;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (i >= infos.size() || !spec.lowering.arguments.count(boundInput(infos[i].name))) out.push_back(inputs[i]);
  return out;
}

Result<VerifyReport> verifyEngines(const Module& module, const CompileSpec& spec, std::span<const IValue> inputs,
                                   const VerifyOptions& options, Diagnostics& diagnostics) {
  if (module.engineInfo()) {
    std::shared_ptr<const Module> shared = EngineVerifier::withData(module, diagnostics);
    if (!shared) return Failed{};
    Result<VerifyReport> report = EngineVerifier(*shared, options).run(inputs, std::nullopt, diagnostics);
    if (report) report->compiled = shared;
    return report;
  }
  Result<Method> original = module.prepare(diagnostics, spec.lowering.method);
  if (!original) return Failed{};
  Result<std::vector<IValue>> wanted = original->run(deepCopy(inputs), diagnostics, options.run);
  if (!wanted) return Failed{};
  std::vector<IValue> kept = deepCopy(*wanted);
  Result<Module> compiled = module.compiled(spec, diagnostics);
  if (!compiled) return Failed{};
  auto shared = std::make_shared<const Module>(std::move(*compiled));
  const std::vector<IValue> taken = unbound(original->inputs(), inputs, spec);
  Result<VerifyReport> report = EngineVerifier(*shared, options).run(taken, std::move(kept), diagnostics);
  if (report) report->compiled = shared;
  return report;
}

}  // namespace tscompile
