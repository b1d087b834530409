// `tscompile bench`: how long a run of a graph takes.
#include "api/input_range.h"
#include "api/model_file.h"
#include "api/support/deep_copy.h"
#include "frontend/files/file_io.h"
#include "ir/support/json_fields.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "runtime/call/thread_pool.h"
#include "tools/commands/commands.h"
#include "tools/options/following_sizes.h"
#include "tools/options/option_parts.h"
#include "tools/reports/build_info.h"
#include "tools/reports/diff_benches.h"
#include "tools/reports/processor.h"
#include "tools/reports/statistics.h"
#include "tools/session/machine_memory.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/measured_texts.h"
#include "tools/tasks/refusals.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <sstream>
#include <sys/resource.h>
#include <system_error>
#include <thread>

namespace tscompile {
namespace {

// What bench takes beside the settings of run.
struct BenchCommand {
  std::vector<int> threads;             // one measurement each; none: as many as there are processors
  std::vector<int> callers = {};        // at a time; one measurement each; none: one
  std::vector<std::string> sizes = {};  // one measurement each: "x=1x3x224x224;y=1"; none: as the inputs say
  std::chrono::nanoseconds duration = std::chrono::seconds(3);
  std::string against;  // another model, which runs in turns with this one
  std::vector<std::string> againstWeights;
  std::string baseline;          // a measurement that was saved
  std::optional<double> slower;  // part by which it may be slower
};

// Throws UsageError for what says something of what is not there.
void checkTogether(const BenchCommand& command) {
  if (command.slower && command.baseline.empty())
    throw UsageError{"--fail-if-slower tells by how much it may be slower than --baseline, which is missing"};
  if (!command.againstWeights.empty() && command.against.empty())
    throw UsageError{"--against-weights are those of --against, which is missing"};
  if (!command.against.empty() &&
      std::any_of(command.callers.begin(), command.callers.end(), [](int n) { return n > 1; }))
    throw UsageError{"--concurrency goes without --against: models that run in turns have one caller"};
}

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// How often the system has taken the processor away from this process.
size_t interruptions() {
  rusage used{};
  return getrusage(RUSAGE_SELF, &used) == 0 ? static_cast<size_t>(used.ru_nivcsw) : 0;
}

// A comparison in turns.
struct AgainstFields {
  std::string model;
  std::vector<std::string> inputs;  // as those of the model
  Statistics latency;
  size_t rounds = 0, places = 0;
  Interval ratio;  // the other's time by that of the model
  bool takesSame = true;

  std::string_view verdict() const {
    if (!takesSame) return "different inputs";
    return !isDifference(ratio) ? "no difference" : ratio.middle > 1 ? "slower" : "faster";
  }
  template <class Visit>
  void fields(Visit&& visit) const {
    visit("model", model);
    visit("inputs", inputs);
    visit("latency_ms", latency);
    visit("rounds", rounds);
    visit("places", places);
    visit("ratio", ratio.middle);
    visit("ratio_low", ratio.low);
    visit("ratio_high", ratio.high);
    visit("verdict", verdict());
  }
};

struct BenchResult {
  std::string sizes = {};                // as --sizes has them
  std::vector<std::string> inputs = {};  // "x=1x3x224x224:float32"
  std::vector<std::string> random = {};  // names of those whose integers are 0 and 1 at random
  int threads = 0, callers = 1;
  size_t warmUp = 0;        // runs before those that count
  Statistics latency = {};  // in milliseconds
  double perSecond = 0;
  std::vector<double> samples = {};
  std::vector<std::string> warnings = {};
  std::optional<CutText> cut = {};
  std::optional<AgainstFields> against = {};
  std::string text = {};  // of a language model: what was measured, in words
  int64_t tokens = 0;     // of a run, of all texts

  double tokensPerSecond() const { return perSecond * static_cast<double>(tokens); }

