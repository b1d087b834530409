#include "api/compile.h"

#include "api/compile_settings.h"
#include "api/engine_cut.h"
#include "api/extensions.h"
#include "api/module_state.h"
#include "api/named_inputs.h"
#include "api/other_inputs.h"
#include "api/plugin_sizes.h"
#include "api/support/graph_parts.h"
#include "api/support/training.h"
#include "api/symbolic_ranges.h"
#include "frontend/files/section_file.h"
#include "frontend/files/shared_parts.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "partition/report.h"
#include "partition/stitch.h"
#include "partition/store_weights.h"
#include "passes/lowering/assumed_weights.h"
#include "passes/lowering/bound_inputs.h"
#include "passes/lowering/whole_weights.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/support.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <unordered_set>

namespace tscompile {
namespace {

constexpr size_t kMostOfBound = 200;  // characters

std::shared_ptr<EngineInfo> describe(const ModuleState& source, const Graph* entry, const CompileSpec& spec) {
  auto info = std::make_shared<EngineInfo>();
  info->version = libraryVersion();
  const ModuleState& origin = source.origin ? *source.origin : source;
  info->source = sourceName(origin);
  if (origin.source) info->sourceHash = fmt::format("{:016x}", checksumOf(origin.source->text()));
  for (const std::string& path : origin.weightFiles) info->weights.push_back(fileNameOf(path));
  info->options = settingTexts(spec);
  if (source.extensions)
    for (const std::string& file : source.extensions->ruleFiles()) info->options.push_back("rules=" + file);
  info->inputs = spec.shapes;
  if (entry) {
    info->exported = exportedInputsOf(source, *entry);
    for (const ValueInfo& input : inputsOf(*entry))
      if (auto value = spec.lowering.arguments.find(boundInput(input.name)); value != spec.lowering.arguments.end())
        info->bound.push_back(input.name + "=" +
                              abbreviate(valueText(value->second, LiteralStyle::Plain), kMostOfBound));
  }
  info->precision = spec.engine.precision;
  info->roundsRows = spec.engine.roundsRows;
  if (const TacticCache* tactics = spec.engine.tactics.get(); tactics && tactics->workspaceLimit != SIZE_MAX)
    info->workspaceLimit = tactics->workspaceLimit;
  info->threads = spec.engine.threads;
  return info;
}

void takeMetadata(const Metadata& metadata, RefitSource& out) {
  for (const auto& [key, value] : metadata) {
    for (std::string_view kind : {std::string_view("attribute:"), kDefaultOf, kConstantOf})
      if (startsWith(key, kind)) out.attributes.emplace(key, value);
  }
}

// Paths of all tensors below an object.
class TensorPaths {
 public:
  explicit TensorPaths(std::vector<std::string>& out) : out_(out) {}

  void visit(const ObjectValue& object, const std::string& path) {
    if (!seen_.insert(&object).second) return;
    for (const auto& [name, value] : object.attributes) {
      const std::string at = path + std::string(name.text());
      if (value.isObject()) visit(value.toObject(), at + ".");
      if (value.isTensor()) out_.push_back(at);
    }
    seen_.erase(&object);
  }

