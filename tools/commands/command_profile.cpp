// `tscompile profile`: where the time of a run goes.
#include "frontend/files/file_io.h"
#include "ir/graph/node_text.h"
#include "ir/support/json_fields.h"
#include "runtime/call/run_observer.h"
#include "runtime/engine/network/network.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/plugin_work.h"
#include "tools/tasks/refusals.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <sstream>
#include <unordered_map>

namespace tscompile {
namespace {

// What profile takes beside the settings of run.
struct ProfileCommand {
  uint64_t runs = 0;  // 0: as many as fit in a second
  std::string trace;  // a file for the times of one run
};

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

// Sums up what engines and the interpreter do, and keeps each event of the latest run.
class Profile : public RunObserver {
 public:
  struct Layer {
    std::string name, why, shapes, node;  // why: a kernel runs though the operator has a converter
    bool isNative = true;                 // else a reference kernel
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
      if (isNew) nodes.push_back({std::string(node->kind().text()), shortName(node)});
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
      layer.isNative = l->isNative();
      layer.shapes = shapeText(network, l->inputs) + " -> " + shapeText(network, l->outputs);
      layer.flops = l->flops();
      layer.bytes = bytesOf(network, l->inputs) + bytesOf(network, l->outputs);
      if (l->node) layer.node = shortName(l->node);
    }
    return it->second;
  }

  std::map<const Network*, size_t> index_;
  std::unordered_map<const Node*, size_t> nodeIndex_;
};

// ---- what JSON tells: times of one run ----

struct LayerFields {
  std::string node, layer;
  bool isNative;
  std::optional<std::string> whyKernel;
  std::string shapes;
  double us, share, flops, bytes;
  size_t calls;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("node", node);
    visit("layer", layer);
    visit("native", isNative);
    visit("why_kernel", whyKernel);
    visit("shapes", shapes);
    visit("us", us);
    visit("share", share);
    visit("flops", flops);
    visit("bytes", bytes);
    visit("calls", calls);
  }
};

struct EngineFields {
  double us;
  size_t calls;
  std::vector<LayerFields> layers;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("us", us);
    visit("calls", calls);
    visit("layers", Lines{layers});
  }
};

struct NodeFields {
  std::string node, name;
  double us, share, bytes;
  size_t calls;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("node", node);
    visit("operator", name);
    visit("us", us);
    visit("share", share);
    visit("bytes", bytes);
    visit("calls", calls);
  }
};

struct BorderFields {
  double us, bytes;
  size_t calls;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("us", us);
    visit("bytes", bytes);
    visit("calls", calls);
  }
};

// An event of the trace-event format, which begins and ends.
struct TraceArguments {
  std::string node, shapes;
  double flops, bytes;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("node", node);
    visit("shapes", shapes);
    visit("flops", flops);
    visit("bytes", bytes);
  }
};

struct TraceEvent {
  std::string name, category;
  double begin, duration;  // microseconds
  std::optional<TraceArguments> arguments;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("cat", category);
    visit("ph", "X");
    visit("pid", 1);
    visit("tid", 1);
    visit("ts", begin);
    visit("dur", duration);
    visit("args", arguments);
  }
};

class Profiler {
 public:
  Profiler(const Options& options, Session& session) : options_(options), session_(session) {}

  int run() {
    std::optional<Executable> model = loadExecutable(options_, session_);
    if (!model) return session_.finish();
    session_.noteUnusedWeights(model->module.unusedWeights());
    Result<std::vector<std::string>> texts = givenInputs(options_.run, session_);
    if (!texts) return session_.finish();
    Result<std::vector<IValue>> inputs =
        InputReader(model->method.inputs(), session_, model->defaults).readOrMake(*texts, options_.run.seed);
    if (!inputs) return session_.finish();
    session_.report();
    InterruptScope interrupts;
    if (!measure(model->method, *inputs, interrupts)) {
      int code = session_.finish();
      return interrupts.signal() ? 128 + interrupts.signal() : code;
    }
    if (!options_.own.of<ProfileCommand>().trace.empty() && !writeTrace()) return session_.finish();
    session_.common.json ? writeJson(session_.out, *this) : writeText();
    return session_.finish();
  }

