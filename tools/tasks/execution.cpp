#include "tools/tasks/execution.h"

#include "api/compile.h"
#include "api/engine_file.h"
#include "api/exported_sizes.h"
#include "api/forgotten_weights.h"
#include "api/input_advice.h"
#include "api/lower.h"
#include "api/model_file.h"
#include "api/named_inputs.h"
#include "api/support/deep_copy.h"
#include "api/support/fitted_values.h"
#include "api/symbolic_ranges.h"
#include "frontend/export/sample_inputs.h"
#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "ir/graph/node_text.h"
#include "ir/graph/text_graphs.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/support/remedy.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "partition/root_causes.h"
#include "partition/store_weights.h"
#include "passes/lowering/bound_inputs.h"
#include "runtime/engine/support.h"
#include "tools/options/following_sizes.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/exported_arguments.h"
#include "tools/tasks/input_parts.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/measured_texts.h"
#include "tools/tasks/option_effects.h"
#include "tools/tasks/partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <unordered_map>

namespace tscompile {

namespace {

// Lowering looks through all blocks around a node, and compiling takes some 20 microseconds for each. Texts that are
// deeper or longer than what people write or tracers print are left to the interpreter unless engines are asked for.
constexpr size_t kDeepest = 1000, kMostNodes = 100'000;

// Why the graphs of a text are better interpreted; empty if they are not.
std::string tooLarge(const ParsedText& text) {
  bool deep = false;
  size_t nodes = 0;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    nodes += g.nodeCount();
    std::unordered_map<const Block*, size_t> depth{{g.block(), 0}};
    forEachNode(g, [&](const Node* n) {
      for (const Block* b : n->blocks()) deep |= (depth[b] = depth[n->block()] + 1) > kDeepest;
    });
  });
  if (deep) return fmt::format("its blocks are nested more than {} deep", kDeepest);
  return nodes > kMostNodes ? fmt::format("it has more than {} nodes", kMostNodes) : "";
}

}  // namespace

std::optional<Executable> loadAsGiven(const Options& options, Session& session) {
  const RunCommand& command = options.run;
  const std::string& path = options.arguments[0];
  Result<Module> module = session.loadModule(path, command.weights);
  if (module) checkOptionEffects(options, *module);
  if (!module) return std::nullopt;
  Result<Method> method = prepareGiven(path, *module, command.method, session.diagnostics);
  if (!method) return std::nullopt;
  std::map<std::string, IValue> defaults = module->defaults(command.method);
  return Executable{std::move(*module), std::move(*method), std::move(defaults)};
}

std::string CutText::summary() const {
  return fmt::format("{} of {} in {}, {}", inEngines, counted(nodes, "node"), counted(engines, "engine"),
                     counted(segments, "segment"));
}

void CutText::tellReasons(Session& session) const {
  if (!byKernels.empty()) {
    size_t count = 0;
    for (const auto& [name, nodes] : byKernels) count += nodes;
    constexpr size_t kMost = 4;
    std::string names;
    size_t told = 0;
    for (const auto& [name, nodes] : byKernels)
      if (told++ < kMost) names += (names.empty() ? "" : ", ") + name;
    session.note(fmt::format("reference kernels, which are right but not fast, compute {} in engines: {}{}",
                             counted(count, "node"), names, byKernels.size() > kMost ? ", ..." : ""));
  }
  if (!firstReason.empty()) session.note("not in an engine: " + firstReason);
  if (hint.empty()) return;
  const size_t outside = nodes - inEngines;
  session.note(hinted == 0 || hinted == outside ? "what would help: " + hint
                                                : fmt::format("what would help {} of the {} that are not: {}", hinted,
                                                              counted(outside, "node"), hint));
}

