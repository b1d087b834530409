// `tscompile profile`: where the time of a run goes.
#include "ir/support/json_writer.h"
#include "runtime/call/run_observer.h"
#include "runtime/engine/network/network.h"
#include "tools/commands/commands.h"
#include "tools/work/execution.h"
#include "tools/work/inputs.h"
#include "tools/work/plugin_work.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>
#include <unordered_map>

namespace tscompile {
namespace {

using Clock = RunObserver::Clock;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

std::string shapeText(const Network& network, std::span<const TensorId> ids) {
  std::string out;
  for (TensorId id : ids) out += (out.empty() ? "" : " ") + dimsText(network[id].sizes);
  return out;
}

double bytesOf(const Network& network, std::span<const TensorId> ids) {
  double out = 0;
  for (TensorId id : ids)
    out += static_cast<double>(network[id].numel) * static_cast<double>(itemSize(network[id].dtype));
  return out;
}

std::string nameOf(const Node* n) {
  return n->outputCount() ? "%" + n->output(0)->name() : std::string(n->kind().text());
}

// Sums up what engines and the interpreter do, and keeps each event of the latest run.
class Profile : public RunObserver {
 public:
  struct Layer {
    std::string name, why, shapes, node;  // why: a kernel runs though the operator has a converter
    double flops = 0, bytes = 0;          // of one call
    double time = 0;                      // microseconds, of all runs
    size_t calls = 0;
  };
  // A node that the interpreter has run.
  struct Interpreted {
    std::string name, node;
    double bytes = 0, time = 0;  // of all runs
    size_t calls = 0;
  };
  struct Engine {
    std::vector<Layer> layers;
    double time = 0;
    size_t calls = 0;
    double layerTime() const {
      return std::accumulate(layers.begin(), layers.end(), 0.0,
                             [](double sum, const Layer& l) { return sum + l.time; });
    }
  };
  struct Event {
    size_t engine, layer;  // engine: kNone for the interpreter; layer: kWhole for the engine itself
    Clock::time_point begin, end;
  };
  static constexpr size_t kWhole = SIZE_MAX, kNone = SIZE_MAX;
  static constexpr size_t kMostEvents = 1'000'000;

  void onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) override {
    size_t engine = indexOf(network);
    Layer& l = engines[engine].layers[layer];
    l.time += microseconds(end - begin);
    ++l.calls;
    keep({engine, layer, begin, end});
  }
  void onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) override {
    size_t engine = indexOf(network);
    engines[engine].time += microseconds(end - begin);
    ++engines[engine].calls;
    keep({engine, kWhole, begin, end});
  }
  void onNode(const Node* node, size_t bytes, Clock::time_point begin, Clock::time_point end) override {
    double us = microseconds(end - begin);
    if (!node || node->kind() == sym::Constant || node->isReturn()) {
      steps += us;
    } else if (node->kind() == sym::Engine) {
      calls.time += us;
      calls.bytes += static_cast<double>(bytes);
      ++calls.calls;
    } else {
      auto [it, isNew] = nodeIndex_.try_emplace(node, nodes.size());
      if (isNew) nodes.push_back({std::string(node->kind().text()), nameOf(node)});
      Interpreted& n = nodes[it->second];
      n.time += us;
      n.bytes += static_cast<double>(bytes);
      ++n.calls;
      keep({kNone, it->second, begin, end});
    }
  }

  double inEngines() const {
    return std::accumulate(engines.begin(), engines.end(), 0.0,
                           [](double sum, const Engine& e) { return sum + e.layerTime(); });
  }

  std::vector<Engine> engines;
  std::vector<Interpreted> nodes;
  Interpreted calls;  // of engines, with all that they do
  double steps = 0;   // microseconds of what the interpreter does for no node: constants, jumps, dropping values
  std::vector<Event> events;
  double time = 0;  // microseconds, of all runs
  size_t runs = 0;

 private:
  void keep(Event event) {
    if (events.size() < kMostEvents) events.push_back(event);
  }
  size_t indexOf(const Network& network) {
    auto [it, isNew] = index_.try_emplace(&network, engines.size());
    if (!isNew) return it->second;
    Engine& e = engines.emplace_back();
    for (const auto& l : network.layers) {
      Layer& layer = e.layers.emplace_back();
      layer.name = l->name();
      layer.why = l->whyKernel();
      layer.shapes = shapeText(network, l->inputs) + " -> " + shapeText(network, l->outputs);
      layer.flops = l->flops();
      layer.bytes = bytesOf(network, l->inputs) + bytesOf(network, l->outputs);
      if (l->node) layer.node = nameOf(l->node);
    }
    return it->second;
  }