 private:
  std::vector<std::string>& out_;
  std::unordered_set<const ObjectValue*> seen_;  // on the way to where we are
};

// Whether the module was read from graph text, or from what is read as such.
bool hasText(const ModuleState& source) { return (source.origin ? *source.origin : source).source != nullptr; }

// What a file keeps of the model that was compiled.
std::shared_ptr<const RefitSource> refitSourceOf(const ModuleState& source, bool isLanguageModel,
                                                 ExportedInputs exported) {
  const ModuleState& origin = source.origin ? *source.origin : source;
  auto out = std::make_shared<RefitSource>();
  out->name = sourceName(origin);
  out->text = origin.source->text();
  out->isLanguageModel = isLanguageModel;
  out->exported = std::move(exported);
  for (const std::string& path : origin.weightFiles) out->files.push_back(fileNameOf(path));
  out->unread = origin.weights.unused();
  for (const std::string& name : origin.weights.names())
    if (!std::binary_search(out->unread.begin(), out->unread.end(), name))
      out->weights.emplace_back(name, *origin.weights.peek(name));
  out->unread.insert(out->unread.end(), origin.unread.begin(), origin.unread.end());
  std::sort(out->unread.begin(), out->unread.end());
  takeMetadata(origin.weights.metadata(), *out);
  return out;
}

// Of the method of an archive, as what `lower` makes of it: graph text, with the weights by their paths. Null if it
// cannot be written.
using LowerArchive = std::function<std::shared_ptr<ModuleState>(const LowerOptions& options, Diagnostics& diagnostics)>;
std::shared_ptr<const RefitSource> refitSourceOfArchive(const LowerArchive& lower) {
  Diagnostics ignored;
  LowerOptions inlining;
  inlining.query = Query().including({"inline_calls"});
  std::shared_ptr<ModuleState> inlined = lower(inlining, ignored);
  if (!inlined) return nullptr;
  const Graph& graph = *inlined->text.graphs[0];
  std::optional<IValue> self = bindSelf(*inlined, graph, Unsupplied::LeftOut, ignored);
  std::optional<GraphParts> parts = separateTensors(graph, self ? &self->toObject() : nullptr, ignored, false);
  auto out = std::make_shared<RefitSource>();
  auto append = [&](std::string_view piece) { out->text += piece; };
  if (!parts || !printParts(*parts, /*locations=*/false, {}, append, ignored)) return nullptr;
  std::vector<std::string> constants;
  for (const auto& [key, value] : parts->metadata) constants.push_back(key);
  writeDefaults(*inlined, parts->metadata);
  takeMetadata(parts->metadata, *out);
  out->name = sourceName(*inlined->origin);
  out->isLanguageModel = true;
  std::vector<std::string> paths;
  if (self) TensorPaths(paths).visit(self->toObject(), "");
  std::sort(paths.begin(), paths.end());
  for (auto& [name, tensor] : parts->tensors) {
    if (!std::binary_search(paths.begin(), paths.end(), name)) constants.push_back(name);
    out->weights.emplace_back(name, contiguous(tensor));
  }
  for (const std::string& name : constants) out->attributes.emplace(std::string(kConstantOf) + name, "");
  std::sort(out->weights.begin(), out->weights.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const std::string& path : paths)
    if (std::ranges::none_of(out->weights, [&](const auto& weight) { return weight.first == path; }))
      out->unread.push_back(path);
  return out;
}

// Settings that no file keeps would be lost when the engine is made again.
bool checkRefittable(const CompileSpec& spec, const ModuleState& source, Diagnostics& diagnostics) {
  if (!spec.refittable || spec.isLanguageModel) return true;
  if (!hasText(source)) {
    Diagnostic& d =
        diagnostics.error("engines of models in archives cannot be refitted: what is kept for that is graph text",
                          ErrorKind::Unsupported);
    const std::string& path = source.origin ? source.origin->archive : source.archive;
    const std::string name = std::filesystem::path(path).stem().string(), text = name + "_text/model";
    d.note("those of its graph text can: tscompile convert " + path + " -o " + name + "_text");
    Remedy again(Remedy::Kind::CompileAgain, {name + ".tse", text + ".ir", text + ".safetensors"}, {1, 0});
    for (std::string& setting : settingTexts(spec)) again.names.push_back(std::move(setting));
    d.note(textOf(again));
    return false;
  }
  if (tellsOfSharing((source.origin ? *source.origin : source).weights.metadata())) {
    diagnostics.error("engines of models whose weights share memory cannot be refitted: each of them would get its own",
                      ErrorKind::Unsupported);
    return false;
  }
  if (spec.engine.tactics && spec.engine.tactics->isOfOneEngine()) {
    diagnostics
        .error("calibrated engines cannot be refitted: the ranges that were found are those of the weights they have",
               ErrorKind::Unsupported)
        .note("compile and calibrate with the new weights, or leave out refittable");
    return false;
  }
  std::vector<std::string> lost;
  for (const auto& [setting, value] : saidSettings(spec))
    if (!setting->set) lost.emplace_back(setting->name);
  if (source.extensions && !source.extensions->ruleNames().empty()) lost.emplace_back("rules");
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

// Gives ranges without a name those of the tensors among the inputs, with those that may be left out if there are so
// many.
bool nameRanges(std::vector<InputRange>& ranges, const Graph& entry, Diagnostics& diagnostics) {
  std::vector<const Value*> tensors, all;
  for (const Value* v : entry.inputs()) {
    if (v->type()->isTensor()) tensors.push_back(v);
    if (sizedType(v->type())) all.push_back(v);
  }
  const auto count =
      static_cast<size_t>(std::ranges::count_if(ranges, [](const InputRange& r) { return r.name.empty(); }));
  if (count == all.size()) tensors = std::move(all);
  size_t next = 0;
  for (InputRange& r : ranges)
    if (r.name.empty() && next < tensors.size()) r.name = tensors[next++]->name();
  if (count == 0 || count == tensors.size()) return true;
  diagnostics.error(fmt::format("the method takes {}, and {} {} described", counted(tensors.size(), "tensor"),
                                counted(count, "input"), count == 1 ? "is" : "are"),
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

bool CompileSpec::addInput(std::string_view text, Diagnostics& diagnostics) {
  Result<InputRange> range = readInputRange(text, diagnostics);
  if (range) addInputRange(shapes, std::move(*range));
  return range.ok();
}

void CompileSpec::bind(const std::string& name, IValue value) {
  lowering.arguments[boundInput(name)] = std::move(value);
}

namespace {

// Gives bound inputs the names that the graph has, and checks their values.
bool nameBound(RewriteArguments& arguments, std::span<const ValueInfo> inputs, Diagnostics& diagnostics) {
  std::vector<std::pair<std::string, IValue>> bound;
  for (const auto& [name, value] : arguments)
    if (name.starts_with(kBoundInput)) bound.emplace_back(name, value);
  bool good = true;
  for (auto& [key, value] : bound) {
    const std::string name = key.substr(kBoundInput.size());
    const size_t at = findInput(inputs, name);
    if (at == kNoInput) {
      const InputFault fault = noSuchInput(inputs, name);
      Diagnostic& d = diagnostics.error(fault.message, ErrorKind::Input);
      for (const std::string& note : fault.notes) d.note(note);
      good = false;
      continue;
    }
    const TypePtr type = withoutRefinement(inputs[at].type);
    if (!isInstance(value, type)) {
      diagnostics.error(fmt::format("input %{} takes {}, not {}", inputs[at].name, typeText(type),
                                    typeText(withoutRefinement(dynamicType(value)))),
                        ErrorKind::Input);
      good = false;
      continue;
    }
    arguments.erase(key);
    arguments[boundInput(inputs[at].name)] = std::move(value);
  }
  return good;
}

}  // namespace

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
  if (!nameBound(out.lowering.arguments, inputsOf(*entry), diagnostics)) return Failed{};
  if (std::optional<InputFault> fault = nameInputRanges(out.shapes, out.usualShapes, inputsOf(*entry))) {
    Diagnostic& d = diagnostics.error(fault->message, ErrorKind::Input);
    for (const std::string& note : fault->notes) d.note(note);
    return Failed{};
  }
  return out;
}

Result<CompiledPartition> partitionForCompile(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics) {
  Result<PartitionSpec> settings = partitionSpecOf(spec, entryOf(module, spec), diagnostics);
  if (!settings) return Failed{};
  if (spec.engine.precision != DType::Float32 && !spec.refittable)
    settings->lowering.arguments.emplace(kWholeWeights, true);
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
  warnOfTraining(*prepared->graph, *prepared->registry, diagnostics);
  std::optional<EngineCut> tried =
      cutIntoEngines(*prepared, partitionOptionsOf(*settings), spec.engine, true, diagnostics);
  if (!tried) return Failed{};
  Partition& cut = tried->partition;
  if (spec.onPartition) spec.onPartition(*prepared, cut);
  if (!checkCoverage(*prepared, cut, spec, diagnostics)) return Failed{};
  return CompiledPartition{std::move(*prepared), std::move(cut)};
}

std::shared_ptr<const OtherInputs> OtherInputs::ofOtherSizes(const Module& source, CompileSpec spec) {
  spec.lowering.forgetSizes = true;
  return std::make_shared<const OtherInputs>(source, std::move(spec));
}

std::shared_ptr<const OtherInputs> OtherInputs::inAnyOrder(const Module& source, CompileSpec spec) {
  spec.lowering.arguments.emplace(kAnyOrder, true);
  return std::make_shared<const OtherInputs>(source, std::move(spec));
}

OtherInputs::OtherInputs(Module source, CompileSpec spec) : source_(std::move(source)), spec_(std::move(spec)) {
  spec_.requiredCoverage = 0;
  spec_.onPartition = nullptr;
  spec_.lowering.settings.applied = nullptr;
}

Result<Method> OtherInputs::method(Diagnostics& diagnostics) const {
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
  if (const auto& rest = prepared.module->state_->exportedRest) info->exported = *rest;
  info->takesHalf = half;
  m.state_->info = info;
  m.state_->archive = state_->origin ? state_->origin->archive : state_->archive;
  m.state_->archiveHash = state_->origin ? state_->origin->archiveHash : state_->archiveHash;
  if (spec.refittable && hasText(*state_))
    m.state_->refit = refitSourceOf(*state_, spec.isLanguageModel, info->exported);
  else if (spec.refittable)
    m.state_->refit = refitSourceOfArchive([&](const LowerOptions& options, Diagnostics& ignored) {
      Module archive;
      archive.state_ = state_->origin ? state_->origin : state_;
      Result<Module> lowered = archive.lowered(options, ignored);
      return lowered ? lowered->state_ : nullptr;
    });
  if (!given.lowering.forgetSizes) m.state_->otherSizes = OtherInputs::ofOtherSizes(*this, given);
  if (m.state_->takesInOrder && !state_->takesInOrder) m.state_->anyOrder = OtherInputs::inAnyOrder(*this, given);
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
  CompileSpec assuming = spec;
  assuming.lowering.arguments.emplace(kAssumedWeights, true);
  return partitionForCompile(module, assuming, diagnostics);
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
  spec.lowering.arguments.emplace(kAssumedWeights, true);
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
