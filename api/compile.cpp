#include "api/compile.h"

#include "api/module_state.h"
#include "frontend/section_file.h"
#include "ir/verifier.h"
#include "partition/report.h"
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

std::string fileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

// What the spec says that is not by default, as words of a command line.
std::vector<std::string> optionWords(const CompileSpec& spec) {
  const PartitionSpec& p = spec.partition;
  std::vector<std::string> out;
  auto add = [&](std::string_view option, const std::string& value) {
    out.emplace_back(option);
    out.push_back(value);
  };
  if (p.lowering.method != "forward") add("--method", p.lowering.method);
  if (p.options.minBlockSize != PartitionOptions().minBlockSize)
    add("--min-block-size", std::to_string(p.options.minBlockSize));
  if (p.options.strategy != PartitionOptions().strategy)
    add("--strategy", std::string(strategyName(p.options.strategy)));
  for (const std::string& name : p.operators) add("--torch-executed-op", name);
  for (const std::string& name : p.modules) add("--torch-executed-module", name);
  for (const std::string& name : p.nodes) add("--torch-executed-node", name);
  for (const InputRange& range : p.shapes) add("--shape", inputRangeText(range));
  for (const InputRange& range : p.usualShapes) add("--opt-shape", inputRangeText(range));
  if (!p.lower) out.emplace_back("--no-lower");
  if (spec.engine.precision != Precision::F32) add("--precision", std::string(precisionName(spec.engine.precision)));
  if (spec.requiredCoverage > 0) out.push_back(fmt::format("--require-full={:g}", spec.requiredCoverage * 100));
  return out;
}

std::shared_ptr<const EngineInfo> describe(const ModuleState& source, const CompileSpec& spec) {
  auto info = std::make_shared<EngineInfo>();
  info->version = libraryVersion();
  const ModuleState& origin = source.origin ? *source.origin : source;
  if (origin.source) {
    info->source = fileName(origin.source->path());
    info->sourceHash = fmt::format("{:016x}", checksumOf(origin.source->text()));
  }
  for (const std::string& path : origin.weightFiles) info->weights.push_back(fileName(path));
  info->options = optionWords(spec);
  info->inputs = spec.partition.shapes;
  info->precision = spec.engine.precision;
  return info;
}

// Cuts, and cuts again without the nodes whose engines cannot be made. Each round takes at least one node out, so it
// ends. `refused` must outlive the partition.
Partition cutIntoEngines(const Prepared& prepared, const CompileSpec& spec,
                         std::unordered_map<const Node*, Verdict>& refused) {
  PartitionOptions options = spec.partition.options;
  options.refused = &refused;
  for (;;) {
    Partition cut = partition(prepared, options);
    bool again = false;
    for (const Segment& s : cut.segments) {
      if (s.target != Target::Accelerated) continue;
      std::unique_ptr<Graph> graph = segmentGraph(s, cut);
      std::optional<Refusal> refusal = tryEngine(*graph, *prepared.registry, {}, spec.engine);
      if (!refusal) continue;
      const Node* source = sourceOf(s, refusal->node);
      again = true;
      for (const Node* n : s.nodes)
        if (!source || n == source) refused.try_emplace(n, refusal->verdict);
    }
    if (!again) return cut;
  }
}

}  // namespace

Result<Module> Module::compiled(const CompileSpec& given, Diagnostics& diagnostics) const {
  CompileSpec spec = given;
  spec.partition.options.markedOperators = spec.partition.operators;
  const Module* source = this;
  Result<Module> withData = Failed{};
  if (!spec.partition.lower) {
    // The graph as it is, but with the data of its constants.
    LowerOptions nothing = spec.partition.lowering;
    nothing.query = Query();
    withData = lowered(nothing, diagnostics);
    if (!withData) return Failed{};
    source = &*withData;
    spec.partition.lowering.method = "forward";
  }
  Result<Prepared> prepared = prepareForPartition(*source, spec.partition, diagnostics);
  if (!prepared) return Failed{};
  for (const Unmatched& u : prepared->unmatched) {
    Diagnostic& d = diagnostics.error(u.message, ErrorKind::Input);
    if (!u.note.empty()) d.note(u.note);
  }
  if (!prepared->unmatched.empty()) return Failed{};

  std::unordered_map<const Node*, Verdict> refused;
  Partition cut = cutIntoEngines(*prepared, spec, refused);
  if (spec.onPartition) spec.onPartition(*prepared, cut);
  if (coverage(cut) < spec.requiredCoverage) {
    reportNotCovered(*prepared, cut, spec.requiredCoverage, diagnostics);
    return Failed{};
  }
  Module m = prepared->module->withGraph(stitch(*prepared->graph, cut));
  m.state_->engine = spec.engine;
  m.state_->info = describe(*state_, given);
  return m;
}

Result<Module> Module::convertToEngine(const CompileSpec& given, Diagnostics& diagnostics) const {
  CompileSpec spec = given;
  spec.requiredCoverage = 1;
  spec.partition.options.minBlockSize = 1;
  size_t engines = 0;
  spec.onPartition = [&](const Prepared& prepared, const Partition& cut) {
    engines = cut.count(Target::Accelerated);
    if (given.onPartition) given.onPartition(prepared, cut);
  };
  Result<Module> m = compiled(spec, diagnostics);
  if (!m || engines == 1) return m;
  diagnostics.error(fmt::format("the method becomes {} engines, not one", engines), ErrorKind::Unsupported);
  return Failed{};
}

}  // namespace tscompile