  static constexpr size_t kMostSamples = 10'000;
  template <class Visit>
  void fields(Visit&& visit) const {
    if (!sizes.empty()) visit("sizes", sizes);
    visit("inputs", inputs);
    visit("threads", threads);
    visit("concurrency", callers);
    visit("warm_up_runs", warmUp);
    visit("latency_ms", latency);
    visit("runs_per_second", perSecond);
    if (tokens > 0) visit("tokens_per_second", tokensPerSecond());
    visit("cut", cut);
    visit("against", against);
    visit("warnings", warnings);
    visit("samples_ms", std::vector<double>(samples.begin(), samples.begin() + static_cast<std::ptrdiff_t>(std::min(
                                                                                   samples.size(), kMostSamples))));
  }
};

// A model that is ready to be measured, with its inputs.
struct Candidate {
  Executable model;
  std::vector<IValue> inputs;
  std::vector<std::string> inputTexts;  // what measurements are to have in common to be compared
  std::vector<std::string> random;      // as in BenchResult
  CutText cut;
  std::shared_ptr<const Options> options;  // that it was loaded with
};

class Bench {
 public:
  Bench(const Options& options, Session& session)
      : options_(options), command_(options.own.of<BenchCommand>()), session_(session) {}

  int run() {
    checkTogether(command_);
    const bool isOfTexts = isBuiltModel(options_.arguments[0]);
    if (isOfTexts)
      checkBuiltModelOptions(options_, {"--threads", "--concurrency", "--sizes", "--shape", "--duration", "--baseline",
                                        "--fail-if-slower"});
    if (!command_.baseline.empty() && !isBaseline()) return session_.finish();
    std::vector<std::string> sizes = command_.sizes;
    if (sizes.empty()) sizes.emplace_back();
    bool good = true;
    for (const std::string& size : sizes)
      if (good) good = isOfTexts ? measureTextsAt(size) : measureAt(size);
    const bool interrupted = signal_ != 0;
    session_.progress.end();
    if (!good && !interrupted && !(outOfTime_ && !results_.empty())) return session_.finish();
    if (interrupted) {
      session_.diagnostics.clear();
      session_.note(results_.empty() ? "interrupted before anything was measured"
                                     : "interrupted: these are the measurements until then");
    } else if (outOfTime_) {
      session_.note("the time limit was reached: these are the measurements until then");
    }
    const bool compared = results_.empty() || command_.baseline.empty() || compareWithSaved();
    if (baseline_ && !interrupted && !outOfTime_) warnOfUncompared();
    if (!results_.empty()) session_.common.json ? writeJson(session_.out, *this) : writeText();
    if (outOfTime_) return session_.finish(exitCode(ErrorKind::Limit));
    const int code = session_.finish(baseline_ && isAnySlower(*baseline_) ? kExitNegative : kExitDone);
    return interrupted && compared ? 128 + signal_ : code;
  }

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.bench/1");
    visit("version", buildInfo().version);
    visit("commit", buildInfo().commit);
    visit("processor", processorName());
    visit("model", options_.arguments[0]);
    visit("checksum", checksum_);
    visit("executor", executorText());
    visit("load_ms", loading_);
    visit("first_run_ms", first_);
    visit("peak_memory_bytes", peakMemory());
    visit("results", Lines{results_});
    if (baseline_) visit("baseline", *baseline_);
  }

 private:
  // How many to measure with.
  std::vector<int> threads() const {
    return command_.threads.empty() ? std::vector{defaultThreads()} : command_.threads;
  }
  std::vector<int> callers() const { return command_.callers.empty() ? std::vector{1} : command_.callers; }

  // Before anything is measured.
  bool isBaseline() {
    if (!session_.read(command_.baseline)) return false;
    if (isBenchReport(command_.baseline))
      return hasMeasurements(command_.baseline, threads(), callers(), session_.diagnostics);
    session_.diagnostics.fileError(command_.baseline, {}, "expected what 'tscompile bench --format json' has written");
    return false;
  }

  // Fails after a report.
  bool compareWithSaved() {
    std::ostringstream measured;
    writeJson(measured, *this);
    Result<std::vector<BenchComparison>> rows =
        compareWithBaseline(command_.baseline, measured.str(), command_.slower.value_or(kBenchNoise), session_);
    if (rows) baseline_ = std::move(*rows);
    return bool(rows);
  }

