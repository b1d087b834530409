#include "api/engine_cut.h"

#include "api/module_state.h"
#include "ir/analysis/alias.h"
#include "ir/graph/node_text.h"
#include "ir/values/error.h"
#include "partition/segment_graph.h"
#include "partition/stitch.h"
#include "passes/rewrite/origins.h"
#include "runtime/engine/engine.h"
#include "runtime/engine/refusal_watch.h"
#include "runtime/engine/support.h"
#include "runtime/interpreter/nested_run.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_set>

namespace tscompile {
namespace {

// A value as it is described, if that says enough to plan for: tensors with symbolic elements, any number.
std::optional<IValue> sampleOf(TypePtr type) {
  if (type->is(TypeKind::Int)) return IValue(int64_t{1});
  if (type->is(TypeKind::Float)) return IValue(1.0);
  if (type->is(TypeKind::Bool)) return IValue(true);
  if (!type->isTensor()) return std::nullopt;
  const TensorFacts& f = type->tensor();
  if (f.dtype == DType::Undefined || !f.hasRank || !allKnown(f.sizes)) return std::nullopt;
  std::optional<int64_t> count = checkedNumel(f.sizes);
  if (!count) return std::nullopt;
  Ref<Storage> storage = Storage::symbolic(static_cast<size_t>(*count) * itemSize(f.dtype));
  return IValue(Tensor::view(f.dtype, std::move(storage), f.sizes, contiguousStrides(f.sizes), 0));
}

std::optional<IValue> sampleOf(const SymbolicValue& v) {
  if (v.constant && !v.constant->isTensor()) return v.constant;
  if (v.type->is(TypeKind::Int) && v.integers && v.integers->size() == 1 && !isUnknownInteger(v.integers->front()))
    return IValue(v.integers->front());
  return sampleOf(v.type);
}

using Samples = std::vector<IValue>;
template <class Describe>
std::optional<Samples> samplesOf(std::span<const Value* const> inputs, Describe&& describe) {
  Samples samples;
  for (const Value* v : inputs) {
    std::optional<IValue> sample = sampleOf(describe(v));
    if (!sample) return std::nullopt;
    samples.push_back(std::move(*sample));
  }
  return samples;
}
std::optional<Samples> samplesOf(std::span<const Value* const> inputs, const ShapePropagation* shapes) {
  if (!shapes) return std::nullopt;
  return samplesOf(inputs, [&](const Value* v) -> const SymbolicValue& { return shapes->of(v); });
}

// Why an engine cannot be planned for such inputs, if it cannot.
std::optional<Refusal> tryPlan(const Engine& engine, const Samples& samples) {
  std::optional<Refusal> refusal;
  // Tensors that are made of nothing are made for the trial too. What has no room for them may be planned all the same:
  // the run tells, which has a limit of its own.
  constexpr uint64_t kMostTrialBytes = uint64_t{256} << 20;
  RunOptions run;
  run.memoryLimit = kMostTrialBytes;
  RunContext context(run);
  RunScope scope(context);
  engine.planFor(samples, context, &refusal);
  return refusal && refusal->isOutOfRoom ? std::nullopt : refusal;
}

// Makes the engine of a segment, and plans it for what the types say; where that is open, for the usual sizes, and for
// the least: it cannot be what is neither. Why it cannot be, if it cannot.
std::optional<Refusal> tryEngine(const Graph& graph, const Segment& segment, const Prepared& prepared,
                                 const EngineOptions& options) {
  std::optional<Refusal> refusal;
  EngineOptions plain = options;
  plain.optimize = false;  // whether it can be done does not depend on how fast
  plain.trial = true;
  std::shared_ptr<Engine> engine = Engine::make(graph, *prepared.registry, {}, plain, refusal);
  if (!engine) return refusal;
  if (std::optional<Samples> only = samplesOf(segment.inputs, [](const Value* v) { return v->type(); }))
    return tryPlan(*engine, *only);
  const std::optional<Samples> usual = samplesOf(segment.inputs, prepared.shapes.get()),
                               least = samplesOf(segment.inputs, prepared.leastShapes.get());
  if (!usual) return std::nullopt;
  refusal = tryPlan(*engine, *usual);
  if (!refusal || refusal->isMistake || !least) return refusal && refusal->node ? refusal : std::nullopt;
  std::optional<Refusal> other = tryPlan(*engine, *least);
  return other && (other->isMistake || (other->node && other->node == refusal->node)) ? other : std::nullopt;
}

// The node of a segment that a node of its graph, or what is around that, stands for. The graph has the nodes in order,
// with copies of given ones between.
const Node* sourceOf(const Segment& segment, const GivenNodes& given, const Node* copy) {
  if (!copy) return nullptr;
  while (const Node* owner = copy->block()->owner()) copy = owner;
  size_t at = 0;
  for (const Node* n : copy->block()->nodes()) {
    if (n == copy) break;
    at += !given.contains(n);
  }
  if (given.contains(copy) || at < segment.recomputed.size()) return nullptr;
  at -= segment.recomputed.size();
  return at < segment.nodes.size() ? segment.nodes[at] : nullptr;
}

// The nodes of a segment that a node of its graph stands for; of a given one, those that take it.
std::unordered_set<const Node*> sourcesOf(const Segment& segment, const GivenNodes& given, const Node* copy) {
  std::unordered_set<const Node*> sources;
  std::vector<const Node*> todo{copy};
  for (size_t i = 0; i < todo.size(); ++i) {
    if (const Node* source = sourceOf(segment, given, todo[i])) sources.insert(source);
    if (todo[i] && given.contains(todo[i]))
      for (const Use& u : todo[i]->output()->uses())
        if (!u.user->isReturn()) todo.push_back(u.user);
  }
  return sources;
}

// Whether the node asks how a tensor lies in memory: what engines give lies in order, whatever the interpreter's would.
bool asksForStrides(const Node* node, const OpRegistry& registry) {
  const Operator* op = node->hasBlocks() || node->subgraph() ? nullptr : registry.resolve(*node);
  return op && (op->has(Trait::ReadsStrides) || op->has(Trait::MindsStrides));
}
// The first that does, outside or inside of engines; null: none.
const Node* strideAskerOf(const Graph& graph, const OpRegistry& registry) {
  const Node* first = nullptr;
  auto look = [&](const Node* n) {
    if (!first && asksForStrides(n, registry)) first = n;
  };
  forEachNode(graph, [&](const Node* n) {
    look(n);
    if (n->subgraph() && !first) forEachNode(*n->subgraph(), look);
  });
  return first;
}
bool asksForStrides(const Graph& graph, const OpRegistry& registry) { return strideAskerOf(graph, registry); }

// Whether something is written that is a view, or a copy, by how tensors lie in memory.
bool writesByOrder(const Graph& graph, const OpRegistry& registry) {
  std::vector<const Node*> found;
  forEachNode(graph, [&](const Node* n) {
    if (isViewByOrder(n)) found.push_back(n);
  });
  if (found.empty()) return false;
  AliasAnalysis aliases(graph, registry);
  return std::ranges::any_of(found, [&](const Node* n) { return aliases.isWritten(n->output()); });
}

// The node of a graph's copy that stands where `node` does in the graph.
const Node* twinOf(const Node* node, const Graph& graph, const Graph& copy) {
  size_t place = 0, at = 0;
  forEachNode(graph, [&](const Node* n) { place = n == node ? at : place, ++at; });
  const Node* twin = nullptr;
  forEachNode(copy, [&](const Node* n) { twin = place-- == 0 ? n : twin; });
  return twin;
}

SegmentCompiler recutting(EngineOptions options, int cuts);

// An engine, and what its graph is cut into for inputs that it cannot be planned for.
class RecutEngine : public CompiledSegment {
 public:
  // `cuts`: how many engines there are around it that were cut.
  RecutEngine(const Graph& graph, const OpRegistry& registry, const ProgramSources& sources,
              const EngineOptions& options, int cuts)
      : graph_(graph),
        registry_(registry),
        sources_(sources),
        options_(options),
        cuts_(cuts),
        engine_(Engine::make(graph, registry, sources, options, unmade_)) {}

