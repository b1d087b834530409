#include "api/binding/reports.h"

#include "ir/graph/node_text.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "runtime/call/run_observer.h"
#include "runtime/engine/network/network.h"

#include <fmt/core.h>

#include <chrono>
#include <map>
#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {
namespace {

// Those that are asked for; an input of a graph has none, and is added to `inputs`.
std::optional<std::unordered_set<const Node*>> nodesOf(const Graph& graph, std::string_view asked,
                                                       std::vector<std::string>& inputs, Diagnostics& diagnostics) {
  std::unordered_set<const Node*> out;
  const bool isValue = asked.starts_with('%');
  const std::string_view name = asked.substr(isValue);
  NearestName nearest(name);
  if (const Value* v = isValue ? graph.find(name) : nullptr) {
    if (v->node())
      out.insert(v->node());
    else
      inputs.emplace_back(name);
    return out;
  }
  forEachNode(graph, [&](const Node* n) {
    if (!isValue && n->kind().text() == asked) out.insert(n);
    if (!isValue) nearest.consider(n->kind().text());
    // Numbers of values without a name change when a graph is lowered, so those that are printed count.
    for (const Value* v : n->outputs())
      if (isValue && out.empty() && !v->isNamed() && v->name() == name) out.insert(n);
  });
  if (!out.empty()) return out;
  if (isValue) graph.forEachName([&](std::string_view n) { nearest.consider(n); });
  Diagnostic& d = diagnostics.error(
      (isValue ? "the graph has no value '" : "no node of the graph is '") + abbreviate(asked, 80) + "'",
      ErrorKind::Input);
  if (nearest.found()) d.note(fmt::format("did you mean '{}{}'?", isValue ? "%" : "", nearest.name()));
  return std::nullopt;
}

using Clock = RunObserver::Clock;
double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

struct Totals {
  double time = 0, bytes = 0;  // of all runs; microseconds
  size_t calls = 0;
};

// Sums up what engines and the interpreter do.
class RunProfile : public RunObserver {
 public:
  void onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) override {
    Totals& l = engineOf(network).layers[layer];
    l.time += microseconds(end - begin);
    ++l.calls;
  }
  void onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) override {
    Totals& e = engineOf(network).whole;
    e.time += microseconds(end - begin);
    ++e.calls;
  }
  void onNode(const Node* node, size_t bytes, Clock::time_point begin, Clock::time_point end) override {
    const double us = microseconds(end - begin);
    const bool isStep = !node || node->kind() == sym::Constant || node->isReturn();
    Totals& t = isStep ? steps : node->kind() == sym::Engine ? borders : nodeOf(node);
    t.time += us;
    t.bytes += static_cast<double>(bytes);
    ++t.calls;
  }

  struct Engine {
    const Network* network;
    Totals whole;
    std::vector<Totals> layers;
  };
  std::vector<Engine> engines;
  std::vector<std::pair<const Node*, Totals>> nodes;
  Totals borders, steps;  // calls of engines with all that they do; what the interpreter does for no node

 private:
  Engine& engineOf(const Network& network) {
    auto [at, isNew] = engineIndex_.try_emplace(&network, engines.size());
    if (isNew) engines.push_back({&network, {}, std::vector<Totals>(network.layers.size())});
    return engines[at->second];
  }
  Totals& nodeOf(const Node* node) {
    auto [at, isNew] = nodeIndex_.try_emplace(node, nodes.size());
    if (isNew) nodes.emplace_back(node, Totals());
    return nodes[at->second].second;
  }

  std::unordered_map<const Network*, size_t> engineIndex_;
  std::unordered_map<const Node*, size_t> nodeIndex_;
};

std::string shapesOf(const Network& network, std::span<const TensorId> ids) {
  return join(ids, " ", [&](TensorId id) { return dimsText(network[id].sizes); });
}
double bytesOf(const Network& network, std::span<const TensorId> ids) {
  double out = 0;
  for (TensorId id : ids)
    out += static_cast<double>(network[id].numel) * static_cast<double>(itemSize(network[id].dtype));
  return out;
}

class ProfileJson {
 public:
  ProfileJson(const RunProfile& profile, double time, size_t runs) : p_(profile), time_(time), runs_(runs) {}

