// `tscompile report`: one page about a model, to look at: where its time goes, what runs where and why.
#include "api/engine_cut.h"
#include "api/engine_file.h"
#include "api/profile/run_profile.h"
#include "api/support/deep_copy.h"
#include "api/value_text.h"
#include "api/verify.h"
#include "frontend/files/file_io.h"
#include "frontend/files/section_file.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "partition/stitch.h"
#include "passes/lowering/assumed_weights.h"
#include "runtime/call/thread_pool.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/pages/markup.h"
#include "tools/pages/model_report.h"
#include "tools/pages/peaks.h"
#include "tools/reports/build_info.h"
#include "tools/reports/crash_report.h"
#include "tools/reports/processor.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/measured_texts.h"
#include "tools/tasks/option_effects.h"
#include "tools/tasks/partitioning.h"
#include "tools/tasks/refusals.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <sstream>
#include <unordered_set>

namespace tscompile {
namespace {

struct ReportCommand {
  std::string output;
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
  bool runs = true, compares = true;
  double relative = 1e-3, absolute = 1e-4;
};

using Clock = std::chrono::steady_clock;

double millisecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

// Bytes of the tensors that are constants, each storage once.
double weightBytes(const Graph& graph) {
  std::unordered_set<const void*> seen;
  double out = 0;
  auto add = [&](const Graph& g) {
    forEachNode(g, [&](const Node* n) {
      const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
      if (v && v->isTensor() && v->toTensor().storage() && seen.insert(v->toTensor().storage().get()).second)
        out += static_cast<double>(v->toTensor().numel()) * static_cast<double>(itemSize(v->toTensor().dtype()));
    });
  };
  add(graph);
  forEachNode(graph, [&](const Node* n) {
    if (n->subgraph()) add(*n->subgraph());
  });
  return out;
}

// Of an engine file, whose engines hold them.
double tensorBytes(const Ref<FileMapping>& file, const std::string& path) {
  Diagnostics unheard;
  Result<EngineFile> engines = parseEngineFile(file->bytes(), file.get(), path, unheard);
  double out = 0;
  if (engines)
    for (const auto& [name, tensor] : engines->tensors)
      out += static_cast<double>(tensor.numel()) * static_cast<double>(itemSize(tensor.dtype()));
  return out;
}

// "f32 [2, 4]", and of containers "{"bias": f32 [4]}".
std::string givenText(const IValue& value) {
  constexpr size_t kMostItems = 8;
  auto joined = [](const std::vector<std::string>& texts, char open, char close) {
    std::string out(1, open);
    for (size_t i = 0; i < texts.size() && i < kMostItems; ++i) out += (i ? ", " : "") + texts[i];
    if (texts.size() > kMostItems) out += fmt::format(" and {} more", texts.size() - kMostItems);
    return out + close;
  };
  std::vector<std::string> items;
  if (value.isTensor() && value.tensorImpl())
    return std::string(shortName(value.toTensor().dtype())) + " " + dimsText(value.toTensor().sizes());
  if (value.isList() || value.isTuple()) {
    for (const IValue& item : value.isList() ? value.toList().items : value.toTuple().items)
      items.push_back(items.size() < kMostItems ? givenText(item) : "");
    return joined(items, value.isList() ? '[' : '(', value.isList() ? ']' : ')');
  }
  if (value.isDict()) {
    value.toDict().forEach([&](const IValue& key, const IValue& item) {
      items.push_back(items.size() < kMostItems ? givenText(key) + ": " + givenText(item) : "");
    });
    return joined(items, '{', '}');
  }
  return abbreviate(valueToText(value), 80);
}

class Reporter {
 public:
  Reporter(const Options& options, Session& session)
      : options_(options), command_(options.own.of<ReportCommand>()), session_(session) {}

  int run() {
    if (command_.output.empty() && !session_.common.json)
      throw UsageError{"report needs a file to write", {"name it with --output, such as -o report.html"}};
    checkTogether();
    if (!(!command_.runs ? look() : isBuilt_ ? readTexts() : measure())) return fail();
    session_.progress.step("writing the report");
    std::ostringstream text;
    session_.common.json ? writeReportData(*report_, text) : void(text << reportPage(*report_));
    session_.progress.end();
    if (command_.output.empty() || command_.output == "-")
      session_.out << text.view();
    else
      writeFile(command_.output, text.view(), session_.diagnostics);
    return session_.finish();
  }

