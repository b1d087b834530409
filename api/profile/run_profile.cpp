#include "api/profile/run_profile.h"

#include "ir/graph/module_path.h"
#include "ir/graph/node_text.h"
#include "ir/graph/written_operator.h"
#include "ir/operators/op_registry.h"
#include "ir/support/text.h"
#include "runtime/call/run_context.h"
#include "runtime/engine/network/memory_plan.h"
#include "runtime/engine/network/network.h"

#include <algorithm>
#include <numeric>

namespace tscompile {
namespace {

double microseconds(RunObserver::Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

// `[2, 3] [2]`, of many that are alike `100 x [2, 3]`.
std::string shapeText(const Network& network, std::span<const TensorId> ids) {
  constexpr ptrdiff_t kMany = 4;
  std::vector<std::string> words;
  for (auto first = ids.begin(); first != ids.end();) {
    const std::string sizes = dimsText(network[*first].sizes);
    const auto other =
        std::find_if(first, ids.end(), [&](TensorId id) { return dimsText(network[id].sizes) != sizes; });
    const ptrdiff_t count = other - first;
    if (count < kMany)
      words.insert(words.end(), static_cast<size_t>(count), sizes);
    else
      words.push_back(fmt::format("{} x {}", count, sizes));
    first = other;
  }
  return join(words, " ", [](const std::string& w) { return w; });
}

double bytesOf(const Network& network, std::span<const TensorId> ids) {
  double out = 0;
  for (TensorId id : ids)
    out += static_cast<double>(network[id].numel) * static_cast<double>(itemSize(network[id].dtype));
  return out;
}

// What a layer reads and writes. Of a tensor that it takes some elements of, or that it writes parts of where it lies
// (caches), that is about as much as it gives.
double movedBytes(const Network& network, const Layer& layer, const OpRegistry& registry) {
  const double given = bytesOf(network, layer.outputs);
  const Operator* op = layer.node ? registry.resolve(*layer.node) : nullptr;
  const bool takesSome = op && op->has(Trait::MovesElements);
  double out = given;
  for (const TensorId& id : layer.inputs) {
    const NetBuffer& buffer = network.bufferOf(id);
    const bool isCache =
        buffer.kind == NetBuffer::Kind::Input && std::ranges::count(network.writtenInputs, buffer.input) > 0;
    const double bytes = bytesOf(network, {&id, 1});
    out += takesSome || isCache ? std::min(bytes, given) : bytes;
  }
  return out;
}

// For each layer, the bytes of inner buffers between the first layer that touches them and the last one.
std::vector<size_t> liveBytes(const Network& network) {
  constexpr size_t kNever = SIZE_MAX;
  const size_t count = network.layers.size();
  std::vector<size_t> first(network.buffers.size(), kNever), last(network.buffers.size(), 0);
  for (size_t i = 0; i < count; ++i)
    for (const auto* ids : {&network.layers[i]->inputs, &network.layers[i]->outputs})
      for (TensorId id : *ids) {
        const BufferId b = network[id].buffer;
        first[b] = std::min(first[b], i);
        last[b] = i;
      }
  std::vector<int64_t> change(count + 1);
  for (size_t b = 0; b < network.buffers.size(); ++b) {
    const NetBuffer& buffer = network.buffers[b];
    if (buffer.kind != NetBuffer::Kind::Inner || buffer.escapes || first[b] == kNever) continue;
    change[first[b]] += static_cast<int64_t>(buffer.bytes);
    change[last[b] + 1] -= static_cast<int64_t>(buffer.bytes);
  }
  std::vector<size_t> out(count);
  int64_t now = 0;
  for (size_t i = 0; i < count; ++i) out[i] = static_cast<size_t>(now += change[i]) + network.layers[i]->workspace();
  return out;
}

}  // namespace

double RunProfile::Engine::layerTime() const {
  return std::accumulate(layers.begin(), layers.end(), 0.0, [](double sum, const Layer& l) { return sum + l.time; });
}

void RunProfile::onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) {
  const size_t index = indexOf(network);
  Engine& engine = engines[index];
  Layer& l = engine.layers[layer];
  l.now.time += microseconds(end - begin);
  ++l.now.calls;
  const size_t used = RunContext::current().budget().used();
  keep({index, layer, begin, end, used - std::min(used, engine.arena) + l.live});
}

void RunProfile::onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) {
  const size_t engine = indexOf(network);
  engines[engine].now.time += microseconds(end - begin);
  ++engines[engine].now.calls;
  keep({engine, kWhole, begin, end, RunContext::current().budget().used()});
}

void RunProfile::onNode(const Node* node, size_t bytes, Clock::time_point begin, Clock::time_point end) {
  double us = microseconds(end - begin);
  if (!node || node->kind() == sym::Constant || node->isReturn()) {
    stepsNow_.time += us;
  } else if (node->kind() == sym::Engine) {
    calls.now.time += us;
    calls.now.bytes += static_cast<double>(bytes);
    ++calls.now.calls;
  } else {
    auto [it, isNew] = nodeIndex_.try_emplace(node, nodes.size());
    if (isNew) nodes.push_back({std::string(node->kind().text()), shortName(node), node});
    Interpreted& n = nodes[it->second];
    n.now.time += us;
    n.now.bytes += static_cast<double>(bytes);
    ++n.now.calls;
    keep({kNone, it->second, begin, end, RunContext::current().budget().used()});
  }
}

