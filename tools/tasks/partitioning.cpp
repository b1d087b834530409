#include "tools/tasks/partitioning.h"

#include "api/extensions.h"
#include "api/symbolic_ranges.h"
#include "ir/analysis/verifier.h"
#include "ir/support/text.h"
#include "passes/catalog.h"
#include "passes/lowering/bound_inputs.h"
#include "runtime/engine/network/tactics.h"
#include "tools/options/following_sizes.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/exported_arguments.h"
#include "tools/tasks/input_parts.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/rewrite_names.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

namespace tscompile {

size_t inputOf(std::span<const ValueInfo> inputs, const std::string& name) {
  if (const size_t found = findInput(inputs, name); found != kNoInput) return found;
  InputFault fault = noSuchInput(inputs, name);
  throw UsageError{std::move(fault.message), std::move(fault.notes)};
}

void checkShapes(PartitionSpec& spec, const Graph& graph, const std::string& numbersBy) {
  const std::vector<ValueInfo> inputs = inputsOf(graph);
  nameUnnamedSizes(spec.shapes, inputs);
  nameUnnamedSizes(spec.usualShapes, inputs);
  spreadSymbols(spec.shapes, inputs);
  if (std::optional<InputFault> fault = nameInputRanges(spec.shapes, spec.usualShapes, inputs)) {
    if (fault->noTensor != kNoInput)
      fault->notes.push_back("give it with " + exampleOf(inputs[fault->noTensor], numbersBy));
    throw UsageError{std::move(fault->message), std::move(fault->notes)};
  }
}

CompileSpec compileSpecOf(const PartitionCommand& command, Session& session) {
  CompileSpec spec = command.spec;
  if (!spec.engine.tactics && !command.timingCache.empty()) spec.engine.tactics = std::make_shared<TacticCache>();
  spec.lowering.limits = session.common.limits;
  if (!session.common.rules.empty())
    spec.lowering.settings.applied = [&session](const std::string& name) { session.applied.insert(name); };
  return spec;
}

Result<Module> loadForPartition(const Options& options, CompileSpec& spec, Session& session,
                                const std::string& numbersBy) {
  const PartitionCommand& command = options.partition;
  checkRewriteNames(session.extensions ? session.extensions->lowering() : loweringDatabase(), spec.lowering.query);
  Result<Module> module = session.loadModule(options.arguments[0], command.weights);
  if (!module) return Failed{};
  const Graph* entry = module->graph(spec.lowering.method);
  if (entry && !verify(*entry, module->registry(), session.diagnostics)) return Failed{};
  if (entry) checkShapes(spec, *entry, numbersBy);
  if (!bindInputs(spec, options, entry, session)) return Failed{};
  return module;
}

namespace {

// Whether there are tensors in the value of which sizes can be said.
bool addSizesOf(PartitionSpec& spec, const ValueInfo& info, const IValue& value, std::span<const ValueInfo> infos) {
  bool any = false;
  forEachPart(info.name, value, [&](const std::string& name, const IValue& part) {
    if (!part.isTensor() || !part.tensorImpl()) return;
    const ContainedInput found = findPart(infos, name);
    if (!found.type || !sizedType(found.type)) return;
    any = true;
    const bool isSaid = std::ranges::any_of(spec.shapes, [&](const InputRange& r) { return r.name == name; });
    if (!isSaid) spec.shapes.push_back(rangeOf(name, part.toTensor()));
  });
  return any;
}

}  // namespace

void addSizes(PartitionSpec& spec, std::span<const ValueInfo> infos, std::span<const IValue> values) {
  for (size_t i = 0; i < std::min(infos.size(), values.size()); ++i) addSizesOf(spec, infos[i], values[i], infos);
}

bool addSizesOfInputs(PartitionSpec& spec, const Options& options, const Module& module, Session& session) {
  Result<std::vector<std::string>> texts = givenInputs(options.run, session);
  if (!texts || texts->empty()) return texts.ok();
  const Graph* entry = module.graph(spec.lowering.method);
  if (!entry) return true;
  const std::vector<ValueInfo> inputs = inputsOf(*entry);
  const ExportedInputs exported = module.exportedInputs(*entry);
  *texts = ofInputs(std::move(*texts), inputs, exported);
  InputReader reader(inputs, session);
  reader.setFiles(options.run.inputFiles);
  reader.setConstants(exported.constants, "the program was exported");
  Result<std::vector<std::optional<IValue>>> values = reader.readGiven(*texts);
  if (!values) return false;
  std::vector<ValueInfo> infos;
  std::vector<IValue> given;
  const std::map<std::string, IValue> defaults = module.defaults(spec.lowering.method);
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::optional<IValue>& value = (*values)[i];
    const auto known = defaults.find(inputs[i].name);
    if (value && !value->isNone()) {
      infos.push_back(inputs[i]);
      given.push_back(std::move(*value));
    } else if (inputs[i].type->is(TypeKind::Optional) && (value || known == defaults.end() || known->second.isNone())) {
      spec.lowering.arguments.emplace(boundInput(inputs[i].name), IValue());  // as a run gives it
    }
  }
  Diagnostics unfit;
  if (!checkInputRanges(spec.shapes, infos, given, unfit))
    throw UsageError{unfit.list().front().message, {"--shape says others than --input"}};
  for (size_t i = 0; i < given.size(); ++i)
    if (!addSizesOf(spec, infos[i], given[i], inputs))
      session.note(fmt::format("%{} has no sizes that could be taken; --bind {}=VALUE gives it its value",
                               infos[i].name, infos[i].name));
  return true;
}