CutText cutText(const Prepared& prepared, const Partition& partition, bool sized) {
  CutText out;
  out.nodes = partition.nodeCount();
  out.inEngines = partition.acceleratedCount();
  out.engines = partition.count(Target::Accelerated);
  out.segments = partition.segments.size();
  forEachNode(*prepared.graph, [&](const Node* n) {
    if (partition.given.contains(n) || !partition.decisions[n].accelerated() || n->hasBlocks() || n->subgraph()) return;
    const Operator* op = prepared.registry->resolve(*n);
    if (op && engineUse(*op).converter == "kernel") ++out.byKernels[op->fullName()];
  });
  if (out.inEngines == out.nodes) return out;
  const RootCauses roots(*prepared.graph, partition);
  // What keeps most nodes out, by its remedy; of large graphs, most of the first ones.
  constexpr size_t kMostRemedies = 2000;
  size_t asked = 0;
  bool isSmall = false;  // what firstReason tells of
  std::map<std::string, size_t> remedies;
  forEachNode(*prepared.graph, [&](const Node* n) {
    if (partition.given.contains(n) || partition.wrapping.contains(n) || partition.decisions[n].accelerated()) return;
    const Decision& d = partition.decisions[roots.of(n)];
    // Small engines are so because of others.
    if (out.firstReason.empty() || (isSmall && d.reason != Reason::SmallBlock)) {
      isSmall = d.reason == Reason::SmallBlock;
      out.firstReason = placeName(roots.of(n)) + ": " + std::string(reasonCode(d.reason)) + ", " + d.detail;
    }
    const bool helps = !d.remedy.empty() && d.remedy.kind != Remedy::Kind::KnowNothing;
    if (helps && ++asked <= kMostRemedies) ++remedies[textOf(d.remedy)];
  });
  const auto most = std::max_element(remedies.begin(), remedies.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most != remedies.end()) {
    out.hint = most->first;
    out.hinted = most->second;
  } else if (!sized) {
    out.hint = "tell the sizes of the inputs with --shape";
  }
  return out;
}

namespace {

size_t workNodes(const Graph& graph) {
  size_t count = 0;
  forEachNode(graph, [&](const Node* n) { count += n->kind() != sym::Constant && !isStoredWeight(n); });
  return count;
}

// Of a graph that has engines already, as that of an engine file. Segments are counted as they are cut: each block has
// its own, and control flow that is not in an engine is one alone.
CutText cutOfEngines(const Graph& graph) {
  CutText out;
  const WrappingNodes wrapping(graph);
  const GivenNodes given(graph);
  std::unordered_map<const Block*, bool> isOpen;  // whether the last segment takes more nodes
  forEachNode(graph, [&](const Node* n) {
    if (given.contains(n)) return;
    const bool isEngine = n->kind() == sym::Engine && n->subgraph();
    const size_t count = isEngine ? workNodes(*n->subgraph()) : 1;
    if (!wrapping.contains(n)) out.nodes += count;
    if (isEngine) out.inEngines += count;
    out.engines += isEngine;
    const bool isAlone = isEngine || n->hasBlocks();
    bool& open = isOpen[n->block()];
    out.segments += isAlone || !open;
    open = !isAlone;
  });
  return out;
}

}  // namespace

namespace {

// Hands out the arguments that a program was exported with to its inputs: by name or in order. Containers that no input
// takes are taken apart, as programs are that take their leaves; of other values exporting made constants.
class SampleArguments {
 public:
  explicit SampleArguments(SampleInputs samples) : named_(std::move(samples.kwargs)) {
    std::move(samples.args.rbegin(), samples.args.rend(), std::back_inserter(unnamed_));
  }

  std::optional<IValue> take(const ValueInfo& input) {
    if (auto named = findNamed(input.name); named != named_.end()) {
      std::optional<IValue> fit = fittedObject(named->second, input.type);
      named_.erase(named);
      return fit;
    }
    while (!unnamed_.empty()) {
      const IValue value = std::move(unnamed_.back());
      unnamed_.pop_back();
      if (std::optional<IValue> fit = fittedObject(value, input.type)) return fit;
      const std::vector<std::pair<std::string, IValue>> parts = partsOf(value);
      for (auto part = parts.rbegin(); part != parts.rend(); ++part) unnamed_.push_back(part->second);
    }
    return std::nullopt;
  }