void RunProfile::onChunk(int thread, Clock::time_point begin, Clock::time_point end) {
  constexpr std::chrono::microseconds kPause(1);
  const auto index = static_cast<size_t>(thread);
  if (index >= now_.work.size()) return;
  std::vector<Work>& all = now_.work[index];
  if (!all.empty() && begin - all.back().end < kPause)
    all.back().end = end;
  else if (all.size() < kMostEvents)
    all.push_back({begin, end});
}

template <class Visit>
void RunProfile::forEachPart(Visit visit) {
  double none = 0;
  size_t uncounted = 0;
  for (Engine& e : engines) {
    visit(e.time, none, e.calls, e.now);
    for (Layer& l : e.layers) visit(l.time, none, l.calls, l.now);
  }
  for (Interpreted& n : nodes) visit(n.time, n.bytes, n.calls, n.now);
  visit(calls.time, calls.bytes, calls.calls, calls.now);
  visit(steps, none, uncounted, stepsNow_);
}

void RunProfile::startRun() {
  forEachPart([](double&, double&, size_t&, Addition& now) { now = {}; });
  now_.events.clear();
  for (std::vector<Work>& w : now_.work) w.clear();
  now_.dropped = 0;
  now_.begin = Clock::now();
}

void RunProfile::forgetRuns() {
  forEachPart([](double& time, double& bytes, size_t& calls, Addition&) { time = 0, bytes = 0, calls = 0; });
  leftOut += runs;
  time = 0, runs = 0;
}

void RunProfile::endRun() {
  constexpr double kDisturbed = 1.5;
  const double took = microseconds(Clock::now() - now_.begin);
  if (leavesOutDisturbed && runs > 0) {
    if (took > kDisturbed * quickestTime_) {
      ++leftOut;
      return;
    }
    if (kDisturbed * took < quickestTime_) forgetRuns();
  }
  if (runs == 0 || took < quickestTime_) {
    quickestTime_ = took;
    std::swap(quickest, now_);
  }
  forEachPart([](double& time, double& bytes, size_t& calls, const Addition& now) {
    time += now.time, bytes += now.bytes, calls += now.calls;
  });
  time += took;
  ++runs;
}

double RunProfile::inEngines() const {
  return std::accumulate(engines.begin(), engines.end(), 0.0,
                         [](double sum, const Engine& e) { return sum + e.layerTime(); });
}

double RunProfile::timed() const {
  double sum = calls.time + steps;
  for (const Interpreted& n : nodes) sum += n.time;
  return sum;
}

double RunProfile::layerShare(bool native) const {
  double sum = 0;
  for (const Engine& e : engines)
    for (const Layer& l : e.layers)
      if (l.isNative == native) sum += l.time;
  return sum / time;
}

double RunProfile::interpreterShare() const {
  double sum = steps;
  for (const Interpreted& n : nodes) sum += n.time;
  return sum / time;
}

template <class NamesOf>
std::vector<RunProfile::Total> RunProfile::totals(NamesOf namesOf) const {
  std::map<std::string, Total> sums;
  auto add = [&](const Node* source, double us, double flops, double bytes) {
    for (const std::string& name : namesOf(source)) {
      Total& t = sums[name];
      t.time += us, t.flops += flops, t.bytes += bytes;
      ++t.parts;
    }
  };
  for (const Engine& e : engines)
    for (const Layer& l : e.layers)
      add(l.source, l.time, l.flops * static_cast<double>(l.calls), l.bytes * static_cast<double>(l.calls));
  for (const Interpreted& n : nodes) add(n.source, n.time, 0, n.bytes);
  std::vector<Total> out;
  for (auto& [name, total] : sums) {
    total.name = name;
    out.push_back(std::move(total));
  }
  std::stable_sort(out.begin(), out.end(), [](const Total& a, const Total& b) { return a.time > b.time; });
  return out;
}

std::vector<RunProfile::Total> RunProfile::totalsByModule() const {
  return totals([](const Node* node) {
    const std::string path = node ? modulePath(node) : "";
    std::vector<std::string> names;
    for (size_t dot = path.find('.'); dot != std::string::npos; dot = path.find('.', dot + 1))
      names.push_back(path.substr(0, dot));
    names.push_back(path);
    return names;
  });
}

std::vector<RunProfile::Total> RunProfile::totalsByOperator() const {
  return totals(
      [](const Node* node) { return std::vector<std::string>{node ? std::string(writtenOperator(*node)) : ""}; });
}

double RunProfile::since(Clock::time_point at) const { return microseconds(at - quickest.begin); }

void RunProfile::keep(Event event) {
  if (now_.events.size() < kMostEvents)
    now_.events.push_back(event);
  else
    ++now_.dropped;
}

size_t RunProfile::indexOf(const Network& network) {
  if (auto it = index_.find(&network); it != index_.end()) return it->second;
  Engine e;
  e.arena = planMemory(network).peakBytes();
  const std::vector<size_t> live = liveBytes(network);
  for (const auto& l : network.layers) {
    Layer& layer = e.layers.emplace_back();
    layer.name = l->name();
    layer.why = l->whyKernel();
    layer.isNative = l->isNative();
    layer.shapes = shapeText(network, l->inputs) + " -> " + shapeText(network, l->outputs);
    layer.flops = l->flops();
    layer.bytes = movedBytes(network, *l, *registry_);
    layer.source = l->node;
    layer.live = live[e.layers.size() - 1];
    if (l->node) layer.node = shortName(l->node);
  }
  engines.push_back(std::move(e));
  return index_.try_emplace(&network, engines.size() - 1).first->second;
}

}  // namespace tscompile