  std::map<const Network*, size_t> index_;
  std::unordered_map<const Node*, size_t> nodeIndex_;
};

class Profiler {
 public:
  Profiler(const Options& options, Session& session) : options_(options), session_(session) {}

  int run() {
    std::optional<Executable> model = loadExecutable(options_, session_);
    if (!model) return session_.finish();
    session_.noteUnusedWeights(model->module.unusedWeights());
    Result<std::vector<IValue>> inputs =
        InputReader(model->method.inputs(), session_).readOrMake(options_.run.inputs, options_.run.seed);
    if (!inputs) return session_.finish();
    session_.report();
    InterruptScope interrupts(std::nullopt);
    if (!measure(model->method, *inputs, interrupts)) {
      int code = session_.finish();
      return interrupts.signal() ? 128 + interrupts.signal() : code;
    }
    if (!options_.profile.trace.empty() && !writeTrace()) return session_.finish();
    session_.common.json ? writeJson() : writeText();
    return session_.finish();
  }

 private:
  bool measure(const Method& method, std::span<const IValue> inputs, const InterruptScope& interrupts) {
    RunOptions settings = runOptions(options_.run, interrupts, session_);
    for (int i = 0; i < 3; ++i)
      if (!method.run(inputs, session_.diagnostics, settings)) return false;
    ObserverScope observing(profile_);
    PluginWork plugins;
    Clock::time_point start = Clock::now();
    uint64_t wanted = options_.profile.runs;
    while (wanted ? profile_.runs < wanted : profile_.runs == 0 || microseconds(Clock::now() - start) < 1e6) {
      profile_.events.clear();
      begin_ = Clock::now();
      if (!method.run(inputs, session_.diagnostics, settings)) return false;
      profile_.time += microseconds(Clock::now() - begin_);
      ++profile_.runs;
    }
    plugins_ = plugins.rows();
    return true;
  }

  double perRun(double sum) const { return sum / static_cast<double>(profile_.runs); }

  struct Row {
    double time, flops, bytes;  // of all runs
    std::string engine, what;
  };