 private:
  using Named = std::vector<std::pair<std::string, IValue>>;

  // Objects are dicts here, and tuples of their fields where programs take them whole.
  static std::optional<IValue> fittedObject(const IValue& value, TypePtr type) {
    std::optional<IValue> fit = fitted(value, type);
    return fit ? fit : fitted(fieldsOf(value), type);
  }
  static IValue fieldsOf(const IValue& value) {
    const Named parts = partsOf(value);
    if (parts.empty()) return value;
    std::vector<IValue> fields;
    for (const auto& [name, part] : parts) fields.push_back(fieldsOf(part));
    return IValue(Ref<TupleValue>::make(std::move(fields), nullptr));
  }

  // With their keys or numbers.
  static Named partsOf(const IValue& v) {
    Named out;
    if (v.isDict())
      v.toDict().forEach([&](const IValue& key, const IValue& item) { out.emplace_back(key.toString(), item); });
    if (v.isList() || v.isTuple())
      for (const IValue& item : v.isList() ? v.toList().items : v.toTuple().items)
        out.emplace_back(std::to_string(out.size()), item);
    return out;
  }

  // Leaves are named after the way to them: "d_a" is "a" of "d".
  Named::iterator findNamed(std::string_view name) {
    while (true) {
      auto at = std::ranges::find(named_, name, [](const auto& v) { return v.first; });
      if (at != named_.end()) return at;
      at = std::ranges::find_if(
          named_, [&](const auto& v) { return name.starts_with(v.first + "_") && !partsOf(v.second).empty(); });
      if (at == named_.end()) return at;
      const auto [prefix, whole] = std::move(*at);
      named_.erase(at);
      for (auto& [key, part] : partsOf(whole)) named_.emplace_back(prefix + "_" + key, std::move(part));
    }
  }

  std::vector<IValue> unnamed_;  // the next last
  Named named_;
};

}  // namespace

std::map<std::string, IValue> exportedInputs(const std::string& path, const std::string& method,
                                             std::span<const ValueInfo> inputs, const Limits& limits) {
  if (modelFileOf(path) != ModelFile::Export) return {};
  std::optional<SampleInputs> samples = readSampleInputs(path, method, limits);
  if (!samples) return {};
  SampleArguments arguments(std::move(*samples));
  std::vector<IValue> values;
  for (const ValueInfo& input : inputs) {
    std::optional<IValue> fit = arguments.take(input);
    if (!fit) return {};
    values.push_back(std::move(*fit));
  }
  values = deepCopy(values);  // programs may write to them, and not to the file's memory
  std::map<std::string, IValue> out;
  for (size_t i = 0; i < inputs.size(); ++i) out.emplace(inputs[i].name, std::move(values[i]));
  return out;
}

