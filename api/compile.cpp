#include "api/compile.h"

#include "api/module_state.h"
#include "ir/verifier.h"
#include "partition/segment_graph.h"
#include "partition/stitch.h"
#include "runtime/engine/engine.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

// A value as the type describes it, if that says enough to plan for: tensors with symbolic elements.
std::optional<IValue> sampleOf(TypePtr type) {
  if (!type->isTensor()) return std::nullopt;
  const TensorFacts& f = type->tensor();
  if (f.dtype == DType::Undefined || !f.hasRank || !allKnown(f.sizes)) return std::nullopt;
  std::optional<int64_t> count = checkedNumel(f.sizes);
  if (!count) return std::nullopt;
  Ref<Storage> storage = Storage::symbolic(static_cast<size_t>(*count) * itemSize(f.dtype));
  return IValue(Tensor::view(f.dtype, std::move(storage), f.sizes, contiguousStrides(f.sizes), 0));
}

// Makes the engine of a segment, and plans it where the types say for what. Why it cannot be, if it cannot.
std::optional<Refusal> tryEngine(const Graph& graph, const OpRegistry& registry, const ProgramSources& sources,
                                 const EngineOptions& options) {
  std::optional<Refusal> refusal;
  EngineOptions plain = options;
  plain.optimize = false;  // whether it can be done does not depend on how fast
  std::shared_ptr<Engine> engine = Engine::make(graph, registry, sources, plain, refusal);
  if (!engine) return refusal;
  std::vector<IValue> samples;
  for (const Value* v : graph.inputs()) {
    std::optional<IValue> sample = sampleOf(v->type());
    if (!sample) return std::nullopt;
    samples.push_back(std::move(*sample));
  }
  RunOptions run;
  RunContext context(run);
  RunScope scope(context);
  engine->planFor(samples, context, &refusal);
  return refusal;
}

// The node of a segment that a node of its graph stands for: that which makes a value of the same name.
const Node* sourceOf(const Segment& segment, const Node* copy) {
  if (!copy || copy->outputCount() == 0) return nullptr;
  std::string name = copy->output(0)->name();
  for (const Node* n : segment.nodes)
    if (n->outputCount() && n->output(0)->name() == name) return n;
  return nullptr;
}

}  // namespace

Result<Module> Module::compiled(const CompileSpec& spec, Diagnostics& diagnostics) const {
  Result<Prepared> prepared = prepareForPartition(*this, spec.partition, diagnostics);
  if (!prepared) return Failed{};
  for (const Unmatched& u : prepared->unmatched) {
    Diagnostic& d = diagnostics.error(u.message, ErrorKind::Input);
    if (!u.note.empty()) d.note(u.note);
  }
  if (!prepared->unmatched.empty()) return Failed{};

  // Segments whose engines cannot be made go back without the nodes that are in the way. Each round takes at least one
  // node out, so it ends.
  std::unordered_map<const Node*, Verdict> refused;
  PartitionOptions options = spec.partition.options;
  options.refused = &refused;
  std::optional<Partition> cut;
  for (bool again = true; again;) {
    cut = partition(*prepared, options);
    again = false;
    for (const Segment& s : cut->segments) {
      if (s.target != Target::Accelerated) continue;
      std::unique_ptr<Graph> graph = segmentGraph(s, *cut);
      std::optional<Refusal> refusal = tryEngine(*graph, *prepared->registry, {}, spec.engine);
      if (!refusal) continue;
      const Node* source = sourceOf(s, refusal->node);
      again = true;
      for (const Node* n : s.nodes)
        if (!source || n == source) refused.try_emplace(n, refusal->verdict);
    }
  }
  if (spec.onPartition) spec.onPartition(*prepared, *cut);

  std::unique_ptr<Graph> graph = stitch(*prepared->graph, *cut);
  auto state = std::make_shared<ModuleState>();
  const ModuleState& source = *prepared->module->state_;
  state->registry = prepared->registry;
  state->origin = source.origin ? source.origin : prepared->module->state_;
  state->takesSelf = !source.origin || source.takesSelf;
  state->engine = spec.engine;
  state->text.graphs.push_back(std::move(graph));
  Module m;
  m.state_ = std::move(state);
  return m;
}

}  // namespace tscompile