  const Graph& graph() const override { return graph_; }

  bool run(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context) const override {
    std::optional<Refusal> refusal = unmade_;
    if (engine_ && runWhole(inputs, outputs, context, refusal)) return true;
    const Parts* parts = refusal && refusal->node ? &partsWithout(*refusal) : nullptr;
    const bool ran = parts && parts->program && run(*parts, inputs, outputs, context);
    RefusalWatch::note(graph_, refusal, ran ? parts->interpreted : 0);
    return ran;
  }

 private:
  struct Parts {
    std::unique_ptr<const Graph> graph;      // with engines in it
    std::shared_ptr<const Program> program;  // null: no part is worth an engine
    size_t interpreted = 0;                  // nodes
  };

  bool runWhole(std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context,
                std::optional<Refusal>& refusal) const {
    RefusalWatch watch;
    if (engine_->run(inputs, outputs, context)) return true;
    refusal = watch.rows().front().refusal;
    return false;
  }

  bool run(const Parts& parts, std::span<const IValue> inputs, std::span<IValue> outputs, RunContext& context) const {
    try {
      runWithin(*parts.program, inputs, outputs, context);
      return true;
    } catch (const ExecutionError& e) {
      // As of engines: the interpreter does it again and tells where it fails.
      if (e.kind() == ErrorKind::Interrupted || AliasAnalysis(graph_, registry_).graphHasWrites()) throw;
      return false;
    }
  }