namespace {

// Sizes that an exported program takes: what is open is as it was exported, else 8, or as near to it as it may be.
// Nothing where sizes are computed of others and no example tells them.
std::vector<InputRange> sizesOfExport(const Module& module, const std::string& method) {
  std::vector<InputRange> out;
  const Graph* graph = module.graph(method);
  if (!graph) return out;
  for (const ExportedInput& input : module.exportedInputs(*graph).tensors) {
    InputRange& range = out.emplace_back();
    range.name = partName(input.name, input.path);
    range.dtype = input.dtype;
    for (const ExportedSize& s : input.sizes) {
      const bool isTold = s.example >= s.least && s.example <= s.most;
      if (!isTold && s.symbol.find_first_of("+-*/( ") != std::string::npos) return {};
      range.most.push_back(isTold ? s.example : std::clamp<int64_t>(8, s.least, std::max(s.least, s.most)));
    }
    range.least = range.most;
  }
  return out;
}

// Tensors in containers that nothing is said of, where others in there are, or sizes that stand for the same symbol: of
// the sizes that follow, else those of the example, which has their dtypes. A list has as many items as are said.
void addOtherParts(std::vector<InputRange>& shapes, const ExportedInputs& exported,
                   const std::map<std::string, IValue>& examples) {
  std::map<std::string, int64_t> symbols;
  std::set<std::string> said, begun;  // parts, and inputs that have some
  for (const ExportedInput& input : exported.tensors)
    for (const InputRange& r : shapes) {
      if (r.name != partName(input.name, input.path)) continue;
      said.insert(r.name), begun.insert(input.name);
      for (size_t d = 0; d < std::min(input.sizes.size(), r.most.size()); ++d)
        if (!input.sizes[d].symbol.empty() && !isExpression(r, d))
          symbols.try_emplace(input.sizes[d].symbol, r.most[d]);
    }
  for (const ExportedInput& input : exported.tensors) {
    const auto whole = examples.find(input.name);
    const IValue* example = whole == examples.end() ? nullptr : valueAt(whole->second, input.path);
    if (input.path.empty() || !example || !example->isTensor()) continue;
    if (whole->second.isList() && begun.contains(input.name)) continue;
    InputRange range{partName(input.name, input.path), example->toTensor().dtype(), {}, {}};
    bool isOther = begun.contains(input.name);
    for (const ExportedSize& s : input.sizes) {
      const auto known = symbols.find(s.symbol);
      range.most.push_back(known == symbols.end() ? s.example : known->second);
      isOther |= range.most.back() != s.example;
    }
    range.least = range.most;
    const bool isKnown = std::ranges::all_of(range.most, [](int64_t n) { return n >= 0; });
    if (isOther && isKnown && !said.contains(range.name)) shapes.push_back(std::move(range));
  }
}

// Of tensors in containers, whose dtypes no type tells, those that the program was exported with.
void addExportedDTypes(std::vector<InputRange>& shapes, const Module& module, const std::string& method) {
  const Graph* graph = module.graph(method);
  if (!graph) return;
  for (const ExportedInput& input : module.exportedInputs(*graph).tensors)
    for (InputRange& r : shapes)
      if (r.dtype == DType::Undefined && r.name == partName(input.name, input.path)) r.dtype = input.dtype;
}

// What is known of the inputs of an engine file.
std::vector<InputRange> sizesOfEngines(const Module& module, const std::string& method) {
  std::vector<InputRange> out = module.engineInfo()->inputs;
  addExportedDTypes(out, module, method);
  for (InputRange& r : sizesOfExport(module, method))
    if (std::ranges::none_of(out, [&](const InputRange& known) { return known.name == r.name; }))
      out.push_back(std::move(r));
  return out;
}

// "--shape pair.0=2x2 --shape pair.1=2x2": of tensors in a container of which sizes are known.
std::string partsHint(const Module& module, const std::string& method, const ValueInfo& input) {
  constexpr size_t kMost = 4;
  std::string out;
  size_t count = 0;
  std::vector<InputRange> known = module.engineInfo() ? sizesOfEngines(module, method) : sizesOfExport(module, method);
  for (InputRange& r : known) {
    if (!r.name.starts_with(input.name + ".") || ++count > kMost) continue;
    r = withoutExpressions(r);
    r.least = r.most;
    if (r.dtype == DType::Float32) r.dtype = DType::Undefined;
    out += (out.empty() ? "--shape " : " --shape ") + inputRangeText(r);
  }
  return count > kMost ? out + " ..." : out;
}

std::string sizesHint(const Module& module, const std::string& method, const ValueInfo& input) {
  if (!input.type->isTensor()) return partsHint(module, method, input);
  if (module.engineInfo())
    for (const InputRange& r : sizesOfEngines(module, method)) {
      if (r.name != input.name) continue;
      InputRange usual = withoutExpressions(r);
      usual.least = usual.most;
      if (usual.dtype == DType::Undefined && input.type->isTensor()) usual.dtype = input.type->tensor().dtype;
      const DType dtype = usual.dtype == DType::Float32 ? DType::Undefined : usual.dtype;
      return rangeSizesText(usual) + (dtype == DType::Undefined ? "" : ":" + std::string(shortName(dtype)));
    }
  if (input.type->tensor().hasRank) return "";
  Diagnostics unheard;
  LowerOptions lowering;
  lowering.method = method;
  Result<Module> lowered = module.lowered(lowering, unheard);
  return lowered && lowered->graph() ? likelySizes(*lowered->graph(), lowered->registry(), input.name) : "";
}

}  // namespace

