#include "tools/tasks/partitioning.h"

#include "api/symbolic_ranges.h"
#include "ir/analysis/verifier.h"
#include "ir/support/text.h"
#include "runtime/engine/network/tactics.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/inputs.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tscompile {
namespace {

void checkShapeName(InputRange& range, std::span<const ValueInfo> inputs) {
  const size_t found = inputOf(inputs, range.name);
  range.name = inputs[found].name;
  if (!inputs[found].type->isTensor())
    throw UsageError{"input %" + range.name + " is " + typeText(inputs[found].type) + " and has no shape",
                     {"give it with " + exampleOf(inputs[found])}};
  for (size_t d = 0; d < range.most.size(); ++d)
    if (boundsOf(range, d).most == INT64_MAX)
      throw UsageError{"--shape of " + range.name + " does not say how large " +
                           SizeExpression::ofSize(range.most[d]).text() + " may be",
                       {"another --shape does, such as N=1..8"}};
}

// One size for each dimension, in the range that --shape gives.
void checkUsualShape(const InputRange& usual, const std::vector<InputRange>& shapes) {
  if (usual.least != usual.most) throw UsageError{"--opt-shape takes one size for each dimension of " + usual.name};
  for (const InputRange& r : shapes) {
    if (r.name != usual.name) continue;
    bool inside = r.most.size() == usual.most.size();
    for (size_t d = 0; inside && d < r.most.size(); ++d)
      inside = boundsOf(r, d).least <= usual.most[d] && usual.most[d] <= boundsOf(r, d).most;
    if (!inside) throw UsageError{"--opt-shape of " + r.name + " is outside of its --shape"};
  }
}

}  // namespace

std::vector<ValueInfo> inputsOf(const Graph& graph) {
  std::vector<ValueInfo> inputs;
  for (const Value* v : graph.inputs())
    if (!v->type()->is(TypeKind::Class)) inputs.push_back({v->name(), v->type()});
  return inputs;
}

size_t inputOf(std::span<const ValueInfo> inputs, const std::string& name) {
  if (const size_t found = findInput(inputs, name); found != kNoInput) return found;
  UsageError error{"the graph has no input '" + abbreviate(name, 80) + "'"};
  NearestName nearest(!name.empty() && name[0] == '%' ? name.substr(1) : name);
  for (const ValueInfo& v : inputs) {
    nearest.consider(v.name);
    nearest.consider(v.name.substr(0, v.name.rfind('.')));  // as the source has it
  }
  if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
  error.notes.push_back(inputs.empty() ? "it takes no inputs"
                                       : "it takes " + join(inputs, ", ", [](const ValueInfo& v) {
                                           return "%" + v.name + " : " + typeText(withoutRefinement(v.type));
                                         }));
  throw error;
}

size_t findInput(std::span<const ValueInfo> inputs, std::string_view name) {
  if (!name.empty() && name[0] == '%') name.remove_prefix(1);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (inputs[i].name == name) return i;
  // Compilers number the names of the source.
  auto isNumbered = [&](const ValueInfo& v) {
    const size_t dot = v.name.rfind('.');
    return dot != std::string::npos && dot + 1 < v.name.size() && std::string_view(v.name).substr(0, dot) == name &&
           v.name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  };
  if (std::count_if(inputs.begin(), inputs.end(), isNumbered) == 1)
    return static_cast<size_t>(std::find_if(inputs.begin(), inputs.end(), isNumbered) - inputs.begin());
  if (name.empty() || name.size() >= 10 || name.find_first_not_of("0123456789") != std::string_view::npos)
    return kNoInput;
  const size_t at = std::stoul(std::string(name));
  return at < inputs.size() ? at : kNoInput;
}

void checkShapes(PartitionSpec& spec, const Graph& graph) {
  const std::vector<ValueInfo> inputs = inputsOf(graph);
  for (InputRange& r : spec.shapes) checkShapeName(r, inputs);
  for (InputRange& r : spec.usualShapes) {
    checkShapeName(r, inputs);
    checkUsualShape(r, spec.shapes);
  }
}

CompileSpec compileSpecOf(const PartitionCommand& command, const Limits& limits) {
  CompileSpec spec = command.spec;
  if (!spec.engine.tactics && !command.timingCache.empty()) spec.engine.tactics = std::make_shared<TacticCache>();
  spec.lowering.limits = limits;
  return spec;
}

Result<Module> loadForPartition(const Options& options, CompileSpec& spec, Session& session) {
  const PartitionCommand& command = options.partition;
  Result<Module> module = session.loadModule(options.arguments[0], command.weights, command.libraries);
  if (!module) return Failed{};
  const Graph* entry = module->graph(spec.lowering.method);
  if (entry && !verify(*entry, module->registry(), session.diagnostics)) return Failed{};
  if (entry) checkShapes(spec, *entry);
  if (!bindInputs(spec.lowering.arguments, options.own.of<BoundInputs>().texts, entry, session)) return Failed{};
  return module;
}

void addSizes(PartitionSpec& spec, std::span<const ValueInfo> infos, std::span<const IValue> values) {
  for (size_t i = 0; i < std::min(infos.size(), values.size()); ++i) {
    const bool isSaid = std::any_of(spec.shapes.begin(), spec.shapes.end(),
                                    [&](const InputRange& r) { return r.name == infos[i].name; });
    if (isSaid || !values[i].isTensor() || !infos[i].type->isTensor()) continue;
    const Tensor& t = values[i].toTensor();
    const Dims sizes(t.sizes().begin(), t.sizes().end());
    spec.shapes.push_back({infos[i].name, t.dtype(), sizes, sizes});
  }
}

std::vector<std::string> inputTexts(std::vector<std::string> texts, const PartitionSpec& spec,
                                    std::span<const ValueInfo> inputs) {
  std::vector<InputRange> shapes = spec.usualShapes;
  shapes.insert(shapes.end(), spec.shapes.begin(), spec.shapes.end());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const InputRange r = withoutExpressions(shapes[i]);
    std::string start = r.name + "=";
    const size_t own = findInput(inputs, r.name);
    bool given = std::any_of(texts.begin(), texts.end(), [&](const std::string& t) {
      return inputs.size() == 1 || findInput(inputs, std::string_view(t).substr(0, t.find('='))) == own;
    });
    if (given) continue;
    const TypePtr type = own == kNoInput ? nullptr : inputs[own].type;
    DType dtype = r.dtype == DType::Undefined && type && type->isTensor() ? type->tensor().dtype : r.dtype;
    if (dtype == DType::Undefined) dtype = DType::Float32;
    texts.push_back(fmt::format("{}{}:{}:{}seed={})", start,
                                r.most.empty() ? "scalar" : fmt::format("{}", fmt::join(r.most, "x")), shortName(dtype),
                                isIntegral(dtype, true) ? "randint(0,2," : "randn(", i));
  }
  return texts;
}

}  // namespace tscompile