  const Parts& partsWithout(const Refusal& refusal) const {
    std::lock_guard lock(mutex_);
    std::unique_ptr<const Parts>& parts = parts_[refusal.node];
    if (!parts) parts = std::make_unique<const Parts>(cutWithout(refusal));
    return *parts;
  }

  Parts cutWithout(const Refusal& refusal) const {
    // Each cut takes a node out, and what is left is an engine inside of the one that was cut.
    constexpr int kMostCuts = 16;
    Parts parts;
    if (cuts_ == kMostCuts || refusal.isMistake || asksForStrides(graph_, registry_)) return parts;
    std::unique_ptr<Graph> whole = copyWithData(graph_, sources_);
    const std::unordered_map<const Node*, Verdict> refused{{twinOf(refusal.node, graph_, *whole), refusal.verdict}};
    PartitionOptions options = partitionOptionsOf({});
    options.refused = &refused;
    const Partition cut = segment(*whole, registry_, *engineSupport(registry_), options);
    if (cut.count(Target::Accelerated) == 0) return parts;
    parts.interpreted = cut.nodeCount() - cut.acceleratedCount();
    parts.graph = stitch(*whole, cut);
    ProgramSources sources;
    sources.compileSegment = recutting(options_, cuts_ + 1);
    Diagnostics failures;
    Result<std::shared_ptr<const Program>> program =
        Program::compile(*parts.graph, registry_, std::move(sources), failures);
    if (program) parts.program = *program;
    return parts;
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const ProgramSources& sources_;
  const EngineOptions options_;
  const int cuts_;
  std::optional<Refusal> unmade_;  // why there is no engine
  const std::shared_ptr<const Engine> engine_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<const Node*, std::unique_ptr<const Parts>> parts_;  // by what was in the way
};

SegmentCompiler recutting(EngineOptions options, int cuts) {
  return [options = std::move(options), cuts](const Graph& graph, const OpRegistry& registry,
                                              const ProgramSources& sources) {
    return std::make_shared<const RecutEngine>(graph, registry, sources, options, cuts);
  };
}

using Refused = std::unordered_map<const Node*, Verdict>;

// What becomes of the engine of a segment.
struct EngineTrial {
  std::optional<Refusal> refusal;                // none: it can be made; its node is gone
  const Node* source = nullptr;                  // the node that the refusal is about, where there is one
  std::unordered_set<const Node*> withoutThese;  // it may do
};

// Tries engines, those of the same nodes once.
class EngineTrials {
 public:
  EngineTrials(const Prepared& prepared, EngineOptions engine, bool withData)
      : prepared_(prepared), engine_(std::move(engine)), withData_(withData) {}

  const EngineTrial& of(const Segment& s, const Partition& cut) {
    std::vector<const void*> key(s.nodes.begin(), s.nodes.end());
    key.push_back(nullptr);
    key.insert(key.end(), s.recomputed.begin(), s.recomputed.end());
    key.insert(key.end(), s.outputs.begin(), s.outputs.end());
    auto [it, isNew] = known_.try_emplace(std::move(key));
    if (isNew) it->second = trialOf(s, cut);
    return it->second;
  }

 private:
  EngineTrial trialOf(const Segment& s, const Partition& cut) const {
    EngineTrial t;
    std::unique_ptr<Graph> graph = segmentGraph(s, cut);
    t.refusal = tryEngine(*graph, s, prepared_, engine_);
    if (t.refusal && !withData_ && t.refusal->verdict.reason == Reason::ConstArg) t.refusal.reset();
    if (!t.refusal) return t;
    t.source = sourceOf(s, cut.given, t.refusal->node);
    t.withoutThese = sourcesOf(s, cut.given, t.refusal->node);
    if (t.withoutThese.empty() || (t.source && asksForStrides(t.source, *prepared_.registry)))
      t.withoutThese = {s.nodes.begin(), s.nodes.end()};
    t.refusal->node = nullptr;
    return t;
  }