// Of texts such as "length=24".
static std::vector<ExportedConstant> constantsIn(const std::vector<std::string>& texts) {
  std::vector<ExportedConstant> out;
  for (const std::string& text : texts)
    if (const size_t equal = text.find('='); equal != std::string::npos)
      out.push_back({text.substr(0, equal), text.substr(equal + 1)});
  return out;
}

// Inputs of integers that are 0 and 1 at random. Indices, offsets and lengths may be none that the model takes then.
static std::vector<std::string> randomIntegers(std::span<const ValueInfo> inputs, const std::vector<std::string>& texts,
                                               const std::map<std::string, IValue>& defaults,
                                               const PartitionSpec& spec) {
  std::vector<std::string> out;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ValueInfo& input = inputs[i];
    const bool isSaid = std::ranges::any_of(texts, [&](const std::string& text) {
      return text.starts_with(input.name + "=") || text.starts_with(std::to_string(i) + "=");
    });
    const auto known = defaults.find(input.name);
    const TypePtr type = input.type->is(TypeKind::Optional) ? input.type->element() : input.type;
    if (isSaid || !type->isTensor() || (known != defaults.end() && !known->second.isNone())) continue;
    DType dtype = input.type->isTensor() ? type->tensor().dtype : DType::Undefined;
    for (const InputRange& r : spec.shapes)
      if (r.name == input.name && r.dtype != DType::Undefined) dtype = r.dtype;
    if (dtype != DType::Undefined && dtype != DType::Bool && isIntegral(dtype, false)) out.push_back(input.name);
  }
  return out;
}

Result<std::vector<IValue>> readInputs(const Executable& given, const Options& options, bool makes, Session& session,
                                       std::vector<std::string>* random) {
  Result<std::vector<std::string>> texts = givenInputs(options.run, session);
  if (!texts) return Failed{};
  const std::vector<std::string>& bound = options.own.of<BoundInputs>().texts;
  texts->insert(texts->end(), bound.begin(), bound.end());
  const Graph* entry = given.module.graph(options.run.method);
  if (entry && !given.module.engineInfo())
    *texts = ofInputs(std::move(*texts), given.method.inputs(), given.module.exportedInputs(*entry));
  std::map<std::string, IValue> defaults = given.defaults;
  const std::string& path = options.arguments[0];
  if (const bool isUnsaid = texts->empty() && options.partition.spec.shapes.empty();
      isUnsaid && given.module.engineInfo())
    if (const std::string folder = builtModelOf(path); !folder.empty()) {
      session.diagnostics
          .fileError(path, {},
                     "this is the engine of a language model that was built, which random inputs mean nothing to")
          .note(fmt::format("'tscompile generate {}' runs it, and 'bench', 'profile' and 'report' measure it", folder));
      return Failed{};
    }
  InputReader reader(given.method.inputs(), session, defaults);
  // Whoever says some inputs of a run, and not others, has forgotten those.
  std::map<std::string, IValue> examples;
  if (makes ? texts->size() < given.method.inputs().size() : texts->empty())
    examples = exportedInputs(path, options.run.method, given.method.inputs(), session.common.limits);
  if (!examples.empty())
    reader.setExamples(examples, [&](std::span<const IValue> values) {
      Diagnostics unheard;
      return !entry || checkExportedInputs(given.module.exportedInputs(*entry), given.method.inputs(), values, unheard);
    });
  reader.setFiles(options.run.inputFiles);
  reader.setLikely([&](const ValueInfo& input) { return sizesHint(given.module, options.run.method, input); });
  if (const EngineInfo* info = given.module.engineInfo())
    reader.setConstants(constantsIn(info->bound), "it was compiled");
  else if (entry)
    reader.setConstants(given.module.exportedInputs(*entry).constants, "the program was exported");
  if (!makes) return reader.read(*texts);
  CompileSpec spec = compileSpecOf(options.partition, session);
  if (entry) checkShapes(spec, *entry);
  addFollowingSizes(spec.shapes, given.method.inputs());
  if (entry) addOtherParts(spec.shapes, given.module.exportedInputs(*entry), examples);
  addExportedDTypes(spec.shapes, given.module, options.run.method);
  if (given.module.engineInfo())
    for (InputRange& r : sizesOfEngines(given.module, options.run.method)) spec.shapes.push_back(std::move(r));
  std::vector<std::string> integers = randomIntegers(given.method.inputs(), *texts, defaults, spec);
  Result<std::vector<IValue>> values =
      reader.readOrMake(inputTexts(std::move(*texts), spec, given.method.inputs()), options.run.seed);
  std::erase_if(integers, [&](const std::string& name) {
    return std::ranges::find(reader.ofExamples(), name) != reader.ofExamples().end();
  });
  if (!integers.empty())
    session.noteIfModelFails(fmt::format("the elements of %{} are 0 and 1 at random; --input {}=@FILE.npy says others",
                                         fmt::join(integers, ", %"), integers.front()));
  if (random) *random = integers;
  return values;
}