  // A gate that holds nothing against a measurement is no gate for it.
  void warnOfUncompared() {
    const auto lacks = [](const BenchComparison& r) { return !r.a; };
    const auto count = static_cast<size_t>(std::ranges::count_if(*baseline_, lacks));
    if (count > 0)
      warn(fmt::format("{} of {} has nothing in {} to be compared with", count, counted(results_.size(), "measurement"),
                       command_.baseline));
  }

  std::string_view executorText() const {
    return options_.run.executor == ExecutorChoice::Interpreter ? "interpreter" : "engine";
  }

  // A model of the command line, compiled for the sizes of its inputs.
  static std::optional<Candidate> load(std::shared_ptr<const Options> options, Session& session) {
    std::optional<Executable> given = loadAsGiven(*options, session);
    if (!given) return std::nullopt;
    std::vector<std::string> random;
    Result<std::vector<IValue>> inputs = readInputs(*given, *options, true, session, &random);
    if (!inputs) return std::nullopt;
    CutText cut;
    std::vector<std::string> texts = givenTexts(given->method.inputs(), *inputs);
    std::optional<Executable> model = withEngines(std::move(*given), *options, session, *inputs, /*sized=*/true, &cut);
    if (!model) return std::nullopt;
    session.noteUnusedWeights(model->module.unusedWeights());
    return Candidate{std::move(*model), std::move(*inputs), std::move(texts),
                     std::move(random), std::move(cut),     std::move(options)};
  }

  Options optionsAt(const std::string& sizes) const {
    Options out = options_;
    if (sizes.empty()) return out;
    std::vector<InputRange> said;
    for (std::string_view one : split(sizes, ';')) {
      const bool isNamed = one.find('=') != std::string_view::npos;
      const std::string text = isNamed ? std::string(one) : unnamedSizes(said) + "=" + std::string(one);
      std::optional<InputRange> range = parseInputRange(text);
      if (!range || isUnnamed(one) || range->least != range->most)
        throw UsageError{"--sizes takes NAME=SIZES;NAME=SIZES, such as x=8x3x224x224, not '" + abbreviate(sizes, 80) +
                         "'"};
      said.push_back(std::move(*range));
    }
    // They take the place of those of --shape.
    std::vector<InputRange>& shapes = out.partition.spec.shapes;
    std::erase_if(
        shapes, [&](const InputRange& r) { return std::ranges::find(said, r.name, &InputRange::name) != said.end(); });
    shapes.insert(shapes.end(), said.begin(), said.end());
    return out;
  }

  // A language model that was built: its prompts, and the tokens that follow.
  bool measureTextsAt(const std::string& sizes) {
    const std::vector<InputRange> said = optionsAt(sizes).partition.spec.shapes;
    for (int n : threads()) {
      const Clock::time_point start = Clock::now();
      const std::unique_ptr<MeasuredTexts> texts = MeasuredTexts::load(options_.arguments[0], n, session_);
      if (!texts) return false;
      if (results_.empty()) {
        loading_ = millisecondsSince(start);
        checksum_ = checksumOfFile(texts->engine());
        cache_ = texts->cacheText();
      }
      for (int c : callers())
        if (!measureTexts(*texts, said, n, c)) return false;
    }
    return true;
  }

  bool measureTexts(MeasuredTexts& texts, const std::vector<InputRange>& said, int threads, int callers) {
    const Result<TextLengths> lengths = texts.lengths(said, callers, session_.diagnostics);
    if (!lengths) return false;
    std::optional<InterruptScope> interrupts(std::in_place);
    texts.model().interruptBy(&interrupts->interrupted());
    session_.progress.step("measuring with " + counted(static_cast<size_t>(threads), "thread") +
                           (callers > 1 ? fmt::format(" and {} texts", callers) : ""));
    std::vector<double> prompts, steps;
    const size_t before = interruptions();
    bool whole = texts.run(*lengths, callers, prompts, steps, session_.diagnostics);
    if (results_.empty() && !prompts.empty()) first_ = prompts[0];
    if (whole) prompts.clear(), steps.clear();
    const Clock::time_point start = Clock::now();
    const double longest = std::chrono::duration<double, std::milli>(command_.duration).count();
    while (whole && (prompts.size() < 3 || millisecondsSince(start) < longest))
      whole = texts.run(*lengths, callers, prompts, steps, session_.diagnostics);
    signal_ = interrupts->signal();
    outOfTime_ = !whole && !signal_ && isOutOfTime();
    if (outOfTime_) endTimeLimit();
    texts.model().interruptBy(nullptr);
    if (!whole && !signal_ && !outOfTime_) return false;
    const std::string prompt = fmt::format("prompt={}", lengths->prompt);
    addTexts({.sizes = prompt, .inputs = {prompt}, .threads = threads, .callers = callers, .warmUp = 1}, prompts,
             fmt::format("a prompt of {}, to the first token", counted(static_cast<size_t>(lengths->prompt), "token")),
             lengths->prompt, interruptions() - before);
    const std::string more = fmt::format("{};new={}", prompt, lengths->more);
    addTexts({.sizes = more,
              .inputs = {more},
              .threads = threads,
              .callers = callers,
              .warmUp = static_cast<size_t>(lengths->more)},
             steps, fmt::format("a token after it, {} one after the other", lengths->more), 1, 0);
    return whole;
  }

