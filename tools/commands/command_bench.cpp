// `tscompile bench`: how long a run of a graph takes.
#include "ir/support/json_fields.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "runtime/call/thread_pool.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/reports/statistics.h"
#include "tools/session/machine_memory.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/refusals.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace tscompile {
namespace {

// What bench takes beside the settings of run.
struct BenchCommand {
  std::vector<int> threads;  // one measurement each; none: as many as there are processors
  std::chrono::nanoseconds duration = std::chrono::seconds(3);
};

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

struct BenchResult {
  int threads = 0;
  size_t warmUp = 0;   // runs before those that count
  Statistics latency;  // in milliseconds
  std::vector<std::string> warnings;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("threads", threads);
    visit("warm_up_runs", warmUp);
    visit("latency_ms", latency);
    visit("warnings", warnings);
  }
};

class Bench {
 public:
  Bench(const Options& options, Session& session) : options_(options), command_(options.run), session_(session) {}

  int run() {
    Clock::time_point start = Clock::now();
    std::optional<Executable> model = loadExecutable(options_, session_);
    if (!model) return session_.finish();
    loading_ = millisecondsSince(start);
    session_.noteUnusedWeights(model->module.unusedWeights());
    Result<std::vector<std::string>> texts = givenInputs(command_, session_);
    if (!texts) return session_.finish();
    Result<std::vector<IValue>> inputs =
        InputReader(model->method.inputs(), session_, model->defaults).readOrMake(*texts, command_.seed);
    if (!inputs) return session_.finish();
    session_.report();
    method_ = &model->method;
    inputs_ = std::move(*inputs);

    InterruptScope interrupts;
    RunOptions settings = runOptions(command_, interrupts, session_);
    std::vector<int> threads = options_.own.of<BenchCommand>().threads;
    if (threads.empty()) threads.push_back(defaultThreads());
    for (int n : threads) {
      settings.threads = n;
      session_.progress.step("measuring with " + counted(static_cast<size_t>(n), "thread"));
      if (!measure(settings)) {
        int code = session_.finish();
        return interrupts.signal() ? 128 + interrupts.signal() : code;
      }
    }
    session_.progress.end();
    session_.common.json ? writeJson(session_.out, *this) : writeText();
    return session_.finish();
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("format", "tscompile.bench/1");
    visit("executor", command_.executor == ExecutorChoice::Engine ? "engine" : "interpreter");
    visit("load_ms", loading_);
    visit("first_run_ms", first_);
    visit("peak_memory_bytes", peakMemory());
    visit("results", Lines{results_});
  }

 private:
  // Milliseconds of one run; nothing after a report.
  std::optional<double> once(const RunOptions& settings) {
    Clock::time_point start = Clock::now();
    if (!method_->run(inputs_, session_.diagnostics, settings)) return std::nullopt;
    return millisecondsSince(start);
  }

  // Runs until `milliseconds` have passed, and `least` times.
  bool repeat(const RunOptions& settings, double milliseconds, size_t least, std::vector<double>& samples) {
    Clock::time_point start = Clock::now();
    while (samples.size() < least || (millisecondsSince(start) < milliseconds && samples.size() < kMostSamples)) {
      std::optional<double> sample = once(settings);
      if (!sample) return false;
      samples.push_back(*sample);
    }
    return true;
  }

  // Runs windows until the medians of two that follow each other agree, for a second at most.
  bool warmUp(const RunOptions& settings, BenchResult& result) {
    Clock::time_point start = Clock::now();
    double before = 0;
    do {
      std::vector<double> window;
      if (!repeat(settings, kWindow, 3, window)) return false;
      result.warmUp += window.size();
      double median = statisticsOf(window).median;
      if (std::abs(median - before) < 0.01 * before) break;
      before = median;
    } while (millisecondsSince(start) < kLongestWarmUp);
    return true;
  }

  bool measure(const RunOptions& settings) {
    BenchResult result;
    result.threads = settings.threads;
    if (results_.empty()) {
      RefusalWatch refusals;
      std::optional<double> first = once(settings);
      if (!first) return false;
      result.warnings = refusalTexts(refusals);
      first_ = *first;
      result.warmUp = 1;
    }
    if (!warmUp(settings, result)) return false;
    std::vector<double> samples;
    double milliseconds = std::chrono::duration<double, std::milli>(options_.own.of<BenchCommand>().duration).count();
    if (!repeat(settings, milliseconds, 3, samples)) return false;
    result.latency = statisticsOf(samples);
    warn(result);
    results_.push_back(std::move(result));
    return true;
  }

