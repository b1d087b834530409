#include "api/binding/reports.h"

#include "api/profile/profile_json.h"
#include "ir/graph/written_operator.h"
#include "ir/support/text.h"
#include "partition/report.h"

#include <fmt/core.h>

#include <chrono>
#include <sstream>
#include <unordered_set>

namespace tscompile {
namespace {

// Those that are asked for; an input of a graph has none, and is added to `inputs`.
std::optional<std::unordered_set<const Node*>> nodesOf(const Graph& graph, std::string_view asked,
                                                       std::vector<std::string>& inputs, Diagnostics& diagnostics) {
  std::unordered_set<const Node*> out;
  const bool isValue = asked.starts_with('%');
  const std::string_view name = asked.substr(isValue);
  if (const Value* v = isValue ? graph.find(name) : nullptr) {
    if (v->node())
      out.insert(v->node());
    else
      inputs.emplace_back(name);
    return out;
  }
  forEachNode(graph, [&](const Node* n) {
    const std::string_view kind = n->kind().text();
    if (!isValue && (kind == asked || writtenOperator(*n) == asked)) out.insert(n);
    // Numbers of values without a name change when a graph is lowered, so those that are printed count.
    for (const Value* v : n->outputs())
      if (isValue && out.empty() && !v->isNamed() && v->name() == name) out.insert(n);
  });
  if (!out.empty()) return out;
  NearestName value(name);
  if (isValue) graph.forEachName([&](std::string_view n) { value.consider(n); });
  const std::string nearest = !isValue ? nearestOperator(graph, asked) : value.found() ? "%" + value.name() : "";
  Diagnostic& d = diagnostics.error(
      (isValue ? "the graph has no value '" : "no node of the graph is '") + abbreviate(asked, 80) + "'",
      ErrorKind::Input);
  if (!nearest.empty())
    d.note(fmt::format("did you mean '{}'?", nearest));
  else
    d.note(isValue ? "lowering removes and renames values"
                   : "it has " + someOperators(graph) + "; lowering makes other operators of some");
  return std::nullopt;
}

}  // namespace

Result<std::string> partitionJson(const Module& module, const CompileSpec& spec, Diagnostics& diagnostics) {
  Result<CompiledPartition> cut = partition(module, spec, diagnostics);
  if (!cut) return Failed{};
  std::ostringstream out;
  writePartitionJson(*cut->prepared.graph, *cut->prepared.registry, cut->partition, out);
  return out.str();
}

Result<std::string> explainJson(const Module& module, const CompileSpec& spec, std::string_view node,
                                Diagnostics& diagnostics) {
  Result<CompiledPartition> cut = partition(module, spec, diagnostics);
  if (!cut) return Failed{};
  const Graph& graph = *cut->prepared.graph;
  std::vector<std::string> inputs;
  std::optional<std::unordered_set<const Node*>> nodes = nodesOf(graph, node, inputs, diagnostics);
  if (!nodes) return Failed{};
  std::ostringstream out;
  writeNodesJson(graph, *cut->prepared.registry, cut->partition, *nodes, inputs, out);
  return out.str();
}

Result<std::string> profileJson(const Method& method, std::span<const IValue> inputs, size_t runs,
                                const RunOptions& options, Diagnostics& diagnostics) {
  constexpr int kUncounted = 3;
  for (int i = 0; i < kUncounted; ++i)
    if (!method.run(inputs, diagnostics, options)) return Failed{};
  RunProfile profile(method.registry());
  profile.leavesOutDisturbed = runs == 0;
  ObserverScope observing(profile);
  const RunProfile::Clock::time_point start = RunProfile::Clock::now();
  while (runs ? profile.runs < runs : profile.runs == 0 || RunProfile::Clock::now() - start < std::chrono::seconds(1)) {
    profile.startRun();
    if (!method.run(inputs, diagnostics, options)) return Failed{};
    profile.endRun();
  }
  std::ostringstream out;
  writeJson(out, ProfileJson{profile});
  return out.str();
}

bool addInputRange(std::string_view text, CompileSpec& spec) {
  Diagnostics unsaid;  // callers say it in their words
  return spec.addInput(text, unsaid);
}

}  // namespace tscompile