  void addTexts(BenchResult result, std::vector<double>& samples, std::string text, int64_t tokens, size_t taken) {
    if (samples.empty()) return;
    result.samples = std::move(samples);
    result.latency = statisticsOf(result.samples);
    result.perSecond = 1e3 / result.latency.mean;
    result.text = std::move(text);
    result.tokens = tokens * result.callers;
    warnIfDisturbed(result, taken);
    warn(result);
    results_.push_back(std::move(result));
  }

  static void warnIfDisturbed(BenchResult& result, size_t taken) {
    if (taken > 20 && static_cast<double>(taken) > 0.2 * static_cast<double>(result.samples.size()))
      result.warnings.push_back(fmt::format("disturbed: other work took the processor away {} times in {}", taken,
                                            counted(result.samples.size(), "run")));
  }

  bool measureAt(const std::string& sizes) {
    Options options = optionsAt(sizes);
    const bool isOtherMade = !command_.against.empty() && modelFileOf(command_.against) != ModelFile::Engine;
    if (isOtherMade) options.said.clear();  // how engines are made is said for it, if not for the first
    Clock::time_point start = Clock::now();
    std::optional<Candidate> model = load(std::make_shared<Options>(options), session_);
    if (!model) return false;
    if (results_.empty()) {
      loading_ = millisecondsSince(start);
      checksum_ = checksumOfFile(options_.arguments[0]);
    }
    std::optional<Candidate> other;
    if (!command_.against.empty()) {
      Options against = options;
      against.arguments[0] = command_.against;
      against.said.clear();
      if (!command_.againstWeights.empty()) against.run.weights = command_.againstWeights;
      if (modelFileOf(command_.against) != ModelFile::Text) against.run.weights.clear();
      if (!(other = load(std::make_shared<Options>(std::move(against)), session_))) return false;
    }
    if (!command_.baseline.empty() && command_.sizes.size() <= 1 &&
        !hasInputs(command_.baseline, model->inputTexts, session_.diagnostics))
      return false;
    session_.report();
    for (int n : threads())
      for (int c : callers()) {
        BenchResult result;
        result.sizes = sizes;
        result.inputs = model->inputTexts;
        result.random = model->random;
        result.threads = n;
        result.callers = c;
        if (model->cut.known()) result.cut = model->cut;
        if (!measure(*model, other ? &*other : nullptr, result)) return false;
      }
    return true;
  }

  // Runs until `milliseconds` have passed, and `least` times. False after a report, or if the run was interrupted.
  bool repeat(const Candidate& c, double milliseconds, size_t least, std::vector<double>& samples,
              Diagnostics& diagnostics) {
    RunOptions settings = settings_;
    Clock::time_point start = Clock::now();
    while (samples.size() < least || (millisecondsSince(start) < milliseconds && samples.size() < kMostRuns)) {
      if (isOutOfTime()) {
        diagnostics.error(timeLimitPassed(), ErrorKind::Limit);
        return false;
      }
      settings.timeLimit = remainingTime();
      Clock::time_point begin = Clock::now();
      if (!c.model.method.run(c.inputs, diagnostics, settings)) return false;
      samples.push_back(millisecondsSince(begin));
    }
    return true;
  }