 private:
  bool measure(const Method& method, std::span<const IValue> inputs, const InterruptScope& interrupts) {
    RunOptions settings = runOptions(options_.run, interrupts, session_);
    for (int i = 0; i < 3; ++i) {
      RefusalWatch refusals;
      if (!method.run(inputs, session_.diagnostics, settings)) return false;
      if (i == 0) refused_ = refusalTexts(refusals);
    }
    ObserverScope observing(profile_);
    PluginWork plugins;
    Clock::time_point start = Clock::now();
    uint64_t wanted = options_.own.of<ProfileCommand>().runs;
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

  // Which part of the time layers take that are native, and those that are not; the rest is the interpreter's, and
  // between them.
  double layerShare(bool native) const {
    double sum = 0;
    for (const Profile::Engine& e : profile_.engines)
      for (const Profile::Layer& l : e.layers)
        if (l.isNative == native) sum += l.time;
    return sum / profile_.time;
  }
  double interpreterShare() const {
    double sum = profile_.steps;
    for (const Profile::Interpreted& n : profile_.nodes) sum += n.time;
    return sum / profile_.time;
  }

  // The time of all that was timed by itself.
  double timed() const {
    double sum = profile_.calls.time + profile_.steps;
    for (const Profile::Interpreted& n : profile_.nodes) sum += n.time;
    return sum;
  }

  void writeText() {
    std::ostream& out = session_.out;
    out << fmt::format("{} run{} of {:.1f} us\n", profile_.runs, profile_.runs == 1 ? "" : "s", perRun(profile_.time));
    out << fmt::format("native layers {:.1f}%, reference kernels {:.1f}%, interpreter {:.1f}%\n\n",
                       100 * layerShare(true), 100 * layerShare(false), 100 * interpreterShare());
    out << "       us  share  GFLOP/s        KB  engine  layer\n";
    for (const Row& r : rows()) {
      std::string speed = r.flops > 0 && r.time > 0 ? fmt::format("{:.1f}", r.flops / r.time / 1e3) : "";
      std::string bytes = r.bytes > 0 ? fmt::format("{:.1f}", perRun(r.bytes) / 1024) : "";
      out << fmt::format("{:>9.1f} {:>5.1f}% {:>8} {:>9} {:>7}  {}\n", perRun(r.time), 100 * r.time / profile_.time,
                         speed, bytes, r.engine, r.what);
    }
    if (!refused_.empty()) out << '\n';
    for (const std::string& text : refused_) out << text << '\n';
    if (!plugins_.empty()) out << "\nplugins, in all runs\n";
    for (const PluginWork::Row& row : plugins_) out << "  " << pluginWorkText(row) << "\n";
  }

  std::vector<EngineFields> engineFields() const {
    std::vector<EngineFields> out;
    for (const Profile::Engine& e : profile_.engines) {
      EngineFields& engine = out.emplace_back(EngineFields{perRun(e.time), e.calls, {}});
      for (const Profile::Layer& l : e.layers)
        engine.layers.push_back({l.node, l.name, l.isNative, l.why.empty() ? std::nullopt : std::optional(l.why),
                                 l.shapes, perRun(l.time), l.time / profile_.time, l.flops, l.bytes, l.calls});
    }
    return out;
  }
  std::vector<NodeFields> nodeFields() const {
    std::vector<NodeFields> out;
    for (const Profile::Interpreted& n : profile_.nodes)
      out.push_back(
          {n.node, n.name, perRun(n.time), n.time / profile_.time, n.bytes / static_cast<double>(n.calls), n.calls});
    return out;
  }

 public:
  template <class Visit>
  void fields(Visit&& visit) const {
    visit("format", "tscompile.profile/1");
    visit("runs", profile_.runs);
    visit("run_us", perRun(profile_.time));
    visit("native_share", layerShare(true));
    visit("kernel_share", layerShare(false));
    visit("interpreter_share", interpreterShare());
    visit("engines", Lines{engineFields()});
    visit("nodes", Lines{nodeFields()});
    const Profile::Interpreted& calls = profile_.calls;
    visit("borders", Line{BorderFields{perRun(calls.time - profile_.inEngines()), perRun(calls.bytes), calls.calls}});
    visit("steps_us", perRun(profile_.steps));
    visit("rest_us", perRun(profile_.time - timed()));
    if (!refused_.empty()) visit("left_to_interpreter", Lines{refused_});
    if (!plugins_.empty()) visit("plugins", Line{Lines{plugins_}});
  }

 private:
  TraceEvent traceOf(const Profile::Event& event) const {
    TraceEvent out{"", "", microseconds(event.begin - begin_), microseconds(event.end - event.begin), {}};
    if (event.engine == Profile::kNone) {
      const Profile::Interpreted& node = profile_.nodes[event.layer];
      out.name = node.node + " " + node.name, out.category = "node";
    } else if (event.layer == Profile::kWhole) {
      out.name = fmt::format("engine {}", event.engine), out.category = "engine";
    } else {
      const Profile::Layer& layer = profile_.engines[event.engine].layers[event.layer];
      out.name = layer.name, out.category = "layer";
      out.arguments = TraceArguments{layer.node, layer.shapes, layer.flops, layer.bytes};
    }
    return out;
  }

  // The trace-event format: complete events, an engine around its layers.
  bool writeTrace() {
    std::vector<TraceEvent> events;
    for (const Profile::Event& event : profile_.events) events.push_back(traceOf(event));
    std::ostringstream text;
    JsonWriter json(text);
    json.beginObject();
    json.key("traceEvents");
    writeJson(json, Lines{events});
    json.endObject();
    json.finish();
    FileWriter file(options_.own.of<ProfileCommand>().trace, session_.diagnostics);
    return file.write(text.view()) && file.commit();
  }

  const Options& options_;
  Session& session_;
  std::vector<std::string> refused_;  // engines that did not run
  Profile profile_;
  std::vector<PluginWork::Row> plugins_;
  Clock::time_point begin_;  // of the latest run
};

}  // namespace