 private:
  // Throws UsageError for what would have no effect.
  void checkTogether() const {
    if (!command_.runs)
      refuseBeside(options_,
                   {"--input", "--inputs", "--seed", "--threads", "--duration", "--rtol", "--atol", "--no-compare"},
                   "--no-run");
    if (!command_.compares) refuseBeside(options_, {"--rtol", "--atol"}, "--no-compare");
    if (isBuilt_)
      checkBuiltModelOptions(options_, {"-o", "--output", "--no-run", "--threads", "--duration", "--shape"});
  }

  int fail() {
    const int code = session_.finish();
    return signal_ ? 128 + signal_ : code;
  }

  // What can be told without running, or weights.
  bool look() {
    const std::string path = isBuilt_ ? builtEngineOf(options_.arguments[0]) : options_.arguments[0];
    Result<Module> module = session_.loadModule(path, options_.run.weights);
    if (!module) return false;
    checkOptionEffects(options_, *module);
    CompileSpec spec = specOf();
    if (const Graph* entry = module->graph(spec.lowering.method); entry && !module->engineInfo()) {
      checkShapes(spec, *entry);
      spec.lowering.arguments.emplace(kAssumedWeights, true);
      Result<Prepared> prepared = prepareForPartition(*module, spec, session_.diagnostics);
      if (!prepared || !reportUnmatched(*prepared, session_.diagnostics)) return false;
      std::optional<EngineCut> cut =
          cutIntoEngines(*prepared, partitionOptionsOf(spec), spec.engine, false, session_.diagnostics);
      if (!cut) return false;
      prepared_ = std::move(*prepared), partition_ = std::move(cut->partition);
      stitched_ = stitch(*prepared_->graph, *partition_);
      describe(*stitched_, *entry);
      modules_ = {std::move(*module)};
      return true;
    }
    const bool good = describeEngineFile(*module);
    modules_ = {std::move(*module)};
    return good;
  }

  bool describeEngineFile(const Module& module) {
    Result<Method> method = module.prepare(session_.diagnostics, options_.run.method);
    const Graph* graph = method ? module.graph(options_.run.method) : nullptr;
    if (graph) describe(*graph, *graph);
    return graph != nullptr;
  }

  // Of a language model that was built a run is a text, from its prompt to its last token.
  bool readTexts() {
    const Clock::time_point start = Clock::now();
    texts_ = MeasuredTexts::load(options_.arguments[0], static_cast<int>(options_.run.threads), session_);
    Result<TextLengths> lengths = texts_ ? texts_->lengths(options_.partition.spec.shapes, 1, session_.diagnostics)
                                         : Result<TextLengths>(Failed{});
    const Graph* graph = lengths ? texts_->model().module().graph("forward") : nullptr;
    if (!graph) return false;
    const double loading = millisecondsSince(start);
    describe(*graph, *graph);
    report_->inputs = {{"prompt", "tokens", std::to_string(lengths->prompt)},
                       {"new", "tokens", std::to_string(lengths->more)}};
    report_->run.emplace();
    report_->run->loadMs = loading;
    report_->run->threads = options_.run.threads ? static_cast<int>(options_.run.threads) : defaultThreads();
    InterruptScope interrupts;
    texts_->model().interruptBy(&interrupts.interrupted());
    std::vector<double> prompts, steps;
    const auto readText = [&] { return texts_->run(*lengths, 1, prompts, steps, session_.diagnostics); };
    session_.progress.step("running");
    const Clock::time_point first = Clock::now();
    bool good = readText();
    report_->run->firstMs = millisecondsSince(first);
    good = good && sample(readText) && watch(texts_->model().module().registry(), readText);
    texts_->model().interruptBy(nullptr);
    signal_ = interrupts.signal();
    if (good) report_->run->peaks = measurePeaks(report_->run->threads);
    return good;
  }

  bool measure() {
    const Clock::time_point start = Clock::now();
    std::optional<Executable> given = loadAsGiven(options_, session_);
    if (!given) return false;
    if (given->module.engineInfo())
      refuseBeside(options_, {"--rtol", "--atol"}, "a model: engine files are not compared");
    CompileSpec spec = specOf();
    Result<std::vector<IValue>> inputs = readInputs(*given, options_, true, session_);
    if (!inputs) return false;
    inputs_ = std::move(*inputs);
    std::optional<Executable> model = compile(*given, std::move(spec));
    if (!model) return false;
    const double loading = millisecondsSince(start);
    session_.noteUnusedWeights(model->module.unusedWeights());
    const Graph* graph = model->module.graph("forward");
    const Graph* entry = given->module.graph(options_.run.method);
    if (!graph || !entry) return false;
    describe(*graph, *entry);
    report_->run.emplace();
    report_->run->loadMs = loading;
    const bool good = runs(*given, *model);
    modules_ = {std::move(given->module), std::move(model->module)};
    return good;
  }