  // Runs windows until the medians of two that follow each other agree, for a second at most.
  bool warmUp(const Candidate& c, BenchResult& result) {
    Clock::time_point start = Clock::now();
    double before = 0;
    do {
      std::vector<double> window;
      if (!repeat(c, kWindow, 3, window, session_.diagnostics)) return false;
      result.warmUp += window.size();
      double median = statisticsOf(window).median;
      if (std::abs(median - before) < 0.01 * before) break;
      before = median;
    } while (millisecondsSince(start) < kLongestWarmUp);
    return true;
  }

  bool measure(const Candidate& model, const Candidate* other, BenchResult& result) {
    std::optional<InterruptScope> interrupts(std::in_place);
    settings_ = runOptions(options_.run, *interrupts, session_);
    settings_.threads = result.threads;
    session_.progress.step("measuring with " + counted(static_cast<size_t>(result.threads), "thread") +
                           (result.callers > 1 ? fmt::format(" and {} callers", result.callers) : ""));
    bool whole = firstRun(model, result);
    settings_ = silent(settings_);
    whole = whole && warmUp(model, result) && (!other || warmUp(*other, result)) && sample(model, other, result);
    signal_ = interrupts->signal();
    outOfTime_ = !whole && !signal_ && isOutOfTime();
    if (outOfTime_) endTimeLimit();
    interrupts.reset();  // what follows may take as long as it does
    if (whole || ((signal_ || outOfTime_) && !result.samples.empty())) {
      result.latency = statisticsOf(result.samples);
      warn(result);
      results_.push_back(std::move(result));
    }
    return whole;
  }

  bool firstRun(const Candidate& model, BenchResult& result) {
    if (!results_.empty()) return true;
    RefusalWatch refusals;
    std::vector<double> first;
    if (!repeat(model, 0, 1, first, session_.diagnostics)) return false;
    result.warnings = refusalTexts(refusals);
    first_ = first[0];
    result.warmUp = 1;
    return true;
  }

  bool sample(const Candidate& model, const Candidate* other, BenchResult& result) {
    const double longest = std::chrono::duration<double, std::milli>(command_.duration).count();
    const size_t before = interruptions();
    const Clock::time_point start = Clock::now();
    bool good = other                ? inTurns(model, *other, longest, result)
                : result.callers > 1 ? together(model, longest, result)
                                     : repeat(model, longest, 3, result.samples, session_.diagnostics);
    const double seconds = millisecondsSince(start) / 1e3;
    if (!other && seconds > 0) result.perSecond = static_cast<double>(result.samples.size()) / seconds;
    if (other) result.perSecond = 1e3 / statisticsOf(result.samples).mean;
    warnIfDisturbed(result, interruptions() - before);
    return good;
  }

  // Each caller is a thread with inputs of its own, as in a server.
  bool together(const Candidate& model, double milliseconds, BenchResult& result) {
    const auto count = static_cast<size_t>(result.callers);
    std::vector<std::vector<double>> samples(count);
    std::vector<Diagnostics> diagnostics(count);
    std::vector<char> good(count, 1);
    std::vector<Candidate> copies(count, model);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i) copies[i].inputs = deepCopy(model.inputs);
    bool all = true;
    try {
      for (size_t i = 0; i < count; ++i)
        threads.emplace_back([&, i] { good[i] = repeat(copies[i], milliseconds, 3, samples[i], diagnostics[i]); });
    } catch (const std::system_error& e) {
      all = false;
      session_.diagnostics.error(fmt::format("only {} of {} could be started: {}", threads.size(),
                                             counted(count, "caller"), e.code().message()),
                                 ErrorKind::Limit);
    }
    for (std::thread& t : threads) t.join();
    for (size_t i = 0; i < count; ++i) {
      result.samples.insert(result.samples.end(), samples[i].begin(), samples[i].end());
      if (all && !good[i])
        for (const Diagnostic& d : diagnostics[i].list()) session_.diagnostics.add(d);
      all &= good[i] != 0;
    }
    return all;
  }