  const Prepared& prepared_;
  const EngineOptions engine_;
  const bool withData_;
  std::map<std::vector<const void*>, EngineTrial> known_;
};

// Cuts until all engines can be made but those with nodes that are assumed to be fit. Nothing after telling
// `diagnostics` of a converter that is wrong; null: such engines count as made.
std::optional<EngineCut> cutWith(EngineTrials& trials, const Prepared& prepared, PartitionOptions options,
                                 Refused refused, Diagnostics* diagnostics) {
  options.refused = &refused;
  // Each round takes at least one node out, so it ends.
  while (true) {
    Partition cut = partition(prepared, options);
    bool again = false;
    for (const Segment& s : cut.segments) {
      if (s.target != Target::Accelerated) continue;
      const EngineTrial& trial = trials.of(s, cut);
      if (!trial.refusal || (trial.refusal->isMistake && !diagnostics)) continue;
      const SourceRange place = trial.source ? trial.source->range : SourceRange{};
      if (trial.refusal->isMistake) {
        diagnostics->error(place, trial.refusal->verdict.detail, ErrorKind::Unsupported)
            .note("docs/writing_converters.md tells what converters have to do");
        return std::nullopt;
      }
      if (trial.refusal->isFailure && diagnostics)
        diagnostics->warning(place, "the interpreter runs what an engine was to run: " + trial.refusal->verdict.detail)
            .note("docs/writing_converters.md tells what converters have to do");
      if (options.assumed &&
          std::ranges::any_of(trial.withoutThese, [&](const Node* n) { return options.assumed->contains(n); }))
        continue;
      for (const Node* n : trial.withoutThese) again |= refused.try_emplace(n, trial.refusal->verdict).second;
    }
    if (!again) return EngineCut{std::move(cut), std::move(refused)};
  }
}

// What nodes whose engine is too small are told to ask for, tried: the largest minimum that is no more than what was
// supposed and brings them in, and the engine that the strategy minimal makes of them.
void fitRemedies(EngineTrials& trials, const Prepared& prepared, PartitionOptions options, Partition& cut) {
  constexpr size_t kMostCuts = 8;
  std::map<int64_t, Partition> byMinimum;
  std::optional<Partition> minimal;
  const auto with = [&](auto change) {
    PartitionOptions other = options;
    change(other);
    return cutWith(trials, prepared, std::move(other), {}, nullptr)->partition;
  };
  const auto isInside = [&](const Node* n, int64_t least) {
    auto it = byMinimum.find(least);
    if (it == byMinimum.end() && byMinimum.size() == kMostCuts) return false;
    if (it == byMinimum.end())
      it = byMinimum
               .emplace(least, with([&](PartitionOptions& o) {
                          o.minBlockSize = static_cast<size_t>(least), o.countsGains = false;
                        }))
               .first;
    return it->second.decisions[n].accelerated();
  };
  forEachNode(*prepared.graph, [&](const Node* n) {
    Decision& d = cut.decisions[n];
    if (d.reason != Reason::SmallBlock || d.remedy.kind != Remedy::Kind::LowerMinimum) return;
    int64_t& least = d.remedy.numbers[0];
    while (least > 1 && !isInside(n, least)) --least;
    int64_t& nodes = d.remedy.numbers[1];
    if (nodes == 0) return;
    if (!minimal) minimal = with([](PartitionOptions& o) { o.strategy = Strategy::Minimal; });
    const Decision& then = minimal->decisions[n];
    nodes = then.accelerated() ? static_cast<int64_t>(minimal->count(minimal->segments[then.segment])) : 0;
  });
}

}  // namespace

std::optional<EngineCut> cutIntoEngines(const Prepared& prepared, PartitionOptions options, const EngineOptions& engine,
                                        bool withData, Diagnostics& diagnostics) {
  EngineTrials trials(prepared, engine, withData);
  std::optional<EngineCut> cut = cutWith(trials, prepared, options, {}, &diagnostics);
  if (cut) fitRemedies(trials, prepared, std::move(options), cut->partition);
  return cut;
}

Repartition recuts(const Prepared& prepared, const EngineOptions& engine, bool withData) {
  auto trials = std::make_shared<EngineTrials>(prepared, engine, withData);
  return [&prepared, trials](const PartitionOptions& options) {
    PartitionOptions plain = options;
    plain.assumed = nullptr, plain.bound = nullptr;
    EngineCut cut = *cutWith(*trials, prepared, std::move(plain), {}, nullptr);
    if (!options.assumed && !options.bound) return std::move(cut.partition);
    // With inputs that are taken to be constants no engine can be tried.
    if (!options.bound) return cutWith(*trials, prepared, options, std::move(cut.refused), nullptr)->partition;
    PartitionOptions guess = options;
    guess.refused = &cut.refused;
    return partition(prepared, guess);
  };
}

SegmentCompiler recuttingCompiler(EngineOptions options, const Graph& whole, const OpRegistry& registry) {
  const Node* asker = strideAskerOf(whole, registry);
  options.keepStrides = asker || writesByOrder(whole, registry);
  if (asker) options.strideAsker = placeName(asker);
  return recutting(std::move(options), 0);
}

}  // namespace tscompile
