#include "tools/tasks/partitioning.h"

#include "api/symbolic_ranges.h"
#include "ir/analysis/verifier.h"
#include "ir/support/text.h"
#include "runtime/engine/network/tactics.h"

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tscompile {
namespace {

void checkShapeName(const InputRange& range, const Graph& graph) {
  auto inputs = graph.inputs();
  auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Value* v) { return v->name() == range.name; });
  if (found == inputs.end()) {
    UsageError error{"the graph has no input '" + abbreviate(range.name, 80) + "'"};
    NearestName nearest(range.name);
    for (const Value* v : inputs) nearest.consider(v->name());
    if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
    throw error;
  }
  for (size_t d = 0; d < range.most.size(); ++d)
    if (boundsOf(range, d).most == INT64_MAX)
      throw UsageError{"--shape of " + range.name + " does not say how large " +
                           SizeExpression::ofSize(range.most[d]).text() + " may be",
                       {"another --shape does, such as N=1..8"}};
  if (!(*found)->type()->isTensor())
    throw UsageError{"input %" + range.name + " is " + typeText((*found)->type()) + " and has no shape"};
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

void checkShapes(const PartitionSpec& spec, const Graph& graph) {
  for (const InputRange& r : spec.shapes) checkShapeName(r, graph);
  for (const InputRange& r : spec.usualShapes) {
    checkShapeName(r, graph);
    checkUsualShape(r, spec.shapes);
  }
}

CompileSpec compileSpecOf(const PartitionCommand& command, const Limits& limits) {
  CompileSpec spec = command.spec;
  if (!spec.engine.tactics && !command.timingCache.empty()) spec.engine.tactics = std::make_shared<TacticCache>();
  spec.lowering.limits = limits;
  return spec;
}

Result<Module> loadForPartition(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  Result<Module> module = session.loadModule(options.arguments[0], command.weights, command.libraries);
  if (!module) return Failed{};
  const Graph* entry = module->graph(command.spec.lowering.method);
  if (entry && !verify(*entry, module->registry(), session.diagnostics)) return Failed{};
  if (entry) checkShapes(command.spec, *entry);
  return module;
}

std::vector<std::string> inputTexts(std::vector<std::string> texts, const PartitionSpec& spec) {
  std::vector<InputRange> shapes = spec.usualShapes;
  shapes.insert(shapes.end(), spec.shapes.begin(), spec.shapes.end());
  for (size_t i = 0; i < shapes.size(); ++i) {
    const InputRange r = withoutExpressions(shapes[i]);
    std::string start = r.name + "=";
    bool given = std::any_of(texts.begin(), texts.end(),
                             [&](const std::string& t) { return startsWith(t, start) || startsWith(t, "%" + start); });
    if (given) continue;
    DType dtype = r.dtype == DType::Undefined ? DType::Float32 : r.dtype;
    texts.push_back(fmt::format("{}{}:{}:{}seed={})", start,
                                r.most.empty() ? "scalar" : fmt::format("{}", fmt::join(r.most, "x")), shortName(dtype),
                                isIntegral(dtype, true) ? "randint(0,2," : "randn(", i));
  }
  return texts;
}

}  // namespace tscompile
