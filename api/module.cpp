#include "api/module.h"

#include "api/call_inputs.h"
#include "api/compile_settings.h"
#include "api/engine_cut.h"
#include "api/exported_sizes.h"
#include "api/extensions.h"
#include "api/failed_run.h"
#include "api/input_advice.h"
#include "api/lower.h"
#include "api/model_file.h"
#include "api/module_state.h"
#include "api/other_inputs.h"
#include "api/support/archive.h"
#include "api/support/autocast.h"
#include "api/support/loaded_weights.h"
#include "api/support/saved_plugins.h"
#include "frontend/files/attribute_tensors.h"
#include "frontend/files/file_io.h"
#include "frontend/files/file_kind.h"
#include "frontend/files/section_file.h"
#include "frontend/files/shared_parts.h"
#include "frontend/source/sparse_products.h"
#include "frontend/text/parse.h"
#include "ir/analysis/constant_numbers.h"
#include "ir/analysis/implicit_expands.h"
#include "ir/graph/printer.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "ir/values/error.h"
#include "ir/values/size_symbols.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/refusal_watch.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/registry.h"

#include <fmt/core.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_set>

namespace tscompile {
Result<Module> Module::load(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics) {
  switch (modelFileOf(path)) {
    case ModelFile::Engine:
      return loadEngine(path, options, diagnostics);
    case ModelFile::Export:
      return loadExport(path, options, diagnostics);
    case ModelFile::Archive:
      return loadArchive(path, options, diagnostics);
    case ModelFile::Text:
      break;
  }
  if (refuseFolder(path, diagnostics)) return Failed{};
  Result<std::string> text = readFile(path, options.limits.textBytes, diagnostics);
  if (!text || !checkGraphText(path, *text, diagnostics)) return Failed{};
  return fromText(std::move(*text), path, options, diagnostics);
}

Result<Module> Module::fromText(std::string text, const std::string& name, const LoadOptions& options,
                                Diagnostics& diagnostics) {
  return fromSource(SourceFile::make(name, std::move(text)), options, diagnostics);
}

Result<Module> Module::fromSource(SourcePtr source, const LoadOptions& options, Diagnostics& diagnostics) {
  return parsed(std::move(source), std::make_shared<ModuleState>(), options, diagnostics);
}

Result<Module> Module::fromRefitSource(const RefitSource& source, const LoadOptions& options,
                                       Diagnostics& diagnostics) {
  auto state = std::make_shared<ModuleState>();
  for (const auto& [name, tensor] : source.weights) state->weights.add(name, tensor);
  state->weights.addMetadata(source.attributes);
  state->weightFiles = source.files;
  state->unread = source.unread;
  if (!source.exported.empty()) state->exported = {source.exported};
  return parsed(SourceFile::make(source.name, source.text), std::move(state), options, diagnostics);
}

const OpRegistry& registryOf(const LoadOptions& options) {
  return options.extensions ? options.extensions->registry() : options.registry ? *options.registry : allOps();
}

namespace {

// The same memory, which runs copy before they write there. Tensors that share memory share what `known` has of it.
Tensor unwritten(const Tensor& t, std::map<const Storage*, Ref<Storage>>& known) {
  if (!t.defined() || t.storage()->readOnly()) return t;
  Ref<Storage>& memory = known[t.storage().get()];
  if (!memory) {
    auto release = [](void* owner) { Ref<Storage>::adopt(static_cast<Storage*>(owner)); };
    const Ref<Storage>& given = t.storage();
    memory = Storage::borrow(given->data(), given->bytes(), release, Ref<Storage>(given).detach(), /*readOnly=*/true);
    if (given->quantization()) memory->setQuantization(*given->quantization());
  }
  return Tensor::view(t.dtype(), memory, t.sizes(), t.strides(), t.offset());
}

// Weights that are in memory.
bool addGiven(Weights& weights, const LoadOptions& options, Diagnostics& diagnostics) {
  bool good = true;
  std::map<const Storage*, Ref<Storage>> known;
  for (const auto& [name, tensor] : options.tensors)
    if (!weights.add(name, unwritten(tensor, known))) {
      diagnostics.error("weight '" + abbreviate(name, 80) + "' is given twice", ErrorKind::Input);
      good = false;
    }
  return good;
}

// The weights of the options, for a model that has its own.
bool loadInto(ModuleState& state, const std::string& path, const std::vector<std::string>& stored,
              const LoadOptions& options, Diagnostics& diagnostics) {
  if (!options.hasWeights()) return true;
  Weights given;
  bool good = true;
  for (const std::string& file : options.weights)
    good &= addWeightsFile(given, file, registryOf(options), options.limits, diagnostics, /*constants=*/false);
  good = good && addGiven(given, options, diagnostics) &&
         loadWeights({state.objects, state.weights, state.graphNames}, given, path, stored, diagnostics);
  state.weightFiles = options.weights;
  state.unknownWeights = given.unused();
  return good;
}

// Of the bytes of a file; empty: it cannot be read.
std::string hashOf(const std::string& path) {
  Diagnostics ignored;
  Ref<FileMapping> file = FileMapping::open(path, ignored);
  return file ? fmt::format("{:016x}", checksumOf(file->bytes())) : "";
}

}  // namespace

Result<Module> Module::loadArchive(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics) {
  auto state = std::make_shared<ModuleState>();
  state->extensions = options.extensions;
  state->registry = &registryOf(options);
  Result<OpenedArchive> archive = openArchive(path, *state->registry, options.limits, diagnostics);
  if (!archive) return Failed{};
  state->archive = path;
  state->name = options.name;
  if (!options.name.empty()) state->archiveHash = hashOf(path);
  state->text = std::move(archive->text);
  takeConstantsAsNumbers(state->text, *state->registry,
                         [&](const std::string& key) { return state->weights.peek(key); });
  spellOutSparseProducts(state->text);
  dropImplicitExpands(state->text);
  state->objects = std::move(archive->objects);
  state->defaults = std::move(archive->defaults);
  Metadata members;
  for (const IValue& member : archive->members) writeEnumMembers(member, members);
  state->weights.addMetadata(std::move(members));
  const std::vector<std::string> stored = parameterNames(*state->text.module, state->objects);
  if (!loadInto(*state, path, stored, options, diagnostics)) return Failed{};
  Module m;
  m.state_ = std::move(state);
  return m;
}

// The graphs go through their text, so that everything else finds a module of graph text.
Result<Module> Module::loadExport(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics) {
  Result<ExportFile> file = readExportFile(path, registryOf(options), diagnostics, options.limits);
  if (!file) return Failed{};
  auto state = std::make_shared<ModuleState>();
  if (!addExported(state->weights, path, *file, diagnostics)) return Failed{};
  for (ExportFile::Program& p : file->programs) {
    state->exported.push_back(std::move(p.program.inputs));
    if (file->programs.size() > 1) state->graphNames.push_back(p.name);
  }
  if (!loadInto(*state, path, file->stored, options, diagnostics)) return Failed{};
  LoadOptions others = options;
  others.weights.clear();
  others.tensors.clear();
  return parsed(SourceFile::make(path, file->text()), std::move(state), others, diagnostics);
}

Result<Module> Module::parsed(SourcePtr source, std::shared_ptr<ModuleState> state, const LoadOptions& options,
                              Diagnostics& diagnostics) {
  state->extensions = options.extensions;
  state->registry = &registryOf(options);
  SourcePtr given = source;
  ParseOptions parse;
  parse.registry = state->registry;
  parse.limits = options.limits;
  Result<ParsedText> text = parseText(std::move(source), diagnostics, parse);
  bool good = text.ok();
  for (const std::string& file : options.weights)
    good &= addWeightsFile(state->weights, file, *state->registry, options.limits, diagnostics);
  good &= addGiven(state->weights, options, diagnostics);
  if (!good || !checkPair(*given, state->weights.metadata(), diagnostics)) return Failed{};
  if (!restoreSharedMemory(state->weights, diagnostics)) return Failed{};
  state->text = std::move(*text);
  takeConstantsAsNumbers(state->text, *state->registry,
                         [&](const std::string& key) { return state->weights.peek(key); });
  spellOutSparseProducts(state->text);
  dropImplicitExpands(state->text);
  state->source = std::move(given);
  state->name = options.name;
  state->weightFiles.insert(state->weightFiles.end(), options.weights.begin(), options.weights.end());
  if (state->text.module) bindDump(*state);
  readConstantEnums(*state);
  readDefaults(*state, state->weights.metadata());
  if (ExportedInputs exported = readExportedInputs(state->weights.metadata()); !exported.empty())
    state->exported = {std::move(exported)};
  Module m;
  m.state_ = std::move(state);
  return m;
}

Result<Module> Module::loadEngine(const std::string& path, const LoadOptions& options, Diagnostics& diagnostics) {
  if (options.hasWeights()) {
    diagnostics.fileError(path, {}, "an engine file has its weights inside: no others can be given");
    return Failed{};
  }
  Ref<FileMapping> mapping = FileMapping::open(path, diagnostics);
  if (!mapping) return Failed{};
  Result<EngineFile> file = parseEngineFile(mapping->bytes(), mapping.get(), path, diagnostics, options.limits);
  if (!file) return Failed{};
  Result<Module> m = fromText(std::move(file->graph), path, options, diagnostics);
  if (!m) return Failed{};
  ModuleState& state = *m->state_;
  if (state.text.module || state.text.graphs.size() != 1) {
    diagnostics.fileError(path, {}, "the engine file is malformed: it holds something else than one graph");
    return Failed{};
  }
  for (auto& [name, tensor] : file->tensors)
    if (!state.weights.add(name, std::move(tensor))) {
      diagnostics.fileError(path, {}, "the engine file is malformed: it has '" + abbreviate(name, 80) + "' twice");
      return Failed{};
    }
  if (!restorePlugins(*state.text.graphs.at(0), file->info.plugins, *state.registry, path, diagnostics))
    return Failed{};
  readDefaults(state, file->metadata);
  state.takesInOrder = file->metadata.erase(std::string(kInputOrder)) > 0;
  state.weights.addMetadata(std::move(file->metadata));
  if (!restoreSharedMemory(state.weights, diagnostics)) return Failed{};
  readConstantEnums(state);
  Result<EngineOptions> engine = file->info.engineOptions(path, diagnostics);
  if (!engine) return Failed{};
  state.engine = std::move(*engine);
  state.forgetsState = !std::ranges::count(file->info.options, kKeepState);
  if (!file->info.exported.empty()) state.exported = {file->info.exported};
  if (file->refit) {
    auto refit = std::make_shared<RefitSource>(*file->refit);
    refit->exported = file->info.exported;
    state.refit = std::move(refit);
  }
  state.info = std::make_shared<EngineInfo>(std::move(file->info));
  return m;
}

Module Module::withGraph(std::unique_ptr<Graph> graph, bool otherInputs) const {
  auto state = std::make_shared<ModuleState>();
  state->registry = state_->registry;
  state->origin = state_->origin ? state_->origin : state_;
  state->originGraph = otherInputs ? kNoGraph : state_->originGraph;
  state->originEntry = otherInputs ? nullptr : state_->originEntry;
  state->takesSelf = !state_->origin || state_->takesSelf;
  state->defaults = state_->defaults;
  state->takesInOrder = state_->takesInOrder;
  if (!otherInputs) state->exportedRest = state_->exportedRest;
  state->forgetsState = state_->forgetsState;
  state->engine = state_->engine;
  state->info = state_->info;
  state->extensions = state_->extensions;
  state->text.graphs.push_back(std::move(graph));
  Module m;
  m.state_ = std::move(state);
  return m;
}

const EngineInfo* Module::engineInfo() const { return state_->info.get(); }

// Of archives, which are large, not before somebody asks.
std::string Module::sourceHash() const {
  if (!state_->archiveHash.empty()) return state_->archiveHash;
  if (!state_->archive.empty())
    if (std::string hash = hashOf(state_->archive); !hash.empty()) return hash;
  return state_->info ? state_->info->sourceHash : "";
}

const RefitSource* Module::refitSource() const { return state_->refit.get(); }

// What lowering was asked for in place of all that it does; empty: nothing.
static std::string aloneQuery(const EngineInfo& info) {
  constexpr std::string_view kRewrite = "rewrite=";
  for (const std::string& option : info.options)
    if (startsWith(option, kRewrite) && option.find("inline_calls") == std::string::npos &&
        option.find("default") == std::string::npos)
      return option.substr(kRewrite.size());
  return "";
}

bool Module::save(const std::string& path, Diagnostics& diagnostics, const Limits& limits) const {
  if (!state_->info) {
    diagnostics.error("only a compiled module can be saved", ErrorKind::Unsupported);
    return false;
  }
  const Graph* graph = this->graph();
  size_t before = diagnostics.errorCount();
  const std::string query = aloneQuery(*state_->info);
  forEachNode(*graph, [&](const Node* n) {
    if (n->kind() != sym::CallMethod && n->kind() != sym::CallFunction) return;
    const bool isFirst = diagnostics.errorCount() == before;
    Diagnostic& d = diagnostics.error(n->range, "an engine file cannot hold this call, which lowering did not inline",
                                      ErrorKind::Unsupported);
    if (isFirst && !query.empty())
      d.note(fmt::format("lowering did '{0}' alone: '+default,{0}' does all that it does else as well", query));
  });
  if (diagnostics.errorCount() != before) return false;
  // A file that cannot run would be found out too late.
  if (!prepare(diagnostics)) return false;
  std::unique_ptr<Graph> copy = copyWithData(*graph, collectSources(*state_, *graph, diagnostics));
  forgetPluginPhases(*copy);
  std::optional<IValue> self = bindSelf(*state_, *copy, Unsupplied::LeftOut, diagnostics);
  std::optional<GraphParts> parts = separateTensors(*copy, self ? &self->toObject() : nullptr, diagnostics);
  if (!parts) return false;
  writeDefaults(*state_, parts->metadata);
  if (state_->takesInOrder) parts->metadata.emplace(kInputOrder, "of dimensions");
  EngineInfo info = *state_->info;
  info.sourceHash = sourceHash();
  std::optional<std::vector<std::string>> plugins = savePlugins(*graph, registry(), diagnostics);
  if (!plugins) return false;
  info.plugins = std::move(*plugins);
  if (state_->engine.tactics) info.tactics = state_->engine.tactics->textOfEngine();
  return writeEngineFile(path, info, *parts, diagnostics, limits, state_->refit.get());
}

const ExportedInputs& Module::exportedInputs(const Graph& graph) const { return exportedInputsOf(*state_, graph); }
const ParsedText& Module::text() const { return state_->text; }

std::map<std::string, IValue> Module::defaults(const std::string& method) const {
  auto found = state_->defaults.find(method);
  return found == state_->defaults.end() ? std::map<std::string, IValue>() : found->second;
}

namespace {

// What the one graph is called: of an engine, the method that it was compiled from.
std::string methodOf(const EngineInfo* info) {
  constexpr std::string_view kOption = "method=";
  if (info)
    for (const std::string& option : info->options)
      if (startsWith(option, kOption)) return option.substr(kOption.size());
  return "forward";
}

}  // namespace

std::vector<std::string> Module::methods() const {
  std::vector<std::string> out;
  if (state_->text.module) {
    for (const auto& m : state_->text.module->modules[0].methods) out.push_back(m.name);
  } else if (!state_->graphNames.empty()) {
    out = state_->graphNames;
  } else {
    out.push_back(methodOf(state_->info.get()));
  }
  return out;
}

const Graph* Module::graph(std::string_view method) const {
  if (state_->text.module) {
    const DumpedMethod* m = state_->text.module->modules[0].method(method);
    return m ? m->graph.get() : nullptr;
  }
  const auto& names = state_->graphNames;
  size_t at = static_cast<size_t>(std::find(names.begin(), names.end(), method) - names.begin());
  if (names.empty())
    at = method == "forward" || method == methodOf(state_->info.get()) ? 0 : state_->text.graphs.size();
  return at < state_->text.graphs.size() ? state_->text.graphs[at].get() : nullptr;
}

const Graph* Module::findGraph(std::string_view method, Diagnostics& diagnostics) const {
  const Graph* found = graph(method);
  if (!found) {
    Diagnostic& d = diagnostics.error(fmt::format("there is no method '{}'", method), ErrorKind::Input);
    const std::vector<std::string> known = methods();
    if (known.empty())
      d.note("the module has none, it holds weights alone: save the model by torch.export.save or torch.jit.save");
    else
      d.note((known.size() == 1 ? "there is " : "there are ") +
             join(known, ", ", [](const std::string& m) { return m; }));
    if (state_->info)
      d.note("what is compiled has the method that it was compiled of alone: compile another one of it");
  }
  return found;
}

Result<Method> Module::prepare(Diagnostics& diagnostics, std::string_view method) const {
  return prepare(diagnostics, method, nullptr);
}

Result<Method> Module::prepare(Diagnostics& diagnostics, std::string_view method, SegmentCalls* calls) const {
  const Graph* entry = findGraph(method, diagnostics);
  if (!entry) return Failed{};
  ModuleState& s = *state_;
  size_t before = diagnostics.errorCount();
  ProgramSources sources = collectSources(s, *entry, diagnostics);
  if (diagnostics.errorCount() != before) return Failed{};
  if (isUncastText(s) && hasContexts(*entry, sources)) {
    LowerOptions casting;
    casting.method = method;
    casting.query = Query().including({"inline_calls"});
    Result<Module> cast = lowered(casting, diagnostics);
    return cast ? cast->prepare(diagnostics, "forward", calls) : Failed{};
  }
  if (diagnostics.errorCount() == before)
    if (std::optional<IValue> self = bindSelf(s, *entry, Unsupplied::Reported, diagnostics))
      sources.boundInputs[0] = std::move(self);
  if (diagnostics.errorCount() != before) return Failed{};
  sources.compileSegment = recuttingCompiler(s.engine, *entry, *s.registry);
  sources.segmentCalls = calls;
  Result<std::shared_ptr<const Program>> program =
      Program::compile(*entry, *s.registry, std::move(sources), diagnostics);
  if (!program) return Failed{};
  Method m;
  m.state_ = state_;
  m.program_ = *program;
  std::vector<ValueInfo> inputs;
  for (const Value* v : m.program_->inputs()) inputs.push_back({v->name(), v->type()});
  auto call = std::make_shared<CallInputs>(std::move(inputs), defaults(std::string(method)));
  call->setMembers(membersOfInputs(s, *entry));
  m.call_ = std::move(call);
  return m;
}

Result<std::vector<IValue>> Module::forward(std::span<const IValue> inputs, Diagnostics& diagnostics,
                                            const RunOptions& options) const {
  Method m;
  m.state_ = state_;
  {
    std::lock_guard lock(state_->forwardMutex);
    m.program_ = state_->forwardProgram;
    m.call_ = state_->forwardCall;
  }
  if (!m.program_) {
    Result<Method> made = prepare(diagnostics);
    if (!made) return Failed{};
    m = std::move(*made);
    std::lock_guard lock(state_->forwardMutex);
    state_->forwardProgram = m.program_;
    state_->forwardCall = m.call_;
  }
  return m.run(inputs, diagnostics, options);
}

const OpRegistry& Module::registry() const { return *state_->registry; }

std::vector<std::string> Module::unusedWeights() const {
  const ModuleState& s = state_->origin ? *state_->origin : *state_;
  if (s.unknownWeights) return *s.unknownWeights;
  // What an archive has besides is its own affair.
  return s.weightFiles.empty() ? std::vector<std::string>() : s.weights.unused();
}

const std::vector<ValueInfo>& Method::inputs() const { return call_->wanted(); }

const OpRegistry& Method::registry() const { return program_->registry(); }

std::vector<ValueInfo> Method::outputs() const {
  std::vector<ValueInfo> out;
  for (const Use& u : program_->graph().outputs()) out.push_back({u.value->name(), u.value->type()});
  return out;
}

namespace {

bool isHalf(const IValue& v) {
  if (!v.isTensor() || !v.tensorImpl()) return false;
  DType d = v.tensorImpl()->dtype();
  return d == DType::Float16 || d == DType::BFloat16;
}

// The first input of another dtype, rank or size than the graph was compiled for. A symbol is one number in all inputs.
std::optional<size_t> firstOfOtherSizes(const std::vector<ValueInfo>& declared, std::span<const IValue> inputs) {
  SizeSymbols symbols;
  for (size_t i = 0; i < std::min(declared.size(), inputs.size()); ++i)
    if (declared[i].type->isTensor() && inputs[i].isTensor() && inputs[i].tensorImpl())
      symbols.bind(declared[i].type->tensor().sizes, inputs[i].tensorImpl()->sizes());
  for (size_t i = 0; i < std::min(declared.size(), inputs.size()); ++i) {
    if (!declared[i].type->isTensor() || !inputs[i].isTensor() || !inputs[i].tensorImpl()) continue;
    const TensorFacts& facts = declared[i].type->tensor();
    const TensorImpl& given = *inputs[i].tensorImpl();
    if (facts.dtype != DType::Undefined && facts.dtype != given.dtype()) return i;
    if (!facts.hasRank) continue;
    if (facts.sizes.size() != given.sizes().size()) return i;
    if (symbols.firstOther(facts.sizes, given.sizes())) return i;
  }
  return std::nullopt;
}

Tensor inFloat32(const Tensor& t) {
  Tensor wide = Tensor::empty(DType::Float32, t.sizes());
  copyTensor(wide, t);
  return wide;
}

// Does that for each input of half precision; what cannot be allocated is reported.
template <class Visit>
bool forEachHalf(std::span<const IValue> inputs, Diagnostics& diagnostics, Visit&& visit) {
  try {
    for (size_t i = 0; i < inputs.size(); ++i)
      if (isHalf(inputs[i])) visit(i, inputs[i].toTensor());
    return true;
  } catch (const ExecutionError& e) {
    diagnostics.error(e.message(), e.kind());
    return false;
  }
}

// Inputs as f32; a tensor that is given twice is one.
bool widen(std::span<const IValue> inputs, std::vector<IValue>& wide, Diagnostics& diagnostics) {
  return forEachHalf(inputs, diagnostics, [&](size_t i, const Tensor& t) {
    auto isGiven = [&](const IValue& other) { return isHalf(other) && sameElements(other.toTensor(), t); };
    const auto first = static_cast<size_t>(std::ranges::find_if(inputs.first(i), isGiven) - inputs.begin());
    wide[i] = first < i ? wide[first] : IValue(inFloat32(t));
  });
}

// What the model wrote into inputs in f32 goes into those of half precision that they stand for. Others may be
// read-only, and inputs may share memory: all are looked at before the first is written.
bool putBack(std::span<const IValue> wide, std::span<const IValue> inputs, Diagnostics& diagnostics) {
  std::vector<size_t> written;
  return forEachHalf(inputs, diagnostics,
                     [&](size_t i, const Tensor& given) {
                       const Tensor now = wide[i].toTensor(), before = inFloat32(given);
                       const size_t bytes = static_cast<size_t>(now.numel()) * sizeof(float);
                       if (std::memcmp(now.raw(), before.raw(), bytes) != 0) written.push_back(i);
                     }) &&
         forEachHalf(inputs, diagnostics, [&](size_t i, Tensor given) {
           if (std::ranges::count(written, i)) copyTensor(given, wide[i].toTensor());
         });
}

Result<std::vector<IValue>> runBy(const OtherInputs& other, std::span<const IValue> inputs, Diagnostics& diagnostics,
                                  const RunOptions& options) {
  Result<Method> method = other.method(diagnostics);
  if (!method) return Failed{};
  return method->run(inputs, diagnostics, options);
}

std::string sizesText(TypePtr type) {
  const TensorFacts& facts = type->tensor();
  TensorFacts sizes;
  sizes.dtype = facts.dtype, sizes.hasRank = facts.hasRank, sizes.sizes = facts.sizes;
  return typeText(tensorType(sizes));
}

void refuseSizes(const ValueInfo& declared, const IValue& input, Diagnostics& diagnostics) {
  const DType wanted = declared.type->tensor().dtype;
  Diagnostic& error = diagnostics.error(fmt::format("input %{} is {}, and this was compiled for {}", declared.name,
                                                    sizesText(dynamicType(input)), sizesText(declared.type)),
                                        ErrorKind::Model);
  if (wanted == DType::Undefined || wanted == input.toTensor().dtype())
    error.note("the text that it was compiled from has these sizes: compile it for those that it is to take");
}

void refuseOrder(const Value* input, Diagnostics& diagnostics) {
  diagnostics
      .error(
          fmt::format("input %{} does not lie in memory in the order of its dimensions, and the graph was lowered for "
                      "inputs that do",
                      input->name()),
          ErrorKind::Model)
      .note("a view in it may be one that PyTorch refuses of such an input: copy the input, as aten::contiguous does");
}

// Containers wait in a list, each once, so neither nesting nor a list that holds itself costs stack or time.
class OrderCheck {
 public:
  bool liesInOrder(const IValue& input) {
    bool isInOrder = look(input);
    while (isInOrder && !waiting_.empty()) {
      const IValue container = std::move(waiting_.back());
      waiting_.pop_back();
      isInOrder = lookInside(container);
    }
    return isInOrder;
  }