  CompileSpec specOf() const {
    CompileSpec spec = compileSpecOf(options_.partition, session_);
    spec.lowering.method = options_.run.method;
    return spec;
  }

  // Engines for the sizes of the inputs, unless the file has engines already.
  std::optional<Executable> compile(const Executable& given, CompileSpec spec) {
    modelInputs_ = inputs_;
    if (given.module.engineInfo()) return given;
    const std::vector<ValueInfo> infos = given.method.inputs();
    const Graph* entry = given.module.graph(options_.run.method);
    if (entry) checkShapes(spec, *entry);
    if (!bindInputs(spec, options_, entry, session_)) return std::nullopt;
    addSizes(spec, infos, inputs_);
    bindNone(spec, infos, inputs_);
    removeAt(modelInputs_, boundInputs(spec, infos));
    spec.onPartition = [&](const Prepared& prepared, const Partition& partition) {
      prepared_ = prepared;
      partition_ = partition;
      hasData_ = true;
    };
    session_.progress.step("building engines");
    Result<Module> module = given.module.compiled(spec, session_.diagnostics);
    if (!module) return std::nullopt;
    Result<Method> method = module->prepare(session_.diagnostics, "forward");
    if (!method) return std::nullopt;
    return Executable{std::move(*module), std::move(*method), given.defaults};
  }

  void describe(const Graph& graph, const Graph& entry) {
    const Partition* cut = partition_ ? &*partition_ : nullptr;
    report_.emplace(ReportGraph(graph, cut));
    ModelReport& r = *report_;
    r.path = options_.arguments[0];
    r.method = options_.run.method;
    r.version = buildInfo().version;
    r.processor = processorName();
    r.made = "tscompile";
    for (const std::string& word : rememberedCommandLine())
      r.made += ' ' + (word.find_first_of(" '\"$;") == std::string::npos ? word : jsonQuote(word));
    Diagnostics unheard;
    const std::string path = isBuilt_ ? builtEngineOf(r.path) : r.path;
    if (Ref<FileMapping> file = path == "-" ? Ref<FileMapping>() : FileMapping::open(path, unheard)) {
      r.bytes = file->bytes().size();
      r.checksum = fmt::format("{:016x}", checksumOf(file->bytes()));
      if (isEngineFile(path)) r.weightBytes = tensorBytes(file, path);
    }
    if (r.weightBytes == 0) r.weightBytes = weightBytes(graph);
    size_t at = 0;
    for (const Value* v : entry.inputs())
      if (!v->type()->is(TypeKind::Class))
        r.inputs.push_back({shown("%" + v->name()), shown(typeText(v->type())),
                            at < inputs_.size() ? shown(givenText(inputs_[at]), 400) : ""}),
            ++at;
    for (const Use& u : entry.outputs())
      r.outputs.push_back({shown("%" + u.value->name()), shown(typeText(u.value->type())), ""});
    for (const ReportSegment& s : r.graph.segments) {
      r.nodes += s.nodes;
      r.nodesInEngines += s.isEngine ? s.nodes : 0;
      r.engines += s.isEngine;
    }
    if (cut) explain();
  }

  void explain() {
    const Repartition again = recuts(*prepared_, specOf().engine, hasData_);
    std::istringstream lines(explainSegments(*prepared_->graph, *partition_, again));
    for (std::string line; std::getline(lines, line);) report_->explanation.push_back(shown(line, 400));
    // With the numbers of partition, which leaves out nodes that only wrap what others give.
    report_->nodes = partition_->nodeCount();
    report_->nodesInEngines = partition_->acceleratedCount();
    for (size_t size : {1, 2, 3, 5, 10, 20, 50}) {
      PartitionOptions options = partitionOptionsOf(specOf());
      options.minBlockSize = size;
      options.countsGains = false;
      const Partition p = again(options);
      report_->sweep.push_back({size, p.segments.size(), p.count(Target::Accelerated), coverage(p)});
    }
  }

