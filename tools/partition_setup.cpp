#include "tools/partition_setup.h"

#include "ir/support/text.h"
#include "ir/verifier.h"

#include <algorithm>

namespace tscompile {
namespace {

InputRange rangeOf(std::string_view option, const std::string& text) {
  std::optional<InputRange> range = parseInputRange(text);
  if (range) return std::move(*range);
  throw UsageError{std::string(option) + " takes NAME=SIZES such as x=1..8x3x224x224 or x=2x10:i64, not '" +
                   abbreviate(text, 80) + "'"};
}

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
      inside = r.least[d] <= usual.most[d] && usual.most[d] <= r.most[d];
    if (!inside) throw UsageError{"--opt-shape of " + r.name + " is outside of its --shape"};
  }
}

void checkShapes(const PartitionSpec& spec, const Graph& graph) {
  for (const InputRange& r : spec.shapes) checkShapeName(r, graph);
  for (const InputRange& r : spec.usualShapes) {
    checkShapeName(r, graph);
    checkUsualShape(r, spec.shapes);
  }
}

}  // namespace

PartitionOptions partitionOptionsOf(const PartitionCommand& command) {
  PartitionOptions options;
  // Whoever wants all nodes in engines does not mind small ones.
  options.minBlockSize = command.minBlockSize.value_or(command.requireFull ? 1 : options.minBlockSize);
  options.strategy = command.strategy;
  options.markedOperators = command.operators;
  return options;
}

PartitionSpec partitionSpecOf(const PartitionCommand& command, Session& session) {
  PartitionSpec spec;
  spec.operators = command.operators;
  spec.modules = command.modules;
  spec.nodes = command.nodes;
  spec.withoutConverters = command.withoutConverters;
  spec.lower = command.lower;
  spec.lowering.method = command.method;
  spec.lowering.limits = session.common.limits;
  for (const std::string& text : command.shapes) spec.shapes.push_back(rangeOf("--shape", text));
  for (const std::string& text : command.usualShapes) spec.usualShapes.push_back(rangeOf("--opt-shape", text));
  spec.options = partitionOptionsOf(command);
  return spec;
}

CompileSpec compileSpecOf(const PartitionCommand& command, Session& session) {
  CompileSpec spec;
  spec.partition = partitionSpecOf(command, session);
  spec.enabledPrecisions.insert(spec.enabledPrecisions.end(), command.precisions.begin(), command.precisions.end());
  spec.minBlockSize = command.minBlockSize;
  if (command.requireFull) spec.requiredCoverage = *command.requireFull;
  return spec;
}

std::optional<Module> loadForPartition(const Options& options, Session& session) {
  Result<SourcePtr> source = session.readGraphText(options.arguments[0]);
  if (!source) return std::nullopt;
  LoadOptions load;
  load.weights = options.partition.weights;
  load.limits = session.common.limits;
  if (!session.loadExtensions(options.partition.libraries, load)) return std::nullopt;
  Result<Module> module = Module::fromSource(*source, load, session.diagnostics);
  if (!module) return std::nullopt;
  return std::move(*module);
}

bool checkEntry(const PartitionSpec& spec, const Module& module, Session& session) {
  const Graph* entry = module.graph(spec.lowering.method);
  if (!entry) return true;
  if (!verify(*entry, module.registry(), session.diagnostics)) return false;
  checkShapes(spec, *entry);
  return true;
}

}  // namespace tscompile