  std::string text() {
    std::ostringstream out;
    {
      JsonWriter json(out);
      write(json);
      json.finish();
    }
    return out.str();
  }

 private:
  double perRun(double sum) const { return sum / static_cast<double>(runs_); }

  void write(JsonWriter& json) {
    double native = 0, kernels = 0, interpreter = p_.steps.time;
    for (const RunProfile::Engine& e : p_.engines)
      for (size_t i = 0; i < e.layers.size(); ++i)
        (e.network->layers[i]->isNative() ? native : kernels) += e.layers[i].time;
    for (const auto& [node, t] : p_.nodes) interpreter += t.time;
    const FieldWriter field(json);
    json.beginObject();
    field("schema", "tscompile.profile/1");
    field("runs", runs_);
    field("run_us", perRun(time_));
    field("native_share", native / time_);
    field("kernel_share", kernels / time_);
    field("interpreter_share", interpreter / time_);
    writeEngines(json);
    writeNodes(json);
    json.newLine();
    json.key("borders");
    json.beginObject();
    field("us", perRun(p_.borders.time - native - kernels));
    field("bytes", perRun(p_.borders.bytes));
    field("calls", p_.borders.calls);
    json.endObject();
    field("steps_us", perRun(p_.steps.time));
    field("rest_us", perRun(time_ - p_.borders.time - interpreter));
    json.endObject();
  }

  void writeEngines(JsonWriter& json) {
    const FieldWriter field(json);
    json.key("engines");
    json.beginArray();
    for (const RunProfile::Engine& e : p_.engines) {
      json.newLine();
      json.beginObject();
      field("us", perRun(e.whole.time));
      field("calls", e.whole.calls);
      json.key("layers");
      json.beginArray();
      for (size_t i = 0; i < e.layers.size(); ++i) writeLayer(json, *e.network, i, e.layers[i]);
      json.endArray();
      json.endObject();
    }
    json.endArray();
  }

  void writeLayer(JsonWriter& json, const Network& network, size_t index, const Totals& t) {
    const auto& layer = *network.layers[index];
    const FieldWriter field(json);
    json.newLine();
    json.beginObject();
    field("node", layer.node ? shortName(layer.node) : "");
    field("layer", std::string(layer.name()));
    field("native", layer.isNative());
    if (std::string why(layer.whyKernel()); !why.empty()) field("why_kernel", why);
    field("shapes", shapesOf(network, layer.inputs) + " -> " + shapesOf(network, layer.outputs));
    field("us", perRun(t.time));
    field("share", t.time / time_);
    field("flops", static_cast<double>(layer.flops()));
    field("bytes", bytesOf(network, layer.inputs) + bytesOf(network, layer.outputs));
    field("calls", t.calls);
    json.endObject();
  }

  void writeNodes(JsonWriter& json) {
    const FieldWriter field(json);
    json.newLine();
    json.key("nodes");
    json.beginArray();
    for (const auto& [node, t] : p_.nodes) {
      json.newLine();
      json.beginObject();
      field("node", shortName(node));
      field("operator", node->kind().text());
      field("us", perRun(t.time));
      field("share", t.time / time_);
      field("bytes", t.bytes / static_cast<double>(t.calls));
      field("calls", t.calls);
      json.endObject();
    }
    json.endArray();
  }

  const RunProfile& p_;
  double time_;
  size_t runs_;
};

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
  RunProfile profile;
  ObserverScope observing(profile);
  const Clock::time_point start = Clock::now();
  double time = 0;
  size_t done = 0;
  while (runs ? done < runs : done == 0 || Clock::now() - start < std::chrono::seconds(1)) {
    const Clock::time_point begin = Clock::now();
    if (!method.run(inputs, diagnostics, options)) return Failed{};
    time += microseconds(Clock::now() - begin);
    ++done;
  }
  return ProfileJson(profile, time, done).text();
}

bool addInputRange(std::string_view text, CompileSpec& spec) {
  const bool isNamed = text.find('=') != std::string_view::npos;
  std::optional<InputRange> range = parseInputRange(isNamed ? std::string(text) : "x=" + std::string(text));
  if (!range) return false;
  if (!isNamed) range->name.clear();
  spec.shapes.push_back(std::move(*range));
  return true;
}

}  // namespace tscompile
