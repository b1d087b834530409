// `tscompile profile`: where the time of a run goes.
#include "api/profile/profile_json.h"
#include "frontend/files/file_io.h"
#include "ir/graph/module_path.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "runtime/call/thread_pool.h"
#include "runtime/registry.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/build_info.h"
#include "tools/reports/processor.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/measured_texts.h"
#include "tools/tasks/plugin_work.h"
#include "tools/tasks/refusals.h"

#include <fmt/core.h>

#include <algorithm>
#include <sstream>

namespace tscompile {
namespace {

// What profile takes beside the settings of run.
struct ProfileCommand {
  uint64_t runs = 0;  // 0: as many as fit in a second
  std::string trace;  // a file for the times of the quickest run
  std::string by = "layer";
};

// Of the trace-event format: what begins and ends (X), a counter (C), the name of a track (M).
struct TraceArguments {
  std::optional<std::string> name = {}, node = {}, module = {}, shapes = {};
  std::optional<double> flops = {}, bytes = {};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("node", node);
    visit("module", module);
    visit("shapes", shapes);
    visit("flops", flops);
    visit("bytes", bytes);
  }
};

struct TraceEvent {
  std::string name = {}, category = {};
  std::string_view phase = "X";
  size_t thread = 0;
  double begin = 0;  // microseconds
  std::optional<double> duration = {};
  std::optional<TraceArguments> arguments = {};

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", name);
    visit("cat", category);
    visit("ph", phase);
    visit("pid", 1);
    visit("tid", thread + 1);
    visit("ts", begin);
    visit("dur", duration);
    visit("args", arguments);
  }
};

struct Trace {
  std::vector<TraceEvent> events;
  size_t dropped;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("traceEvents", Lines{events});
    if (dropped > 0) visit("dropped", dropped);
  }
};

class Profiler {
 public:
  Profiler(const Options& options, Session& session) : options_(options), session_(session) {}

  int run() {
    if (isTraceOutput() && session_.common.json)
      throw UsageError{"--trace - and --format json both want standard output", {"name a file: --trace trace.json"}};
    if (isBuiltModel(options_.arguments[0])) {
      checkBuiltModelOptions(options_, {"--threads", "--shape", "--runs", "--trace", "--by"});
      texts_ = MeasuredTexts::load(options_.arguments[0], static_cast<int>(options_.run.threads), session_);
      Result<TextLengths> lengths = texts_ ? texts_->lengths(options_.partition.spec.shapes, 1, session_.diagnostics)
                                           : Result<TextLengths>(Failed{});
      if (!lengths) return session_.finish();
      inputs_ = {fmt::format("prompt={}", lengths->prompt), fmt::format("new={}", lengths->more)};
      InterruptScope interrupts;
      texts_->model().interruptBy(&interrupts.interrupted());
      return finish(measure(texts_->model().module().registry(), [&](size_t) { return readText(*lengths); }),
                    interrupts);
    }
    std::optional<Executable> given = loadAsGiven(options_, session_);
    if (!given) return session_.finish();
    Result<std::vector<IValue>> inputs = readInputs(*given, options_, true, session_);
    if (!inputs) return session_.finish();
    inputs_ = givenTexts(given->method.inputs(), *inputs);
    std::optional<Executable> model = withEngines(std::move(*given), options_, session_, *inputs);
    if (!model) return session_.finish();
    session_.noteUnusedWeights(model->module.unusedWeights());
    session_.report();
    InterruptScope interrupts;
    RunOptions settings = runOptions(options_.run, interrupts, session_);
    return finish(measure(model->method.registry(),
                          [&](size_t i) {
                            RefusalWatch refusals;
                            if (!model->method.run(*inputs, session_.diagnostics, settings)) return false;
                            if (i == 0) refused_ = refusalTexts(refusals), settings = silent(settings);
                            return true;
                          }),
                  interrupts);
  }

 private:
  // A text of a language model, from its prompt to its last token.
  bool readText(const TextLengths& lengths) {
    std::vector<double> prompts, steps;
    return texts_->run(lengths, 1, prompts, steps, session_.diagnostics);
  }

  int finish(bool isMeasured, const InterruptScope& interrupts) {
    if (!isMeasured) {
      int code = session_.finish();
      return interrupts.signal() ? 128 + interrupts.signal() : code;
    }
    if (!options_.own.of<ProfileCommand>().trace.empty() && !writeTrace()) return session_.finish();
    if (session_.common.json)
      writeJson(session_.out, *this);
    else if (!isTraceOutput())
      writeText();
    return session_.finish();
  }

  // Runs of `run`, which is told how many were before it and fails after a report.
  template <class Run>
  bool measure(const OpRegistry& registry, Run run) {
    profile_ = RunProfile(registry);
    size_t done = 0;
    while (done < (texts_ ? 1 : 3))
      if (!run(done++)) return false;
    ObserverScope observing(profile_);
    PluginWork plugins;
    using Clock = RunObserver::Clock;
    const Clock::time_point start = Clock::now();
    uint64_t wanted = options_.own.of<ProfileCommand>().runs;
    profile_.leavesOutDisturbed = wanted == 0;
    while (wanted ? profile_.runs < wanted : profile_.runs == 0 || Clock::now() - start < std::chrono::seconds(1)) {
      profile_.startRun();
      if (!run(done++)) return false;
      profile_.endRun();
    }
    plugins_ = plugins.rows();
    return true;
  }