static int runProfile(const Options& options, Session& session) { return Profiler(options, session).run(); }

namespace {

constexpr std::string_view kProfileDetails =
    R"(The graph runs on engines. Each of their layers is a line, and each node that the interpreter runs;
those that take longest first. GFLOP/s are of layers that compute products, KB those of the tensors
that are taken and given. The last lines are what is left: the borders of engines, with what crosses
them, steps of the interpreter that belong to no node, and what is around all that.

Examples:
  tscompile profile model.ir --weights model.safetensors
  tscompile profile model.ir --weights model.safetensors --threads 1 --trace trace.json
)";

OptionSpecs profileOptions() {
  return modelOptions() +
         OptionSpecs{
             {"--threads", "N", "threads to use at most (default: one for each processor)",
              [](Options& o, const std::string& v) { o.run.threads = static_cast<uint64_t>(threadCount(v, v)); }},
             {"--runs", "N", "how many runs to take the mean of (default: as many as fit in a second)",
              [](Options& o, const std::string& v) {
                auto n = parseCount(v);
                o.own.of<ProfileCommand>().runs =
                    checked(n && *n > 0 ? n : std::nullopt, "--runs", "a number from 1 up", v);
              }},
             {"--trace", "FILE", "write when each part of the last run began and ended there, for chrome://tracing",
              [](Options& o, const std::string& v) { o.own.of<ProfileCommand>().trace = v; }},
         } +
         cuttingOptions();
}

}  // namespace

VerbSpec profileCommand() {
  return {.name = "profile",
          .summary = "tell where the time of a run goes, layer by layer",
          .argument = "GRAPH",
          .argumentHelp = "graph text or a module dump; -: standard input",
          .argumentRequired = true,
          .details = kProfileDetails,
          .options = profileOptions(),
          .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
          .command = runProfile};
}

}  // namespace tscompile