  // The same at other addresses: made anew while the old one is still there, behind some memory that nothing uses.
  // False if that cannot be.
  bool move(Candidate& c, std::vector<std::vector<char>>& gaps) {
    if (c.options->arguments[0] == "-") return false;
    gaps.emplace_back((gaps.size() % 7 * 37 + 5) * 1024 + gaps.size() * 64);
    CommonOptions common = c.options->common;
    common.quiet = true;
    std::istringstream nothing;
    std::ostringstream unheard;
    Session session(common, nothing, unheard, unheard);
    session.extensions = session_.extensions;
    std::optional<Candidate> made = load(c.options, session);
    std::vector<double> first;
    if (!made || !repeat(*made, 0, 2, first, session.diagnostics)) return false;
    c = std::move(*made);
    return true;
  }

  // One block of runs of each, the other one first in every second round: what comes and goes meets both alike. How
  // fast a model is depends on where its tensors lie, by some percent: both move again and again, as far as there is
  // time.
  bool inTurns(Candidate model, Candidate other, double milliseconds, BenchResult& result) {
    constexpr size_t kRounds = 60, kPerPlace = 3;
    std::vector<PlacedRounds> places;
    std::vector<double> otherSamples;
    std::vector<std::vector<char>> gaps;
    double moving = 0;
    bool mayMove = true;
    const double block = std::max(milliseconds / (2 * kRounds), 0.0);
    auto moveBoth = [&] {
      const Clock::time_point start = Clock::now();
      const bool swapped = places.size() % 2 == 1;
      mayMove = move(swapped ? other : model, gaps) && move(swapped ? model : other, gaps);
      moving += millisecondsSince(start);
      mayMove &= moving <= milliseconds;
    };
    auto turn = [&](const Candidate& c, std::vector<double>& medians, std::vector<double>& all) {
      std::vector<double> samples;
      if (!repeat(c, block, 1, samples, session_.diagnostics)) return false;
      medians.push_back(statisticsOf(samples).median);
      all.insert(all.end(), samples.begin(), samples.end());
      return true;
    };
    bool good = true;
    size_t rounds = 0;
    for (size_t round = 0; good && round < kRounds; ++round) {
      if (round % kPerPlace == 0 && mayMove) {
        if (round > 0) moveBoth();
        places.emplace_back();
      }
      PlacedRounds& place = places.back();
      const bool swapped = round % 2 == 1;
      good = swapped ? turn(other, place.second, otherSamples) && turn(model, place.first, result.samples)
                     : turn(model, place.first, result.samples) && turn(other, place.second, otherSamples);
      rounds += good;
    }
    result.against = AgainstFields{command_.against, other.inputTexts, statisticsOf(otherSamples),
                                   rounds,           places.size(),    ratioAtPlaces(places)};
    result.against->takesSame = valuesOf(result.inputs) == valuesOf(result.against->inputs);
    return good;
  }

  // Sizes, dtypes and numbers without the names, which are of no weight.
  static std::vector<std::string> valuesOf(std::vector<std::string> inputs) {
    for (std::string& text : inputs) text.erase(0, text.find('=') + 1);
    return inputs;
  }

  void warn(BenchResult& result) {
    auto say = [&](std::string text) { result.warnings.push_back(std::move(text)); };
    if (result.against && !result.against->takesSame)
      say(
          fmt::format("the models take different inputs, {} and {}: their times tell nothing of each other; --sizes or "
                      "--input say sizes that both take",
                      fmt::join(result.inputs, ", "), fmt::join(result.against->inputs, ", ")));
    if (result.latency.variation() > kSteady)
      say(fmt::format("the times vary by {:.1f} % of their mean: compare minima and medians, not means",
                      100 * result.latency.variation()));
    // Texts that go on at the same time share the steps of one model.
    const int threads = result.threads * (result.tokens > 0 ? 1 : result.callers);
    if (threads > defaultThreads())
      say(fmt::format("there {} only {} for {} threads", defaultThreads() == 1 ? "is" : "are",
                      counted(static_cast<uint64_t>(defaultThreads()), "processor"), threads));
    if (std::string busy = otherWork(result.threads); results_.empty() && !busy.empty()) say(std::move(busy));
  }

