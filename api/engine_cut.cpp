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

}  // namespace

std::optional<EngineCut> cutIntoEngines(const Prepared& prepared, PartitionOptions options, const EngineOptions& engine,
                                        bool withData, Diagnostics& diagnostics) {
  std::unordered_map<const Node*, Verdict> refused;
  options.refused = &refused;
  // Each round takes at least one node out, so it ends.
  while (true) {
    Partition cut = partition(prepared, options);
    bool again = false;
    for (const Segment& s : cut.segments) {
      if (s.target != Target::Accelerated) continue;
      std::unique_ptr<Graph> graph = segmentGraph(s, cut);
      std::optional<Refusal> refusal = tryEngine(*graph, s, prepared, engine);
      if (!refusal || (!withData && refusal->verdict.reason == Reason::ConstArg)) continue;
      const Node* source = sourceOf(s, cut.given, refusal->node);
      if (refusal->isMistake) {
        diagnostics.error(source ? source->range : SourceRange{}, refusal->verdict.detail, ErrorKind::Unsupported)
            .note("docs/writing_converters.md tells what converters have to do");
        return std::nullopt;
      }
      if (refusal->isFailure)
        diagnostics
            .warning(source ? source->range : SourceRange{},
                     "the interpreter runs what an engine was to run: " + refusal->verdict.detail)
            .note("docs/writing_converters.md tells what converters have to do");
      again = true;
      const std::unordered_set<const Node*> sources = sourcesOf(s, cut.given, refusal->node);
      const bool all = sources.empty() || (source && asksForStrides(source, *prepared.registry));
      for (const Node* n : s.nodes)
        if (all || sources.contains(n)) refused.try_emplace(n, refusal->verdict);
    }
    if (!again) return EngineCut{std::move(cut), std::move(refused)};
  }
}

SegmentCompiler recuttingCompiler(EngineOptions options, const Graph& whole, const OpRegistry& registry) {
  const Node* asker = strideAskerOf(whole, registry);
  options.keepStrides = asker || writesByOrder(whole, registry);
  if (asker) options.strideAsker = placeName(asker);
  return recutting(std::move(options), 0);
}

}  // namespace tscompile