namespace {

// Random elements of the most sizes of a range; `seed` tells them from those of other ranges.
std::string randomText(const InputRange& range, TypePtr type, size_t seed) {
  const InputRange r = withoutExpressions(range);
  DType dtype = r.dtype == DType::Undefined && type ? type->tensor().dtype : r.dtype;
  if (dtype == DType::Undefined) dtype = DType::Float32;
  return fmt::format("{}:{}:{}seed={})", r.most.empty() ? "scalar" : fmt::format("{}", fmt::join(r.most, "x")),
                     shortName(dtype), isIntegral(dtype, true) ? "randint(0,2," : "randn(", seed);
}

// Containers of such tensors. Nothing is made where a part is not said, and has no sizes of its own.
class ContainerTexts {
 public:
  ContainerTexts(std::span<const InputRange> ranges, std::span<const ValueInfo> inputs) {
    for (size_t i = 0; i < ranges.size(); ++i) {
      const ContainedInput part = findPart(inputs, ranges[i].name);
      if (part.type) texts_.emplace(ranges[i].name, randomText(ranges[i], sizedType(part.type), i));
    }
  }

  std::optional<std::string> of(const std::string& name, TypePtr type) {
    if (auto found = texts_.find(name); found != texts_.end()) return found->second;
    if (type->is(TypeKind::Optional)) type = type->element();
    if (type->isTensor()) return tscompile::randomText(type, 0);
    if (type->is(TypeKind::List)) return ofList(name, type->element());
    if (type->is(TypeKind::Dict)) return ofDict(name, type->element(1));
    if (!type->is(TypeKind::Tuple)) return std::nullopt;
    std::vector<std::string> items;
    for (size_t i = 0; i < type->elements().size(); ++i) {
      std::optional<std::string> item = of(fmt::format("{}.{}", name, i), type->elements()[i]);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    }
    return fmt::format("({}{})", fmt::join(items, ", "), items.size() == 1 ? "," : "");
  }

 private:
  // What follows the name in the names that are said, each once.
  std::set<std::string> stepsOf(const std::string& name, bool isWhole) const {
    std::set<std::string> steps;
    for (const auto& [said, text] : texts_)
      if (said.starts_with(name + ".")) {
        const std::string rest = said.substr(name.size() + 1);
        steps.insert(isWhole ? rest : rest.substr(0, rest.find('.')));
      }
    return steps;
  }

  std::optional<std::string> ofList(const std::string& name, TypePtr element) {
    size_t count = 0;
    for (const std::string& step : stepsOf(name, false)) count = std::max<size_t>(count, std::stoul(step) + 1);
    if (count == 0) return std::nullopt;
    std::vector<std::string> items;
    for (size_t i = 0; i < count; ++i) {
      std::optional<std::string> item = of(fmt::format("{}.{}", name, i), element);
      if (!item) return std::nullopt;
      items.push_back(std::move(*item));
    }
    return fmt::format("[{}]", fmt::join(items, ", "));
  }

  std::optional<std::string> ofDict(const std::string& name, TypePtr element) {
    std::vector<std::string> items;
    for (const std::string& key : stepsOf(name, sizedType(element) != nullptr)) {
      std::optional<std::string> item = of(name + "." + key, element);
      if (!item) return std::nullopt;
      items.push_back(jsonQuote(key) + ": " + *item);
    }
    return items.empty() ? std::nullopt : std::optional(fmt::format("{{{}}}", fmt::join(items, ", ")));
  }

  std::map<std::string, std::string> texts_;
};

}  // namespace

std::vector<std::string> inputTexts(std::vector<std::string> texts, const PartitionSpec& spec,
                                    std::span<const ValueInfo> inputs) {
  std::vector<InputRange> shapes = spec.usualShapes;
  shapes.insert(shapes.end(), spec.shapes.begin(), spec.shapes.end());
  ContainerTexts containers(shapes, inputs);
  std::set<size_t> given;
  for (const std::string& t : texts)
    given.insert(inputs.size() == 1 ? 0 : findInput(inputs, std::string_view(t).substr(0, t.find('='))));
  for (const InputRange& r : shapes) {
    const ContainedInput part = findPart(inputs, r.name);
    if (part.input == kNoInput || !given.insert(part.input).second) continue;
    const std::string& name = inputs[part.input].name;
    if (std::optional<std::string> text = containers.of(name, inputs[part.input].type))
      texts.push_back(name + "=" + *text);
  }
  return texts;
}

}  // namespace tscompile