std::vector<std::string> givenTexts(std::span<const ValueInfo> infos, std::span<const IValue> values) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name, const IValue& v) {
    out.push_back(v.isTensor() && v.tensorImpl() ? inputRangeText(rangeOf(name, v.toTensor()))
                                                 : name + "=" + abbreviate(valueText(v, LiteralStyle::Plain), 200));
  };
  for (size_t i = 0; i < std::min(infos.size(), values.size()); ++i) forEachPart(infos[i].name, values[i], add);
  return out;
}

std::string checksumOfFile(const std::string& path) {
  Diagnostics unheard;
  Ref<FileMapping> file = path == "-" ? Ref<FileMapping>() : FileMapping::open(path, unheard);
  return file ? fmt::format("{:016x}", checksumOf(file->bytes())) : "";
}

void warnAgain(const Diagnostics& found, Diagnostics& diagnostics) {
  for (const Diagnostic& d : found.list())
    if (d.severity == Severity::Warning) diagnostics.add(d);
}

void bindNone(CompileSpec& spec, std::span<const ValueInfo> infos, std::span<const IValue> inputs) {
  for (size_t i = 0; spec.lower && i < std::min(infos.size(), inputs.size()); ++i)
    if (inputs[i].isNone() && infos[i].type->is(TypeKind::Optional))
      spec.lowering.arguments[boundInput(infos[i].name)] = IValue();
}

std::vector<size_t> boundInputs(const CompileSpec& spec, std::span<const ValueInfo> infos) {
  std::vector<size_t> out;
  for (size_t i = 0; i < infos.size(); ++i)
    if (spec.lowering.arguments.contains(boundInput(infos[i].name))) out.push_back(i);
  return out;
}

void removeAt(std::vector<IValue>& values, const std::vector<size_t>& ascending) {
  for (size_t i = ascending.size(); i-- > 0;) values.erase(values.begin() + static_cast<std::ptrdiff_t>(ascending[i]));
}