  void warn(BenchResult& result) {
    auto say = [&](std::string text) { result.warnings.push_back(std::move(text)); };
    if (result.latency.variation() > kSteady)
      say(fmt::format("the times vary by {:.1f} % of their mean: compare minima and medians, not means",
                      100 * result.latency.variation()));
    if (result.threads > defaultThreads())
      say(fmt::format("there are only {} processors for {} threads", defaultThreads(), result.threads));
    double load = 0;
    if (results_.empty() && getloadavg(&load, 1) == 1 && load > 0.5 + static_cast<double>(result.threads))
      say(fmt::format("the machine is busy with other work: its load is {:.1f}", load));
  }

  void warn(std::string text) {
    Diagnostic d;
    d.severity = Severity::Warning;
    d.message = std::move(text);
    session_.diagnostics.add(std::move(d));
  }

  void writeText() {
    std::ostream& out = session_.out;
    out << fmt::format("executor  {}\nload      {:.3g} ms\nfirst run {:.3g} ms\nmemory    {} at most\n",
                       command_.executor == ExecutorChoice::Engine ? "engine" : "interpreter", loading_, first_,
                       sizeText(peakMemory()));
    out << "\nthreads      runs  warm-up     min ms  median ms    mean ms     p90 ms     p99 ms    runs/s\n";
    for (const BenchResult& r : results_) {
      const Statistics& s = r.latency;
      auto known = [&](double q, double v) { return s.count >= samplesFor(q) ? fmt::format("{:.5g}", v) : "n/a"; };
      out << fmt::format("{:>7} {:>9} {:>8} {:>10.5g} {:>10.5g} {:>10.5g} {:>10} {:>10} {:>9.5g}\n", r.threads, s.count,
                         r.warmUp, s.min, s.median, s.mean, known(0.9, s.p90), known(0.99, s.p99), 1000 / s.mean);
    }
    for (const BenchResult& r : results_)
      for (const std::string& w : r.warnings)
        warn(fmt::format("with {} thread{}: {}", r.threads, r.threads == 1 ? "" : "s", w));
  }

  static constexpr double kWindow = 50, kLongestWarmUp = 1000;  // milliseconds
  static constexpr double kSteady = 0.025;
  static constexpr size_t kMostSamples = 10'000'000;

  const Options& options_;
  const RunCommand& command_;
  Session& session_;
  const Method* method_ = nullptr;
  std::vector<IValue> inputs_;
  double loading_ = 0, first_ = 0;
  std::vector<BenchResult> results_;
};

}  // namespace

static int runBench(const Options& options, Session& session) { return Bench(options, session).run(); }

namespace {

constexpr std::string_view kBenchDetails =
    R"(Inputs are written as for 'tscompile run'; tensors that are not given are random if the graph tells
their sizes. Runs before the times have settled are not counted. A quantile is told if there are at
least ten times beyond it.

Examples:
  tscompile bench model.ir --weights model.safetensors --threads 1,2
  tscompile bench model.ir --weights model.safetensors --format json
)";

OptionSpecs benchOptions() {
  return modelOptions() +
         OptionSpecs{
             executorOption(),
             {"--threads", "N,N...", "threads to use; a measurement for each number (default: one for each processor)",
              [](Options& o, const std::string& v) {
                for (std::string_view n : split(v, ',')) o.own.of<BenchCommand>().threads.push_back(threadCount(n, v));
              }},
             {"--duration", "DURATION", "how long each measurement takes, such as 500ms or 10s (default: 3s)",
              [](Options& o, const std::string& v) {
                o.own.of<BenchCommand>().duration =
                    checked(parseDuration(v), "--duration", "a duration such as 500ms or 10s", v);
              }},
         } +
         cuttingOptions();
}

}  // namespace

VerbSpec benchCommand() {
  return {.name = "bench",
          .summary = "measure how long a run takes",
          .argument = "GRAPH",
          .argumentHelp = "graph text or a module dump; -: standard input",
          .argumentRequired = true,
          .details = kBenchDetails,
          .options = benchOptions(),
          .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
          .command = runBench};
}

}  // namespace tscompile
