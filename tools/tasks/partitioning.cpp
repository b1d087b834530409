#include "tools/tasks/partitioning.h"

#include "api/extensions.h"
#include "api/symbolic_ranges.h"
#include "ir/analysis/verifier.h"
#include "ir/support/text.h"
#include "passes/catalog.h"
#include "runtime/engine/network/tactics.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/rewrite_names.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tscompile {
namespace {

void checkBounds(const InputRange& range) {
  for (size_t d = 0; d < range.most.size(); ++d)
    if (boundsOf(range, d).most == INT64_MAX)
      throw UsageError{"--shape of " + range.name + " does not say how large " +
                           SizeExpression::ofSize(range.most[d]).text() + " may be",
                       {"another --shape does, such as N=1..8"}};
}

}  // namespace

size_t inputOf(std::span<const ValueInfo> inputs, const std::string& name) {
  if (const size_t found = findInput(inputs, name); found != kNoInput) return found;
  InputFault fault = noSuchInput(inputs, name);
  throw UsageError{std::move(fault.message), std::move(fault.notes)};
}

void checkShapes(PartitionSpec& spec, const Graph& graph) {
  const std::vector<ValueInfo> inputs = inputsOf(graph);
  if (std::optional<InputFault> fault = nameInputRanges(spec.shapes, spec.usualShapes, inputs)) {
    if (fault->noTensor != kNoInput) fault->notes.push_back("give it with " + exampleOf(inputs[fault->noTensor]));
    throw UsageError{std::move(fault->message), std::move(fault->notes)};
  }
  for (const InputRange& r : spec.shapes) checkBounds(r);
}

CompileSpec compileSpecOf(const PartitionCommand& command, Session& session) {
  CompileSpec spec = command.spec;
  if (!spec.engine.tactics && !command.timingCache.empty()) spec.engine.tactics = std::make_shared<TacticCache>();
  spec.lowering.limits = session.common.limits;
  if (!session.common.rules.empty())
    spec.lowering.settings.applied = [&session](const std::string& name) { session.applied.insert(name); };
  return spec;
}

Result<Module> loadForPartition(const Options& options, CompileSpec& spec, Session& session) {
  const PartitionCommand& command = options.partition;
  checkRewriteNames(session.extensions ? session.extensions->lowering() : loweringDatabase(), spec.lowering.query);
  Result<Module> module = session.loadModule(options.arguments[0], command.weights);
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
    if (isSaid || !values[i].isTensor() || !values[i].tensorImpl() || !sizedType(infos[i].type)) continue;
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
    const TypePtr type = own == kNoInput ? nullptr : sizedType(inputs[own].type);
    DType dtype = r.dtype == DType::Undefined && type ? type->tensor().dtype : r.dtype;
    if (dtype == DType::Undefined) dtype = DType::Float32;
    texts.push_back(fmt::format("{}{}:{}:{}seed={})", start,
                                r.most.empty() ? "scalar" : fmt::format("{}", fmt::join(r.most, "x")), shortName(dtype),
                                isIntegral(dtype, true) ? "randint(0,2," : "randn(", i));
  }
  return texts;
}

}  // namespace tscompile