  bool runs(const Executable& given, const Executable& model) {
    InterruptScope interrupts;
    RunOptions settings = runOptions(options_.run, interrupts, session_);
    if (settings.threads == 0) settings.threads = defaultThreads();
    report_->run->threads = settings.threads;
    const RunOptions more = silent(settings);
    const auto again = [&] { return model.method.run(modelInputs_, session_.diagnostics, more).ok(); };
    const bool good = compare(given, model, settings) && sample(again) && watch(model.method.registry(), again);
    signal_ = interrupts.signal();
    if (good) report_->run->peaks = measurePeaks(settings.threads);
    return good;
  }

  // The first run, which is held against the interpreter's.
  bool compare(const Executable& given, const Executable& model, const RunOptions& settings) {
    ReportRun& run = *report_->run;
    RefusalWatch refusals;
    const std::vector<IValue> copy = deepCopy(modelInputs_);
    session_.progress.step("running");
    const Clock::time_point start = Clock::now();
    Result<std::vector<IValue>> got = model.method.run(copy, session_.diagnostics, settings);
    if (!got) return false;
    run.firstMs = millisecondsSince(start);
    run.notes = refusalTexts(refusals);
    if (!command_.compares || given.module.engineInfo()) return true;
    session_.progress.step("comparing with the interpreter");
    Result<std::vector<IValue>> want = given.method.run(deepCopy(inputs_), session_.diagnostics, silent(settings));
    if (!want) return false;
    const Tolerance tolerance{command_.relative, command_.absolute};
    Difference all;
    for (size_t i = 0; i < std::min(got->size(), want->size()); ++i)
      all.add(difference((*got)[i], (*want)[i], tolerance));
    run.accuracy = ReportAccuracy{all.within, all.largest, all.wrong, tolerance.relative, tolerance.absolute};
    return true;
  }

  bool sample(const std::function<bool()>& run) {
    session_.progress.step("measuring");
    std::vector<double>& samples = report_->run->samplesMs;
    for (int i = 0; i < 2; ++i)
      if (!run()) return false;
    const Clock::time_point begin = Clock::now();
    const double longest = std::chrono::duration<double, std::milli>(command_.duration).count();
    while (samples.size() < 3 || (millisecondsSince(begin) < longest && samples.size() < kMostRuns)) {
      const Clock::time_point start = Clock::now();
      if (!run()) return false;
      samples.push_back(std::round(millisecondsSince(start) * 1e6) / 1e6);
    }
    report_->run->latencyMs = statisticsOf(samples);
    if (std::string busy = otherWork(report_->run->threads); !busy.empty())
      report_->run->notes.push_back(std::move(busy));
    if (samples.size() > ReportRun::kMostSamples) samples = thinned(samples);
    return true;
  }

  // Every so many, in their order.
  static std::vector<double> thinned(const std::vector<double>& samples) {
    std::vector<double> out;
    for (size_t i = 0; i < ReportRun::kMostSamples; ++i)
      out.push_back(samples[i * samples.size() / ReportRun::kMostSamples]);
    return out;
  }

  bool watch(const OpRegistry& registry, const std::function<bool()>& again) {
    RunProfile profile(registry);
    profile.leavesOutDisturbed = true;
    ObserverScope observing(profile);
    const Clock::time_point begin = Clock::now();
    const double longest = std::chrono::duration<double, std::milli>(command_.duration).count();
    do {
      profile.startRun();
      if (!again()) return false;
      profile.endRun();
    } while (millisecondsSince(begin) < longest / 2);
    ReportRun& run = *report_->run;
    run.profiledUs = profile.perRun(profile.time);
    report_->graph.addTimes(profile);
    run.otherUs = run.profiledUs;
    for (const ReportSegment& s : report_->graph.segments) run.otherUs -= s.us;
    totals(profile.totalsByModule(), profile, run.modules);
    totals(profile.totalsByOperator(), profile, run.operators);
    remember(profile, run);
    return true;
  }

  static void totals(const std::vector<RunProfile::Total>& from, const RunProfile& profile,
                     std::vector<ReportTotal>& to) {
    constexpr size_t kMost = 2000;
    for (size_t i = 0; i < std::min(from.size(), kMost); ++i)
      to.push_back({shown(from[i].name), from[i].parts, profile.perRun(from[i].time)});
  }