  // Whether the trace is what goes to standard output.
  bool isTraceOutput() const { return options_.own.of<ProfileCommand>().trace == "-"; }

  double perRun(double sum) const { return profile_.perRun(sum); }

  struct Row {
    double time, flops, bytes;  // of all runs
    std::string engine, what;
  };

  static std::string moduleOf(const Node* node) {
    const std::string path = node ? modulePath(node) : "";
    return path.empty() ? "" : path + "  ";
  }

  std::vector<Row> rows() const {
    const std::string& by = options_.own.of<ProfileCommand>().by;
    std::vector<Row> out;
    if (by == "layer") return layerRows();
    for (const RunProfile::Total& t : by == "module" ? profile_.totalsByModule() : profile_.totalsByOperator())
      out.push_back({t.time, t.flops, t.bytes, std::to_string(t.parts), t.name.empty() ? "(no " + by + ")" : t.name});
    return out;
  }

  std::vector<Row> layerRows() const {
    std::vector<Row> out;
    for (size_t e = 0; e < profile_.engines.size(); ++e)
      for (const RunProfile::Layer& l : profile_.engines[e].layers) {
        auto calls = static_cast<double>(l.calls);
        out.push_back({l.time, l.flops * calls, l.bytes * calls, std::to_string(e),
                       fmt::format("{}{} {}{}  {}", moduleOf(l.source), l.node, l.name,
                                   l.why.empty() ? "" : ": " + l.why, l.shapes)});
      }
    for (const RunProfile::Interpreted& n : profile_.nodes)
      out.push_back({n.time, 0, n.bytes, "", moduleOf(n.source) + n.node + " " + n.name});
    std::stable_sort(out.begin(), out.end(), [](const Row& a, const Row& b) { return a.time > b.time; });
    double inLayers = profile_.inEngines();
    out.push_back({profile_.calls.time - inLayers, 0, profile_.calls.bytes, "", "entering and leaving engines"});
    out.push_back({profile_.steps, 0, 0, "", "constants, jumps, dropping values"});
    out.push_back({profile_.time - profile_.timed(), 0, 0, "", "starting and ending the run, and taking these times"});
    return out;
  }

