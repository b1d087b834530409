#include "api/compile.h"

#include "api/compile_settings.h"
#include "api/engine_cut.h"
#include "api/module_state.h"
#include "api/other_sizes.h"
#include "api/plugin_sizes.h"
#include "frontend/files/section_file.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "partition/stitch.h"
#include "partition/store_weights.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/support.h"
#include "runtime/registry.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

std::string fileName(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::shared_ptr<EngineInfo> describe(const ModuleState& source, const Graph* entry, const CompileSpec& spec) {
  auto info = std::make_shared<EngineInfo>();
  info->version = libraryVersion();
  const ModuleState& origin = source.origin ? *source.origin : source;
  if (origin.source) {
    info->source = fileName(origin.source->path());
    info->sourceHash = fmt::format("{:016x}", checksumOf(origin.source->text()));
  } else {
    info->source = fileName(origin.archive);
  }
  for (const std::string& path : origin.weightFiles) info->weights.push_back(fileName(path));
  info->options = settingTexts(spec);
  info->inputs = spec.shapes;
  if (entry) {
    std::span<const ExportedInput> exported = inputSizesOf(source, *entry);
    info->exported.assign(exported.begin(), exported.end());
  }
  info->precision = spec.engine.precision;
  info->roundsRows = spec.engine.roundsRows;
  if (const TacticCache* tactics = spec.engine.tactics.get(); tactics && tactics->workspaceLimit != SIZE_MAX)
    info->workspaceLimit = tactics->workspaceLimit;
  info->threads = spec.engine.threads;
  return info;
}

// What a file keeps of the model that was compiled.
std::shared_ptr<const RefitSource> refitSourceOf(const ModuleState& source, bool isLanguageModel,
                                                 std::vector<ExportedInput> exported) {
  const ModuleState& origin = source.origin ? *source.origin : source;
  auto out = std::make_shared<RefitSource>();
  out->name = fileName(origin.source->path());
  out->text = origin.source->text();
  out->isLanguageModel = isLanguageModel;
  out->exported = std::move(exported);
  for (const std::string& path : origin.weightFiles) out->files.push_back(fileName(path));
  out->unread = origin.weights.unused();
  for (const std::string& name : origin.weights.names())
    if (!std::binary_search(out->unread.begin(), out->unread.end(), name))
      out->weights.emplace_back(name, *origin.weights.peek(name));
  out->unread.insert(out->unread.end(), origin.unread.begin(), origin.unread.end());
  std::sort(out->unread.begin(), out->unread.end());
  for (const auto& [key, value] : origin.weights.metadata())
    if (startsWith(key, "attribute:")) out->attributes.emplace(key, value);
  return out;
}

bool hasText(const ModuleState& source) { return (source.origin ? *source.origin : source).source != nullptr; }

// Settings that no file keeps would be lost when the engine is made again.
bool checkRefittable(const CompileSpec& spec, const ModuleState& source, Diagnostics& diagnostics) {
  if (!spec.refittable || spec.isLanguageModel) return true;
  if (!hasText(source)) {
    diagnostics.error("engines of models in archives cannot be refitted: what is kept for that is graph text",
                      ErrorKind::Unsupported);
    return false;
  }
  std::vector<std::string> lost;
  for (const auto& [setting, value] : saidSettings(spec))
    if (!setting->set) lost.emplace_back(setting->name);
  if (lost.empty() && !source.origin) return true;
  Diagnostic& d = diagnostics.error("engines that are lowered or cut in a way of your own cannot be refitted",
                                    ErrorKind::Unsupported);
  if (source.origin) d.note("the graph is not the one of the text: compile the module as it was loaded");
  if (!lost.empty())
    d.note("leave out " + join(lost, ", ", [](const std::string& name) { return name; }) + ", or refittable");
  return false;
}

bool checkPrecision(DType precision, Diagnostics& diagnostics) {
  if (!precisionName(precision).empty()) return true;
  diagnostics.error(fmt::format("{} is no precision of engines", pythonName(precision)), ErrorKind::Unsupported)
      .note(
          "there are float32, float16, bfloat16 and int8; what a graph computes in another dtype by itself, they "
          "compute in that dtype");
  return false;
}

bool isHalf(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

// Whether inputs of half precision may be given to a model that computes in f32: that was asked for, and its weights
// are not of half precision themselves.
bool takesHalf(const ModuleState& state, const CompileSpec& spec) {
  if (spec.engine.precision == DType::Float32) return false;
  const ModuleState& origin = state.origin ? *state.origin : state;
  bool isFloat = false;
  for (const std::string& name : origin.weights.names()) {
    DType dtype = origin.weights.peek(name)->dtype();
    if (isHalf(dtype)) return false;
    isFloat |= dtype == DType::Float32;
  }
  return isFloat;
}

// What the graph sees of such inputs.
CompileSpec widened(CompileSpec spec) {
  auto widen = [](auto& inputs) {
    for (auto& in : inputs)
      if (isHalf(in.dtype)) in.dtype = DType::Float32;
  };
  widen(spec.shapes);
  widen(spec.usualShapes);
  return spec;
}

// The graph of a method. Its graph as it is given has the names of the inputs.
const Graph* entryOf(const Module& module, const CompileSpec& spec) { return module.graph(spec.lowering.method); }

bool checkCoverage(const Prepared& prepared, const Partition& cut, const CompileSpec& spec, Diagnostics& diagnostics) {
  if (coverage(cut) >= spec.requiredCoverage) return true;
  reportNotCovered(prepared, cut, spec.requiredCoverage, diagnostics);
  return false;
}

bool isOrdered(const InputRange& range, const InputRange& usual) {
  bool ordered = range.least.size() == range.most.size() && usual.most.size() == range.most.size();
  for (size_t d = 0; ordered && d < range.most.size(); ++d)
    ordered = 0 <= range.least[d] && range.least[d] <= usual.most[d] && usual.most[d] <= range.most[d];
  return ordered;
}

// Gives ranges without a name those of the tensors among the inputs.
bool nameRanges(std::vector<InputRange>& ranges, const Graph& entry, Diagnostics& diagnostics) {
  std::vector<const Value*> tensors;
  for (const Value* v : entry.inputs())
    if (v->type()->isTensor()) tensors.push_back(v);
  size_t count = 0;
  for (InputRange& r : ranges) {
    if (!r.name.empty()) continue;
    if (count < tensors.size()) r.name = tensors[count]->name();
    ++count;
  }
  if (count == 0 || count == tensors.size()) return true;
  diagnostics.error(fmt::format("the method takes {} tensors, and {} inputs are described", tensors.size(), count),
                    ErrorKind::Input);
  return false;
}

}  // namespace

void CompileSpec::setInputs(const std::vector<CompileInput>& inputs) {
  for (std::vector<InputRange>* ranges : {&shapes, &usualShapes})
    std::erase_if(*ranges, [](const InputRange& r) { return r.name.empty(); });
  for (const CompileInput& in : inputs) {
    shapes.push_back({"", in.dtype, in.least, in.most});
    usualShapes.push_back({"", in.dtype, in.usual, in.usual});
  }
}

Result<PartitionSpec> partitionSpecOf(const CompileSpec& spec, const Graph* entry, Diagnostics& diagnostics) {
  if (!checkPrecision(spec.engine.precision, diagnostics)) return Failed{};
  PartitionSpec out = spec;
  if (!entry) {
    for (std::vector<InputRange>* ranges : {&out.shapes, &out.usualShapes})
      std::erase_if(*ranges, [](const InputRange& r) { return r.name.empty(); });
    return out;
  }
  if (!nameRanges(out.shapes, *entry, diagnostics) || !nameRanges(out.usualShapes, *entry, diagnostics))
    return Failed{};
  // Both are there of inputs that are described in order.
  for (size_t i = 0, usual = 0; i < spec.shapes.size(); ++i) {
    if (!spec.shapes[i].name.empty()) continue;
    while (usual < spec.usualShapes.size() && !spec.usualShapes[usual].name.empty()) ++usual;
    if (usual == spec.usualShapes.size()) break;
    if (isOrdered(spec.shapes[i], spec.usualShapes[usual++])) continue;
    diagnostics.error(fmt::format("the sizes of input %{} do not go from least over usual to most", out.shapes[i].name),
                      ErrorKind::Input);
    return Failed{};
  }
  return out;
}

Result<CompiledPartition> partitionForCompile(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics) {
  Result<PartitionSpec> settings = partitionSpecOf(spec, entryOf(module, spec), diagnostics);
  if (!settings) return Failed{};
  const Module* source = &module;
  Result<Module> withData = Failed{};
  if (!settings->lower) {
    // The graph as it is, but with the data of its constants.
    LowerOptions nothing = settings->lowering;
    nothing.query = Query();
    withData = module.lowered(nothing, diagnostics);
    if (!withData) return Failed{};
    source = &*withData;
    settings->lowering.method = "forward";
  }
  Result<Prepared> prepared = prepareForPartition(*source, *settings, diagnostics);
  if (!prepared || !reportUnmatched(*prepared, diagnostics)) return Failed{};
  std::optional<EngineCut> tried =
      cutIntoEngines(*prepared, partitionOptionsOf(*settings), spec.engine, true, diagnostics);
  if (!tried) return Failed{};
  Partition& cut = tried->partition;
  if (spec.onPartition) spec.onPartition(*prepared, cut);
  if (!checkCoverage(*prepared, cut, spec, diagnostics)) return Failed{};
  return CompiledPartition{std::move(*prepared), std::move(cut)};
}

Result<Method> OtherSizes::method(Diagnostics& diagnostics) const {
  std::lock_guard lock(mutex_);
  if (!made_) {
    Diagnostics reasons;
    Result<Module> compiled = source_.compiled(spec_, reasons);
    Result<Method> method = compiled ? compiled->prepare(reasons) : Result<Method>(Failed{});
    // What cannot be compiled is interpreted.
    if (!method) method = source_.prepare(diagnostics, spec_.lowering.method);
    if (!method) return Failed{};
    made_ = *method;
  }
  return *made_;
}

Result<Module> Module::compiled(const CompileSpec& given, Diagnostics& diagnostics) const {
  if (!checkRefittable(given, *state_, diagnostics)) return Failed{};
  const bool half = takesHalf(*state_, given);
  Result<CompiledPartition> made = partitionForCompile(*this, half ? widened(given) : given, diagnostics);
  if (!made) return Failed{};
  const Prepared& prepared = made->prepared;
  CompileSpec spec = given;
  const PartitionSpec named = *partitionSpecOf(given, entryOf(*this, given), diagnostics);
  spec.shapes = named.shapes, spec.usualShapes = named.usualShapes;
  if (!configurePlugins(prepared, (half ? widened(spec) : spec).shapes, diagnostics)) return Failed{};
  std::unique_ptr<Graph> stitched = stitch(*prepared.graph, made->partition);
  // Files that can be refitted have all weights as they were: the same bytes serve both.
  if (!spec.refittable) storeWeights(*stitched, spec.engine.precision, *prepared.registry);
  Module m = prepared.module->withGraph(std::move(stitched));
  if (prepared.extensions) {
    m.state_->registry = prepared.registry;
    m.state_->extensions = prepared.extensions;
  }
  m.state_->engine = spec.engine;
  auto info = describe(*state_, entryOf(*this, given), spec);
  info->takesHalf = half;
  m.state_->info = info;
  m.state_->archive = state_->origin ? state_->origin->archive : state_->archive;
  m.state_->refit =
      spec.refittable && hasText(*state_) ? refitSourceOf(*state_, spec.isLanguageModel, info->exported) : nullptr;
  if (!given.lowering.forgetSizes) m.state_->otherSizes = std::make_shared<OtherSizes>(*this, given);
  return m;
}

Result<Module> Module::convertToEngine(const CompileSpec& given, Diagnostics& diagnostics) const {
  CompileSpec spec = given;
  spec.requiredCoverage = 1;
  spec.minBlockSize = 1;
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

Result<Module> compile(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics) {
  return module.compiled(spec, diagnostics);
}

Result<CompiledPartition> partition(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics) {
  return partitionForCompile(module, spec, diagnostics);
}

Result<CompiledPartition> partition(const Graph& graph, const CompileSpec& spec, Diagnostics& diagnostics) {
  Result<PartitionSpec> settings = partitionSpecOf(spec, &graph, diagnostics);
  if (!settings) return Failed{};
  Result<Prepared> prepared = prepareForPartition(graph, allOps(), *settings, diagnostics);
  if (!prepared || !reportUnmatched(*prepared, diagnostics)) return Failed{};
  Partition cut = partition(*prepared, partitionOptionsOf(*settings));
  if (!checkCoverage(*prepared, cut, spec, diagnostics)) return Failed{};
  return CompiledPartition{std::move(*prepared), std::move(cut)};
}

Result<std::vector<UnsupportedNode>> checkMethodOperatorSupport(const Module& module, const std::string& method,
                                                                Diagnostics& diagnostics) {
  PartitionSpec spec;
  spec.lowering.method = method;
  Result<Prepared> prepared = prepareForPartition(module, spec, diagnostics);
  if (!prepared) return Failed{};
  GivenNodes given(*prepared->graph);
  std::unique_ptr<EngineSupport> support = engineSupport(*prepared->registry);
  std::vector<UnsupportedNode> out;
  forEachNode(*prepared->graph, [&](const Node* n) {
    if (given.contains(n)) return;
    Verdict verdict = support->accepts(*n);
    if (verdict.ok()) return;
    const Operator* op = prepared->registry->resolve(*n);
    out.push_back({op ? op->fullName() : std::string(n->kind().text()), op ? schemaText(op->schema()) : "",
                   nodeText(*n), n->range, std::move(verdict)});
  });
  return out;
}

}  // namespace tscompile