std::optional<Executable> withEngines(Executable given, const Options& options, Session& session,
                                      std::vector<IValue>& inputs, bool sized, CutText* cut) {
  if (const Graph* graph = given.module.graph(); cut && graph && given.module.engineInfo()) *cut = cutOfEngines(*graph);
  if (options.run.executor == ExecutorChoice::Interpreter || given.module.engineInfo()) return given;
  CompileSpec spec = compileSpecOf(options.partition, session);
  spec.lowering.method = options.run.method;
  const Graph* entry = given.module.graph(options.run.method);
  if (entry) checkShapes(spec, *entry);
  if (!bindInputs(spec, options, entry, session)) return std::nullopt;
  const CompileSpec unsized = spec;
  if (sized) {
    addSizes(spec, given.method.inputs(), inputs);
    bindNone(spec, given.method.inputs(), inputs);
  }
  std::vector<size_t> bound = boundInputs(spec, given.method.inputs());
  if (cut)
    spec.onPartition = [cut, sized = !spec.shapes.empty()](const Prepared& prepared, const Partition& partition) {
      *cut = cutText(prepared, partition, sized);
    };
  // Whoever says what is to run in engines, or to stay out of them, wants to hear why it does not.
  bool isOptional = options.run.executor == ExecutorChoice::EngineIfPossible && spec.requiredCoverage <= 0 &&
                    spec.torchExecutedOps.empty() && spec.torchExecutedModules.empty() &&
                    spec.torchExecutedNodes.empty();
  if (isOptional) {
    if (std::string why = tooLarge(given.module.text()); !why.empty()) {
      session.note("the interpreter runs the graph: " + why + "; --executor engine compiles it all the same");
      return given;
    }
    // Calls that are inlined must not make it so.
    spec.lowering.limits.nodes = std::min<uint64_t>(spec.lowering.limits.nodes, kMostNodes);
  }
  session.progress.step("building engines");
  Diagnostics reasons;
  Diagnostics& diagnostics = isOptional ? reasons : session.diagnostics;
  // What these sizes cannot be computed with, the run tells better.
  Diagnostics ofSizes;
  const bool special =
      spec.shapes.size() > unsized.shapes.size() || spec.lowering.arguments.size() > unsized.lowering.arguments.size();
  Result<Module> module = given.module.compiled(spec, special ? ofSizes : diagnostics);
  if (module) warnAgain(ofSizes, diagnostics);
  if (!module && special) {
    bound = boundInputs(unsized, given.method.inputs());
    module = given.module.compiled(unsized, diagnostics);
  }
  if (module)
    if (Result<Method> method = module->prepare(diagnostics, "forward")) {
      removeAt(inputs, bound);
      warnAgain(reasons, session.diagnostics);
      return Executable{std::move(*module), std::move(*method), std::move(given.defaults)};
    }
  if (!isOptional) return std::nullopt;
  const Diagnostic& why = reasons.list().front();
  session.noteUnlessFailed("the interpreter runs the graph, which cannot be compiled: " + why.message);
  if (!unsized.shapes.empty())  // sizes that were said may be why
    for (const Diagnostic& note : why.notes) session.noteUnlessSaid(note.message);
  return given;
}

namespace {

// What a model prints, without what would change the terminal.
std::string printableLines(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    size_t end = std::min(text.find_first_of("\n\t"), text.size());
    out += printable(text.substr(0, end));
    if (end < text.size()) out += text[end++];
    text.remove_prefix(end);
  }
  return out;
}

}  // namespace

RunOptions runOptions(const RunCommand& command, const InterruptScope& interrupts, Session& session) {
  RunOptions o = session.runLimits();
  o.interrupt = &interrupts.interrupted();
  o.seed = command.seed;
  o.threads = static_cast<int>(command.threads);
  o.print = [&session](std::string_view text) {
    session.progress.end();
    if (!session.common.jsonErrors) {
      session.err << printableLines(text);
      return;
    }
    Diagnostic d;
    d.severity = Severity::Note;
    d.message = "printed by the model: " + std::string(text.substr(0, text.size() - text.ends_with('\n')));
    session.err << diagnosticJson(d);
  };
  o.warn = [&session](std::string_view text) {
    Diagnostic d;
    d.severity = Severity::Warning;
    d.message = text;
    session.diagnostics.add(d);
    session.report();
  };
  return o;
}

RunOptions silent(RunOptions options) {
  options.print = nullptr;
  options.warn = nullptr;
  return options;
}

}  // namespace tscompile