 private:
  bool look(const IValue& v) {
    if (v.isTensor()) return !v.tensorImpl() || v.tensorImpl()->isContiguous();
    const void* container = v.isList()    ? static_cast<const void*>(&v.toList())
                            : v.isTuple() ? static_cast<const void*>(&v.toTuple())
                            : v.isDict()  ? static_cast<const void*>(&v.toDict())
                                          : nullptr;
    if (container && seen_.insert(container).second) waiting_.push_back(v);
    return true;
  }
  bool lookInside(const IValue& container) {
    auto good = [&](const IValue& item) { return look(item); };
    if (container.isList()) return std::ranges::all_of(container.toList().items, good);
    if (container.isTuple()) return std::ranges::all_of(container.toTuple().items, good);
    bool isInOrder = true;
    container.toDict().forEachValue([&](const IValue& item) { isInOrder = isInOrder && look(item); });
    return isInOrder;
  }

  std::vector<IValue> waiting_;
  std::unordered_set<const void*> seen_;
};

// The first input that does not lie in the order of its dimensions, or has a tensor inside that does not.
std::optional<size_t> firstOutOfOrder(std::span<const IValue> inputs) {
  OrderCheck check;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!check.liesInOrder(inputs[i])) return i;
  return std::nullopt;
}

// Whether the model failed in a run, rather than that it was stopped.
bool failedItself(const Diagnostics& diagnostics) {
  const auto& all = diagnostics.list();
  return std::ranges::any_of(
      all, [](const Diagnostic& d) { return d.severity == Severity::Error && d.kind == ErrorKind::Model; });
}

Result<std::vector<IValue>> runInOrder(const ModuleState& state, const Program& program, std::span<const IValue> inputs,
                                       Diagnostics& diagnostics, const RunOptions& options) {
  std::optional<size_t> other;
  if (state.takesInOrder) other = firstOutOfOrder(inputs.first(std::min(inputs.size(), program.inputs().size())));
  if (!other) {
    Result<std::vector<IValue>> out = program.run(inputs, options, diagnostics);
    if (!out && options.state && failedItself(diagnostics)) setUntilFailure(state, program, inputs, options);
    return out;
  }
  if (state.anyOrder) return runBy(*state.anyOrder, inputs, diagnostics, options);
  refuseOrder(program.inputs()[*other], diagnostics);
  return Failed{};
}

// Warns of engines that the interpreter ran because code of others failed, rather than refusing.
void tellFailures(RefusalWatch& refusals, ModuleState::Told& told, Diagnostics& diagnostics) {
  for (RefusalWatch::Row& row : refusals.rows()) {
    if (row.isTold || !row.refusal || !row.refusal->isFailure) continue;
    row.isTold = true;
    const Refusal& refusal = *row.refusal;
    {
      std::lock_guard lock(told.mutex);
      if (!told.failures.insert(refusal.verdict.detail).second) continue;
    }
    diagnostics
        .warning(refusal.node ? refusal.node->range : SourceRange{},
                 "the interpreter runs what an engine was to run: " + refusal.verdict.detail)
        .note("docs/writing_converters.md tells what converters have to do");
  }
}

}  // namespace