  void warn(std::string text) {
    Diagnostic d;
    d.severity = Severity::Warning;
    d.message = std::move(text);
    session_.diagnostics.add(std::move(d));
  }

  void writeInputs(std::ostream& out) const {
    constexpr size_t kMost = 32;
    const std::vector<std::string>& inputs = results_.front().inputs;
    for (size_t i = 0; i < std::min(inputs.size(), kMost); ++i) {
      const bool isRandom = std::ranges::count(results_.front().random, inputs[i].substr(0, inputs[i].find('='))) > 0;
      out << "input     " << inputs[i] << (isRandom ? "  0 and 1 at random" : "") << '\n';
    }
    if (inputs.size() > kMost) out << "          and " << inputs.size() - kMost << " more\n";
  }

  void writeText() {
    std::ostream& out = session_.out;
    out << fmt::format("executor  {}\n", executorText());
    const bool isOfTexts = results_.front().tokens > 0;
    if (isOfTexts) out << "cache     " << cache_ << '\n';
    if (command_.sizes.empty() && !isOfTexts) writeInputs(out);
    if (const auto& cut = results_.front().cut) {
      out << "engines   " << cut->summary() << '\n';
      if (!cut->firstReason.empty()) out << "reason    " << cut->firstReason << '\n';
      if (!cut->hint.empty()) out << "hint      " << cut->hint << '\n';
    }
    out << fmt::format("load      {:.3g} ms\nfirst run {:.3g} ms\nmemory    {} at most\n", loading_, first_,
                       sizeText(peakMemory()));
    out << "\nthreads callers      runs  warm-up     min ms     p50 ms  +/- %    mean ms     p90 ms     p95 ms     p99 "
           "ms   p99.9 ms "
        << (isOfTexts ? " tokens/s\n" : "   runs/s\n");
    const std::string* sizes = nullptr;
    for (const BenchResult& r : results_) {
      if (!r.sizes.empty() && (!sizes || *sizes != r.sizes))
        out << r.sizes << (r.text.empty() ? "" : "  " + r.text) << '\n';
      sizes = &r.sizes;
      const Statistics& s = r.latency;
      auto known = [&](double q, double v) { return s.count >= samplesFor(q) ? fmt::format("{:.5g}", v) : "n/a"; };
      const double part = s.median > 0 ? 50 * (s.high - s.low) / s.median : 0;
      out << fmt::format(
          "{:>7} {:>7} {:>9} {:>8} {:>10.5g} {:>10.5g} {:>6.1f} {:>10.5g} {:>10} {:>10} {:>10} {:>10} "
          "{:>9.5g}\n",
          r.threads, r.callers, s.count, r.warmUp, s.min, s.median, part, s.mean, known(0.9, s.p90), known(0.95, s.p95),
          known(0.99, s.p99), known(0.999, s.p999), isOfTexts ? r.tokensPerSecond() : r.perSecond);
      if (const auto& a = r.against)
        out << fmt::format("  against {}: {:.5g} ms, ratio {:.3f} ({:.3f} to {:.3f}) in {} rounds at {}: {}\n",
                           a->model, a->latency.median, a->ratio.middle, a->ratio.low, a->ratio.high, a->rounds,
                           counted(a->places, "place"), a->verdict());
    }
    if (baseline_) {
      out << "\nbeside " << command_.baseline << '\n';
      writeComparisons(*baseline_, out);
    }
    for (const BenchResult& r : results_)
      for (const std::string& w : r.warnings)
        warn(fmt::format("{}with {}{}: {}", r.sizes.empty() ? "" : r.sizes + " ",
                         counted(static_cast<size_t>(r.threads), "thread"),
                         r.callers > 1 ? fmt::format(" and {} callers", r.callers) : "", w));
  }

  static constexpr double kWindow = 50, kLongestWarmUp = 1000;  // milliseconds
  static constexpr double kSteady = 0.025;
  static constexpr size_t kMostRuns = 10'000'000;

  const Options& options_;
  const BenchCommand& command_;
  Session& session_;
  RunOptions settings_;
  int signal_ = 0;
  bool outOfTime_ = false;
  double loading_ = 0, first_ = 0;
  std::string checksum_;
  std::string cache_;  // of a language model
  std::vector<BenchResult> results_;
  std::optional<std::vector<BenchComparison>> baseline_;
};

}  // namespace