  std::vector<Row> rows() const {
    std::vector<Row> out;
    for (size_t e = 0; e < profile_.engines.size(); ++e)
      for (const Profile::Layer& l : profile_.engines[e].layers) {
        auto calls = static_cast<double>(l.calls);
        out.push_back({l.time, l.flops * calls, l.bytes * calls, std::to_string(e),
                       fmt::format("{} {}{}  {}", l.node, l.name, l.why.empty() ? "" : ": " + l.why, l.shapes)});
      }
    for (const Profile::Interpreted& n : profile_.nodes) out.push_back({n.time, 0, n.bytes, "", n.node + " " + n.name});
    std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.time > b.time; });
    double inLayers = profile_.inEngines();
    out.push_back({profile_.calls.time - inLayers, 0, profile_.calls.bytes, "", "entering and leaving engines"});
    out.push_back({profile_.steps, 0, 0, "", "constants, jumps, dropping values"});
    out.push_back({profile_.time - timed(), 0, 0, "", "starting and ending the run, and taking these times"});
    return out;
  }

  // The time of all that was timed by itself.
  double timed() const {
    double sum = profile_.calls.time + profile_.steps;
    for (const Profile::Interpreted& n : profile_.nodes) sum += n.time;
    return sum;
  }

  void writeText() {
    std::ostream& out = session_.out;
    out << fmt::format("{} run{} of {:.1f} us\n\n", profile_.runs, profile_.runs == 1 ? "" : "s",
                       perRun(profile_.time));
    out << "       us  share  GFLOP/s        KB  engine  layer\n";
    for (const Row& r : rows()) {
      std::string speed = r.flops > 0 && r.time > 0 ? fmt::format("{:.1f}", r.flops / r.time / 1e3) : "";
      std::string bytes = r.bytes > 0 ? fmt::format("{:.1f}", perRun(r.bytes) / 1024) : "";
      out << fmt::format("{:>9.1f} {:>5.1f}% {:>8} {:>9} {:>7}  {}\n", perRun(r.time), 100 * r.time / profile_.time,
                         speed, bytes, r.engine, r.what);
    }
    if (!plugins_.empty()) out << "\nplugins, in all runs\n";
    for (const PluginWork::Row& row : plugins_) out << "  " << pluginWorkText(row) << "\n";
  }

  void writeJson() {
    JsonWriter json(session_.out);
    json.beginObject();
    json.field("format", "tscompile.profile/1");
    json.field("runs", profile_.runs);
    json.field("run_us", perRun(profile_.time));
    json.key("engines");
    json.beginArray();
    for (const Profile::Engine& e : profile_.engines) {
      json.newLine();
      json.beginObject();
      json.field("us", perRun(e.time));
      json.field("calls", e.calls);
      json.key("layers");
      json.beginArray();
      for (const Profile::Layer& l : e.layers) {
        json.newLine();
        json.beginObject();
        json.field("node", l.node);
        json.field("layer", l.name);
        if (!l.why.empty()) json.field("why_kernel", l.why);
        json.field("shapes", l.shapes);
        json.field("us", perRun(l.time));
        json.field("share", l.time / profile_.time);
        json.field("flops", l.flops);
        json.field("bytes", l.bytes);
        json.field("calls", l.calls);
        json.endObject();
      }
      json.endArray();
      json.endObject();
    }
    json.endArray();
    json.key("nodes");
    json.beginArray();
    for (const Profile::Interpreted& n : profile_.nodes) {
      json.newLine();
      json.beginObject();
      json.field("node", n.node);
      json.field("operator", n.name);
      json.field("us", perRun(n.time));
      json.field("share", n.time / profile_.time);
      json.field("bytes", n.bytes / static_cast<double>(n.calls));
      json.field("calls", n.calls);
      json.endObject();
    }
    json.endArray();
    json.newLine();
    json.key("borders");
    json.beginObject();
    json.field("us", perRun(profile_.calls.time - profile_.inEngines()));
    json.field("bytes", perRun(profile_.calls.bytes));
    json.field("calls", profile_.calls.calls);
    json.endObject();
    json.field("steps_us", perRun(profile_.steps));
    json.field("rest_us", perRun(profile_.time - timed()));
    if (!plugins_.empty()) {
      json.newLine();
      json.key("plugins");
      writePluginWork(plugins_, json);
    }
    json.endObject();
    json.finish();
  }

  // The trace-event format: complete events, an engine around its layers.
  bool writeTrace() {
    std::ostringstream text;
    JsonWriter json(text);
    json.beginObject();
    json.key("traceEvents");
    json.beginArray();
    for (const Profile::Event& event : profile_.events) {
      bool isNode = event.engine == Profile::kNone;
      const Profile::Layer* layer =
          isNode || event.layer == Profile::kWhole ? nullptr : &profile_.engines[event.engine].layers[event.layer];
      json.newLine();
      json.beginObject();
      json.field("name", isNode  ? profile_.nodes[event.layer].node + " " + profile_.nodes[event.layer].name
                         : layer ? layer->name
                                 : fmt::format("engine {}", event.engine));
      json.field("cat", isNode ? "node" : layer ? "layer" : "engine");
      json.field("ph", "X");
      json.field("pid", 1);
      json.field("tid", 1);
      json.field("ts", microseconds(event.begin - begin_));
      json.field("dur", microseconds(event.end - event.begin));
      if (layer) {
        json.key("args");
        json.beginObject();
        json.field("node", layer->node);
        json.field("shapes", layer->shapes);
        json.field("flops", layer->flops);
        json.field("bytes", layer->bytes);
        json.endObject();
      }
      json.endObject();
    }
    json.endArray();
    json.endObject();
    json.finish();
    std::string all = std::move(text).str();
    std::ofstream file(options_.profile.trace, std::ios::binary);
    if (file.write(all.data(), static_cast<std::streamsize>(all.size())).flush()) return true;
    session_.diagnostics.error("cannot write " + options_.profile.trace, ErrorKind::Io);
    return false;
  }

  const Options& options_;
  Session& session_;
  Profile profile_;
  std::vector<PluginWork::Row> plugins_;
  Clock::time_point begin_;  // of the latest run
};

}  // namespace

int runProfile(const Options& options, Session& session) { return Profiler(options, session).run(); }

}  // namespace tscompile
