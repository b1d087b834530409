// `tscompile profile`: where the time of a run goes.
#include "ir/support/json_writer.h"
#include "runtime/engine/network.h"
#include "runtime/run_observer.h"
#include "tools/commands.h"
#include "tools/execution.h"
#include "tools/inputs.h"

#include <fmt/core.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <numeric>
#include <sstream>

namespace tscompile {
namespace {

using Clock = RunObserver::Clock;

double microseconds(Clock::duration d) { return std::chrono::duration<double, std::micro>(d).count(); }

std::string shapeText(const Network& network, std::span<const TensorId> ids) {
  std::string out;
  for (TensorId id : ids) out += (out.empty() ? "" : " ") + dimsText(network[id].sizes);
  return out;
}

// Sums up what engines do, and keeps each event of the latest run.
class Profile : public RunObserver {
 public:
  struct Layer {
    std::string name, shapes, node;
    double flops = 0, time = 0;  // microseconds, of all runs
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
    size_t engine, layer;  // layer: kWhole for the engine itself
    Clock::time_point begin, end;
  };
  static constexpr size_t kWhole = SIZE_MAX;
  static constexpr size_t kMostEvents = 1'000'000;

  void onLayer(const Network& network, size_t layer, Clock::time_point begin, Clock::time_point end) override {
    size_t engine = indexOf(network);
    Layer& l = engines[engine].layers[layer];
    l.time += microseconds(end - begin);
    ++l.calls;
    if (events.size() < kMostEvents) events.push_back({engine, layer, begin, end});
  }
  void onEngine(const Network& network, Clock::time_point begin, Clock::time_point end) override {
    size_t engine = indexOf(network);
    engines[engine].time += microseconds(end - begin);
    ++engines[engine].calls;
    if (events.size() < kMostEvents) events.push_back({engine, kWhole, begin, end});
  }

  std::vector<Engine> engines;
  std::vector<Event> events;
  double time = 0;  // microseconds, of all runs
  size_t runs = 0;

 private:
  size_t indexOf(const Network& network) {
    auto [it, isNew] = index_.try_emplace(&network, engines.size());
    if (!isNew) return it->second;
    Engine& e = engines.emplace_back();
    for (const auto& l : network.layers) {
      Layer& layer = e.layers.emplace_back();
      layer.name = l->name();
      layer.shapes = shapeText(network, l->inputs) + " -> " + shapeText(network, l->outputs);
      layer.flops = l->flops();
      if (l->node) layer.node = l->node->outputCount() ? "%" + l->node->output(0)->name() : l->node->kind().text();
    }
    return it->second;
  }

  std::map<const Network*, size_t> index_;
};

class Profiler {
 public:
  Profiler(const Options& options, Session& session) : options_(options), session_(session) {}

  int run() {
    std::optional<Executable> model = loadExecutable(options_.arguments[0], options_.run, session_);
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
    Clock::time_point start = Clock::now();
    uint64_t wanted = options_.profile.runs;
    while (wanted ? profile_.runs < wanted : profile_.runs == 0 || microseconds(Clock::now() - start) < 1e6) {
      profile_.events.clear();
      begin_ = Clock::now();
      if (!method.run(inputs, session_.diagnostics, settings)) return false;
      profile_.time += microseconds(Clock::now() - begin_);
      ++profile_.runs;
    }
    return true;
  }

  double perRun(double sum) const { return sum / static_cast<double>(profile_.runs); }

  void writeText() {
    struct Row {
      const Profile::Layer* layer;
      size_t engine;
    };
    std::vector<Row> rows;
    double inEngines = 0, inLayers = 0;
    for (size_t e = 0; e < profile_.engines.size(); ++e) {
      for (const Profile::Layer& l : profile_.engines[e].layers) rows.push_back({&l, e});
      inEngines += profile_.engines[e].time;
      inLayers += profile_.engines[e].layerTime();
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Row& a, const Row& b) { return a.layer->time > b.layer->time; });
    std::ostream& out = session_.out;
    out << fmt::format("{} run{} of {:.1f} us\n\n", profile_.runs, profile_.runs == 1 ? "" : "s",
                       perRun(profile_.time));
    out << "       us  share  GFLOP/s  engine  layer\n";
    auto line = [&](double time, const std::string& gflops, const std::string& engine, const std::string& what) {
      out << fmt::format("{:>9.1f} {:>5.1f}% {:>8} {:>7}  {}\n", perRun(time), 100 * time / profile_.time, gflops,
                         engine, what);
    };
    for (const Row& r : rows)
      line(r.layer->time,
           r.layer->flops > 0 && r.layer->time > 0
               ? fmt::format("{:.1f}", r.layer->flops * static_cast<double>(r.layer->calls) / r.layer->time / 1e3)
               : "",
           std::to_string(r.engine), fmt::format("{} {}  {}", r.layer->node, r.layer->name, r.layer->shapes));
    line(inEngines - inLayers, "", "", "entering and leaving engines");
    line(profile_.time - inEngines, "", "", "outside of engines");
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
        json.field("shapes", l.shapes);
        json.field("us", perRun(l.time));
        json.field("share", l.time / profile_.time);
        json.field("flops", l.flops);
        json.field("calls", l.calls);
        json.endObject();
      }
      json.endArray();
      json.endObject();
    }
    json.endArray();
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
      const Profile::Engine& engine = profile_.engines[event.engine];
      const Profile::Layer* layer = event.layer == Profile::kWhole ? nullptr : &engine.layers[event.layer];
      json.newLine();
      json.beginObject();
      json.field("name", layer ? layer->name : fmt::format("engine {}", event.engine));
      json.field("cat", layer ? "layer" : "engine");
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
  Clock::time_point begin_;  // of the latest run
};

}  // namespace

int runProfile(const Options& options, Session& session) { return Profiler(options, session).run(); }

}  // namespace tscompile