Result<std::vector<IValue>> Method::run(std::span<const IValue> inputs, Diagnostics& diagnostics,
                                        const RunOptions& options) const {
  if (options.state && state_->forgetsState) {
    diagnostics
        .error("the module was lowered without keeping state: its runs cannot go on where others ended",
               ErrorKind::Input)
        .note(fmt::format("compile it with the setting {}, in C++ lowering.keepsState of CompileSpec", kKeepState));
    return Failed{};
  }
  std::vector<IValue> completed;
  if (!call_->areComplete(inputs)) {
    Result<std::vector<IValue>> out =
        call_->complete(std::vector<std::optional<IValue>>(inputs.begin(), inputs.end()), diagnostics);
    if (!out) return Failed{};
    completed = std::move(*out);
    inputs = completed;
  }
  const EngineInfo* info = state_->info.get();
  const ExportedInputs& exported = exportedInputsOf(*state_, program_->graph());
  const auto accepts = [&](std::span<const IValue> values) {
    Diagnostics unheard;
    return checkExportedInputs(exported, this->inputs(), values, unheard) &&
           (!info || (checkInputRanges(info->inputs, this->inputs(), values, unheard) &&
                      (state_->otherSizes || !firstOfOtherSizes(this->inputs(), values))));
  };
  const KnownInputs known{this->inputs(), program_->graph(), registry(),
                          state_->origin || info || !state_->exported.empty(), accepts};
  return toldOfInputs(known, inputs, diagnostics, [&](Diagnostics& d) -> Result<std::vector<IValue>> {
    if (!checkExportedInputs(exported, this->inputs(), inputs, d)) return Failed{};
    if (!info) return runInOrder(*state_, *program_, inputs, d, options);
    std::vector<IValue> wide, checked(inputs.begin(), inputs.end());
    if (info->takesHalf && std::any_of(inputs.begin(), inputs.end(), isHalf)) {
      wide = checked;
      if (!widen(inputs, wide, d)) return Failed{};
      // A range that names f32 means what the graph sees.
      const std::vector<ValueInfo>& names = this->inputs();
      for (size_t i = 0; i < std::min(names.size(), wide.size()); ++i)
        for (const InputRange& r : info->inputs)
          if (r.name == names[i].name && r.dtype == DType::Float32) checked[i] = wide[i];
    }
    if (!checkInputRanges(info->inputs, this->inputs(), checked, d)) return Failed{};
    const std::span<const IValue> seen = wide.empty() ? inputs : wide;
    RefusalWatch refusals(/*handsOn=*/true);
    const std::optional<size_t> other = firstOfOtherSizes(this->inputs(), seen);
    if (other && !state_->otherSizes) {
      refuseSizes(this->inputs()[*other], seen[*other], d);
      return Failed{};
    }
    Result<std::vector<IValue>> out =
        other ? runBy(*state_->otherSizes, seen, d, options) : runInOrder(*state_, *program_, seen, d, options);
    if (out) tellFailures(refusals, *state_->told, d);  // else what failed was reported
    if (!wide.empty() && !putBack(wide, inputs, d)) return Failed{};
    return out;
  });
}

}  // namespace tscompile