static int runBench(const Options& options, Session& session) { return Bench(options, session).run(); }

namespace {

constexpr std::string_view kBenchDetails =
    R"(Inputs are written as for 'tscompile run'; tensors that are not given are random if the graph tells
their sizes, or --shape, --sizes or the range of an engine file does. Engines are made for these sizes.
Runs before the times have settled are not counted. A quantile is told if there are at least ten times
beyond it; the median lies within what stands beside it with 95 %.

With --against both models run in turns, so that what disturbs one disturbs the other. The ratio is the
other's time by the model's; a difference is told if 1 lies outside of the ratio's interval of 99 %. Both
are made anew at other places in memory now and then, for these alone may make some percent.
Ctrl-C and --limit-time end the measurement and keep what there is; before the first time there is
nothing to write.
What the model itself prints is heard of its first run.

Of a language model that was built (a folder) the time of a prompt is measured, until its first token, and
that of each token after it. --sizes 'prompt=512;new=64' says how many; --concurrency how many texts go on
at the same time.

Examples:
  tscompile bench model.ir --weights model.safetensors --threads 1,2
  tscompile bench model.ir --weights model.safetensors --format json
  tscompile bench model.ir -w model.safetensors --sizes x=1x3x224x224 --sizes x=8x3x224x224
  tscompile bench old.tse --against new.tse
  tscompile bench model.tse --baseline main.json --fail-if-slower 5
  tscompile bench built --sizes 'prompt=512;new=64' --concurrency 1,8
)";

void append(std::vector<int>& list, const std::vector<int>& more) { list.insert(list.end(), more.begin(), more.end()); }

OptionSpecs benchOptions() {
  return modelOptions() +
         OptionSpecs{
             executorOption(),
             {"--threads", "N,N..M",
              "threads to use; a measurement for each number, as in 1,2,4, 1..4 or 1..16*2 (default: one for each "
              "processor)",
              [](Options& o, const std::string& v) {
                append(o.own.of<BenchCommand>().threads, countList("--threads", v, 4096));
              }},
             {"--concurrency", "N,N..M", "callers at a time; a measurement for each number (default: 1)",
              [](Options& o, const std::string& v) {
                append(o.own.of<BenchCommand>().callers, countList("--concurrency", v, 256));
              }},
             {"--sizes", "SIZES", "measure with random inputs of these sizes, such as 'x=8x3x224x224;y=8x10:i64'",
              [](Options& o, const std::string& v) { o.own.of<BenchCommand>().sizes.push_back(v); }, true},
             {"--against", "FILE", "another model that runs in turns with this one, to tell which is faster",
              [](Options& o, const std::string& v) { o.own.of<BenchCommand>().against = v; }},
             {"--against-weights", "FILE", "of the other model (default: those of the model)",
              [](Options& o, const std::string& v) { o.own.of<BenchCommand>().againstWeights.push_back(v); }, true},
             {"--baseline", "FILE", "what --format json wrote earlier: compare, with exit code 1 if it is slower now",
              [](Options& o, const std::string& v) { o.own.of<BenchCommand>().baseline = v; }},
             {"--fail-if-slower", "PERCENT", "by how much it may be slower than --baseline (default: 3)",
              [](Options& o, const std::string& v) {
                o.own.of<BenchCommand>().slower = percentage("--fail-if-slower", v);
              }},
             settingOption("shape"),
             {"--duration", "DURATION",
              "how long each measurement takes, such as 500ms or 10s; without a unit: seconds (default: 3s)",
              [](Options& o, const std::string& v) {
                o.own.of<BenchCommand>().duration = duration("--duration", "500ms or 10s", v);
              }},
         } +
         precisionOptions() + cuttingOptions();
}

}  // namespace

VerbSpec benchCommand() {
  return {.name = "bench",
          .summary = "measure how long a run takes",
          .argument = "GRAPH",
          .argumentHelp = kMeasuredModels,
          .argumentRequired = true,
          .details = kBenchDetails,
          .options = benchOptions(),
          .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
          .command = runBench};
}

}  // namespace tscompile