  void writeText() {
    std::ostream& out = session_.out;
    out << fmt::format("{} of {:.1f} us{}\n", counted(profile_.runs, "run"), perRun(profile_.time),
                       profile_.leftOut > 0 ? fmt::format(", {} slower left out", profile_.leftOut) : "");
    if (texts_) out << fmt::format("a run is a text: {}\n", fmt::join(inputs_, ", "));
    out << fmt::format("native layers {:.1f}%, reference kernels {:.1f}%, interpreter {:.1f}%\n\n",
                       100 * profile_.layerShare(true), 100 * profile_.layerShare(false),
                       100 * profile_.interpreterShare());
    const std::string& by = options_.own.of<ProfileCommand>().by;
    out << "       us  share  GFLOP/s        KB  " << (by == "layer" ? "engine  layer" : " parts  " + by) << '\n';
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

 public:
  template <class Visit>
  void fields(Visit&& visit) const {
    ProfileJson{profile_}.fields(visit);
    visit("version", buildInfo().version);
    visit("commit", buildInfo().commit);
    visit("processor", processorName());
    visit("model", options_.arguments[0]);
    visit("checksum", checksumOfFile(texts_ ? texts_->engine() : options_.arguments[0]));
    visit("inputs", inputs_);
    visit("threads", options_.run.threads ? static_cast<int>(options_.run.threads) : defaultThreads());
    if (!refused_.empty()) visit("left_to_interpreter", Lines{refused_});
    if (!plugins_.empty()) visit("plugins", Line{Lines{plugins_}});
  }

 private:
  TraceEvent traceOf(const RunProfile::Event& event) const {
    TraceEvent out{.begin = profile_.since(event.begin),
                   .duration = profile_.since(event.end) - profile_.since(event.begin)};
    auto path = [](const Node* n) { return n ? modulePath(n) : std::string(); };
    if (event.engine == RunProfile::kNone) {
      const RunProfile::Interpreted& node = profile_.nodes[event.layer];
      out.name = moduleOf(node.source) + node.node + " " + node.name, out.category = "node";
      out.arguments = TraceArguments{.node = node.node, .module = path(node.source)};
    } else if (event.layer == RunProfile::kWhole) {
      out.name = fmt::format("engine {}", event.engine), out.category = "engine";
    } else {
      const RunProfile::Layer& layer = profile_.engines[event.engine].layers[event.layer];
      out.name = moduleOf(layer.source) + layer.name, out.category = "layer";
      out.arguments = TraceArguments{.node = layer.node,
                                     .module = path(layer.source),
                                     .shapes = layer.shapes,
                                     .flops = layer.flops,
                                     .bytes = layer.bytes};
    }
    return out;
  }

  static TraceEvent called(std::string what, std::string name, size_t thread = 0) {
    return {.name = std::move(what),
            .category = "",
            .phase = "M",
            .thread = thread,
            .arguments = TraceArguments{.name = std::move(name)}};
  }

  // The track of a thread that helps: what it does is part of what the run's thread does then.
  void addWork(size_t thread, std::vector<TraceEvent>& into) const {
    if (profile_.quickest.work[thread].empty()) return;
    into.push_back(called("thread_name", fmt::format("worker {}", thread), thread));
    auto event = profile_.quickest.events.begin();
    for (const RunProfile::Work& work : profile_.quickest.work[thread]) {
      auto isOver = [&] { return event->layer == RunProfile::kWhole || event->end <= work.begin; };
      while (event != profile_.quickest.events.end() && isOver()) ++event;
      TraceEvent out;
      if (event != profile_.quickest.events.end()) out = traceOf(*event);
      out.category = "work";
      out.thread = thread;
      out.begin = profile_.since(work.begin);
      out.duration = profile_.since(work.end) - out.begin;
      into.push_back(std::move(out));
    }
  }

  // The trace-event format: complete events, an engine around its layers, and the memory when each of them ends.
  bool writeTrace() {
    Trace trace{{}, profile_.quickest.dropped};
    trace.events.push_back(called("process_name", "tscompile " + options_.arguments[0]));
    trace.events.push_back(called("thread_name", "run"));
    for (const RunProfile::Event& event : profile_.quickest.events) {
      trace.events.push_back(traceOf(event));
      trace.events.push_back({.name = "memory",
                              .category = "memory",
                              .phase = "C",
                              .begin = profile_.since(event.end),
                              .arguments = TraceArguments{.bytes = static_cast<double>(event.memory)}});
    }
    for (size_t thread = 1; thread < profile_.quickest.work.size(); ++thread) addWork(thread, trace.events);
    if (!writeTraceText(trace)) return false;
    if (profile_.quickest.dropped > 0)
      session_.note(fmt::format("the trace has the first {} events of the run; {} more were dropped",
                                RunProfile::kMostEvents, profile_.quickest.dropped));
    return true;
  }

  bool writeTraceText(const Trace& trace) {
    if (isTraceOutput()) {
      writeJson(session_.out, trace);
      return true;
    }
    std::ostringstream text;
    writeJson(text, trace);
    FileWriter file(options_.own.of<ProfileCommand>().trace, session_.diagnostics);
    return file.write(text.view()) && file.commit();
  }

  const Options& options_;
  Session& session_;
  std::vector<std::string> inputs_;       // "x=1x3x224x224:float32"
  std::vector<std::string> refused_;      // engines that did not run
  std::unique_ptr<MeasuredTexts> texts_;  // of a language model, whose nodes the profile tells of
  RunProfile profile_{allOps()};
  std::vector<PluginWork::Row> plugins_;
};

}  // namespace

static int runProfile(const Options& options, Session& session) { return Profiler(options, session).run(); }

namespace {

constexpr std::string_view kProfileDetails =
    R"(The graph runs on engines. Each of their layers is a line, and each node that the interpreter runs;
those that take longest first. GFLOP/s are of layers that compute products, KB those of the tensors
that are taken and given. The last lines are what is left: the borders of engines, with what crosses
them, steps of the interpreter that belong to no node, and what is around all that.
Of a language model that was built (a folder) a run is a text, whose lengths --shape says: prompt=512 and
new=64 tokens after it; new=0 is the prompt alone, prompt=1 nearly all the tokens after it.
Times are means over the runs. Without --runs those do not count that took longer by half than the
quickest one: some layer would have the time of what else the machine did.

Examples:
  tscompile profile model.ir --weights model.safetensors
  tscompile profile model.ir --weights model.safetensors --threads 1 --trace trace.json
  tscompile profile built --shape prompt=512 --shape new=0
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
             {"--by", "layer|module|operator", "what a line of the text is about (default: layer)",
              [](Options& o, const std::string& v) { o.own.of<ProfileCommand>().by = v; }},
             writing(
                 Written::File,
                 {"--trace", "FILE",
                  "write when each part of the quickest run began and ended there, for ui.perfetto.dev; -: to standard "
                  "output, "
                  "instead of the table",
                  [](Options& o, const std::string& v) { o.own.of<ProfileCommand>().trace = v; }}),
             settingOption("shape"),
         } +
         precisionOptions() + cuttingOptions();
}

}  // namespace

VerbSpec profileCommand() {
  return {.name = "profile",
          .summary = "tell where the time of a run goes, layer by layer",
          .argument = "GRAPH",
          .argumentHelp = kMeasuredModels,
          .argumentRequired = true,
          .details = kProfileDetails,
          .options = profileOptions(),
          .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
          .command = runProfile};
}

}  // namespace tscompile