  // Memory over the quickest run, at most one point for each thousandth of it.
  static void remember(const RunProfile& profile, ReportRun& run) {
    std::vector<std::pair<double, double>> points;
    for (const RunProfile::Event& e : profile.quickest.events)
      if (e.layer != RunProfile::kWhole) points.emplace_back(profile.since(e.end), static_cast<double>(e.memory));
    for (auto [us, bytes] : points) run.peakBytes = std::max(run.peakBytes, bytes);
    const double step = points.empty() ? 0 : points.back().first / 1000;
    for (auto [us, bytes] : points) {
      if (!run.memory.empty() && us - run.memory.back().first < step) {
        run.memory.back().second = std::max(run.memory.back().second, bytes);
        continue;
      }
      run.memory.emplace_back(std::round(us * 10) / 10, bytes);
    }
  }

  static constexpr size_t kMostRuns = 100'000;
  const Options& options_;
  const ReportCommand& command_;
  Session& session_;
  const bool isBuilt_ = isBuiltModel(options_.arguments[0]);
  std::unique_ptr<MeasuredTexts> texts_;      // of a language model, whose nodes the report tells of
  std::vector<Module> modules_;               // which have the graphs that the report speaks of
  std::vector<IValue> inputs_, modelInputs_;  // as they were given, and those that are left to the compiled model
  std::optional<Prepared> prepared_;
  std::optional<Partition> partition_;
  bool hasData_ = false;  // the graph has its weights
  std::unique_ptr<Graph> stitched_;
  std::optional<ModelReport> report_;
  int signal_ = 0;
};

int runReport(const Options& options, Session& session) { return Reporter(options, session).run(); }

constexpr std::string_view kReportDetails =
    R"(The page is one file that needs nothing else: it opens from disk, without a network. It shows what the
model takes, how long a run is and how its time spreads, what each module, operator and layer takes
and how near that is to what the machine can do, the memory over a run, and the graph in the order in
which it runs: where each node runs, why, and what would change it. Inputs are written as for
'tscompile run'; their sizes, or those of --shape, are what engines are made for. --format json writes
the data alone, which 'tscompile schema report' describes.

Of a language model that was built (a folder) a run is a text, whose lengths --shape says: prompt=512 and
new=0 are the prompt alone.

Examples:
  tscompile report model.pt -i x=@x.npy -o report.html
  tscompile report model.ir -w model.safetensors --shape x=1x3x224x224 -o report.html
  tscompile report model.ir --no-run -o report.html
  tscompile report built --shape prompt=512 -o report.html
)";

OptionSpecs reportOptions() {
  return modelOptions() +
         OptionSpecs{
             writing(Written::File, {"-o,--output", "FILE", "the page; -: standard output",
                                     [](Options& o, const std::string& v) { o.own.of<ReportCommand>().output = v; }}),
             {"--no-run", "", "tell what runs where and why; needs no inputs and no weights",
              [](Options& o, const std::string&) { o.own.of<ReportCommand>().runs = false; }},
             {"--no-compare", "", "do not hold the result against the interpreter's",
              [](Options& o, const std::string&) { o.own.of<ReportCommand>().compares = false; }},
             {"--rtol", "X", "part of an element that a difference to the interpreter may be (default: 0.001)",
              [](Options& o, const std::string& v) { o.own.of<ReportCommand>().relative = tolerance("--rtol", v); }},
             {"--atol", "X", "that a difference may be besides (default: 0.0001)",
              [](Options& o, const std::string& v) { o.own.of<ReportCommand>().absolute = tolerance("--atol", v); }},
             {"--threads", "N", "threads to use at most (default: one for each processor)",
              [](Options& o, const std::string& v) { o.run.threads = static_cast<uint64_t>(threadCount(v, v)); }},
             {"--duration", "DURATION", "how long to measure, such as 500ms or 10s (default: 1s)",
              [](Options& o, const std::string& v) {
                o.own.of<ReportCommand>().duration = duration("--duration", "500ms or 10s", v);
              }},
             settingOption("shape"),
         } +
         precisionOptions() + cuttingOptions();
}

}  // namespace

VerbSpec reportCommand() {
  return {.name = "report",
          .summary = "write a page to look at: times, memory, and what runs where and why",
          .argument = "MODEL",
          .argumentHelp = kMeasuredModels,
          .argumentRequired = true,
          .details = kReportDetails,
          .options = reportOptions(),
          .defaults = [](Options& o) { o.run.executor = ExecutorChoice::Engine; },
          .command = runReport};
}

}  // namespace tscompile
