// `tscompile compile`: a graph with its engines and its weights becomes an engine file.
#include "api/compile.h"
#include "api/forgotten_weights.h"
#include "api/profile/run_profile.h"
#include "frontend/files/file_io.h"
#include "ir/support/json_fields.h"
#include "ir/support/quantities.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "passes/rewrite/profile.h"
#include "runtime/engine/network/tactics.h"
#include "runtime/engine/refusal_watch.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/session/process.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/calibrate.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/inputs.h"
#include "tools/tasks/partitioning.h"
#include "tools/tasks/refusals.h"

#include <fmt/core.h>

#include <chrono>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <sys/file.h>
#include <unistd.h>

namespace tscompile {
namespace {

constexpr uint64_t kMostCacheBytes = uint64_t{64} << 20;

struct Summary {
  std::string path;
  CutText cut;
  uint64_t bytes = 0;  // of the file

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.compile/1");
    visit("path", path);
    cut.fields(visit);
    visit("bytes", bytes);
  }
};

void tell(const Summary& s, Session& session) {
  if (session.common.json) return writeJson(session.out, s);
  if (!session.common.quiet)
    session.out << fmt::format("{}: {}, {} of {} in {}, {}\n", s.path, counted(s.cut.segments, "segment"),
                               s.cut.inEngines, counted(s.cut.nodes, "node"), counted(s.cut.engines, "engine"),
                               sizeText(s.bytes));
  s.cut.tellReasons(session);
}

// Weights of an engine file of eight bits that stay in 32, by the operators that take them.
void noteFullWeights(const Graph& graph, Session& session) {
  constexpr int64_t kLeast = 1024;  // elements that are worth a word
  uint64_t bytes = 0;
  std::set<std::string> takers;
  auto look = [&](const Node* n) {
    const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (!v) return;
    uint64_t here = 0;
    auto add = [&](const IValue& value) {
      const Tensor t = value.isTensor() ? value.toTensor() : value.isLiteral() ? value.toLiteral().data : Tensor();
      if (t.defined() && t.dtype() == DType::Float32 && t.sizes().size() >= 2 && t.numel() >= kLeast)
        here += static_cast<uint64_t>(t.numel()) * itemSize(t.dtype());
    };
    add(*v);
    if (v->isList())
      for (const IValue& item : v->toList().items) add(item);
    bytes += here;
    if (here)
      for (const Use& u : n->output()->uses()) takers.emplace(u.user->kind().text());
  };
  forEachNode(graph, [&](const Node* n) {
    look(n);
    if (n->subgraph()) forEachNode(*n->subgraph(), look);
  });
  if (bytes)
    session.note(fmt::format("{} of weights stay in f32: {}", sizeText(bytes),
                             join(takers, ", ", [](const std::string& kind) { return kind; })));
}

// Reads what earlier measurements have found; false after a report. A file that is not there yet is empty.
bool readTactics(const std::string& path, TacticCache& cache, Session& session) {
  std::error_code ignored;
  if (path.empty() || !std::filesystem::exists(path, ignored)) return true;
  Result<std::string> text = readFile(path, kMostCacheBytes, session.diagnostics);
  return text && cache.read(*text, path, session.diagnostics);
}

// While one lives, no other process that wants one is in the folder of the file.
class FolderLock {
 public:
  explicit FolderLock(const std::string& file) {
    const std::string folder = std::filesystem::path(file).parent_path();
    folder_ = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ >= 0) flock(folder_, LOCK_EX);
  }
  ~FolderLock() {
    if (folder_ >= 0) close(folder_);
  }
  FolderLock(const FolderLock&) = delete;

 private:
  int folder_;
};

// Adds what was measured to the file, which others may have written meanwhile.
bool addTactics(const std::string& path, TacticCache& cache, Session& session) {
  const FolderLock lock(path);
  return readTactics(path, cache, session) && writeFile(path, cache.text(), session.diagnostics);
}

// Tells of what was not timed, if something was not.
void noteUntimed(const RefusalWatch& refusals, const RunProfile& ran, size_t engines, Session& session) {
  for (const std::string& text : refusalTexts(refusals)) session.note("not timed: " + text);
  if (ran.engines.empty())
    session.note(engines == 0 ? "no kernels were timed: nothing is in an engine"
                              : "no kernels were timed: no engine ran on inputs of these sizes");
}

// Runs the method once on random numbers of the usual sizes, whereupon its `engines` time what they may take.
bool measureTactics(const Module& compiled, const CompileSpec& spec, size_t engines, Session& session) {
  Result<Method> method = compiled.prepare(session.diagnostics);
  if (!method) return false;
  Result<std::vector<IValue>> inputs =
      InputReader(method->inputs(), session).readOrMake(inputTexts({}, spec, method->inputs()), 0);
  if (!inputs) return false;
  InterruptScope interrupts;
  RunOptions run = session.runLimits();
  run.threads = spec.engine.threads;
  run.interrupt = &interrupts.interrupted();
  Diagnostics failures;
  RefusalWatch refusals;
  RunProfile ran(compiled.registry());
  const bool isDone = [&] {
    ObserverScope observing(ran);
    return static_cast<bool>(method->run(*inputs, failures, run));
  }();
  if (isDone) {
    noteUntimed(refusals, ran, engines, session);
    return true;
  }
  if (failures.firstErrorKind() == ErrorKind::Interrupted) {
    for (const Diagnostic& d : failures.list()) session.diagnostics.add(d);
    return false;
  }
  session.note("kernels after a failure were not timed: " + failures.list().front().message);
  return true;
}

// What compiling cost: the whole, then what rewriting did.
class CostReport {
 public:
  CostReport(const Options& options, Session& session) : options_(options), session_(session) {
    compiling_.message = options.arguments[0];
  }

  void attach(CompileSpec& spec) {
    if (wanted()) spec.lowering.settings.profile = &rewriting_;
  }
  void noteLoaded() { compiling_.import = seconds(); }
  void write(size_t nodes) {
    if (!wanted()) return;
    compiling_.total = seconds();
    compiling_.nodes = nodes;
    compiling_.rewriter = rewriting_.seconds;
    compiling_.validate = rewriting_.validate;
    compiling_.linker = compiling_.total - compiling_.rewriter;
    if (options_.rewrite.profile == ProfileForm::Text) {
      session_.err << compiling_.text() << "\n" << rewriting_.text();
      return;
    }
    JsonWriter json(session_.err);
    json.beginObject();
    json.key("compilation");
    compiling_.writeJson(json);
    json.key("rewriting");
    rewriting_.writeJson(json);
    json.endObject();
    json.finish();
  }

 private:
  bool wanted() const { return options_.rewrite.profile != ProfileForm::None; }
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

  const Options& options_;
  Session& session_;
  Profile rewriting_;
  CompileProfile compiling_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

static int runCompile(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  if (command.output == "-") throw UsageError{"compile writes a file, not standard output", {"such as -o model.tse"}};
  if (command.output.empty())
    throw UsageError{"compile needs a file to write", {"name it with --output, such as -o model.tse"}};
  if (command.spec.refittable && !session.common.libraries.empty())
    throw UsageError{"--refittable goes without --custom-torch-ops: the file would not know the library again"};
  CompileSpec spec = compileSpecOf(command, session);
  const std::shared_ptr<Calibration> calibration = calibrationOf(spec);
  Summary summary;
  summary.path = command.output;
  spec.onPartition = [&](const Prepared& prepared, const Partition& p) {
    summary.cut = cutText(prepared, p, !spec.shapes.empty());
    session.progress.step("building " + counted(summary.cut.engines, "engine"));
  };
  if (spec.engine.tactics && !readTactics(command.timingCache, *spec.engine.tactics, session)) return session.finish();
  CostReport cost(options, session);
  cost.attach(spec);
  Result<Module> module = loadForPartition(options, spec, session);
  if (!module) return session.finish();
  if (module->engineInfo()) {
    session.diagnostics
        .fileError(options.arguments[0], {}, "expected a model, found an engine file: it is compiled already")
        .note(
            "sizes and settings are those of the model it was made of, which is to be compiled again; 'tscompile "
            "refit' "
            "puts other weights in its place");
    return session.finish();
  }
  if (!addSizesOfInputs(spec, options, *module, session)) return session.finish();
  cost.noteLoaded();
  if (hasForgottenWeights(options.arguments[0], *module, session.diagnostics)) return session.finish();
  const std::vector<std::string> unused = module->unusedWeights();
  auto fail = [&] {
    if (module->unusedWeights().size() == unused.size())
      summarizeForgotten(options.arguments[0], unused, session.diagnostics);
    return session.finish();
  };
  if (calibration) {
    session.progress.step("calibrating");
    if (!calibrate(*module, calibration, spec, session)) return fail();
  }
  session.progress.step("cutting the graph");
  Result<Module> compiled = command.oneEngine ? module->convertToEngine(spec, session.diagnostics)
                                              : module->compiled(spec, session.diagnostics);
  if (!compiled) return fail();
  session.noteUnusedWeights(module->unusedWeights());
  if (spec.engine.measureTactics) {
    std::string known = spec.engine.tactics->text();
    session.progress.step("timing kernels");
    if (!measureTactics(*compiled, spec, summary.cut.engines, session)) return session.finish();
    std::error_code ignored;
    const bool isNew = spec.engine.tactics->text() != known || !std::filesystem::exists(command.timingCache, ignored);
    if (!command.timingCache.empty() && isNew && !addTactics(command.timingCache, *spec.engine.tactics, session))
      return session.finish();
  }
  session.progress.step("writing " + command.output);
  if (!compiled->save(command.output, session.diagnostics, session.common.limits)) return fail();
  std::error_code ignored;
  summary.bytes = std::filesystem::file_size(command.output, ignored);
  session.progress.end();
  tell(summary, session);
  if (spec.engine.precision == DType::Int8 && compiled->graph()) noteFullWeights(*compiled->graph(), session);
  cost.write(summary.cut.nodes);
  return session.finish();
}

namespace {

constexpr std::string_view kCompileDetails =
    R"(Takes what partition takes. The file holds the graph with its engines, the weights and the sizes
of --shape, which are checked at every run; docs/engine_files.md describes it. A file that is
there is replaced when the new one is complete.

Examples:
  tscompile compile model.ir --weights model.safetensors --shape x=1..8x3x224x224 -o model.tse
  tscompile compile model.ir -w model.safetensors --shape x=1x3x224x224 --tactics measure -o model.tse
  tscompile run model.tse --input x=1x3x224x224:f32:randn(seed=0)
)";

OptionSpecs compileOptions() {
  return partitioningOptions() + sizesOfInputsOptions() + OptionSpecs{requireFullOption(), settingOption("rewrite")} +
         precisionOptions() +
         OptionSpecs{calibrateOption(),
                     calibrationOption(),
                     settingOption("tactics"),
                     writing(Written::Cache,
                             {"--timing-cache", "FILE",
                              "what earlier measurements have found, which comes first; new ones are added to it",
                              [](Options& o, const std::string& v) { o.partition.timingCache = v; }}),
                     settingOption("threads"),
                     {"--num-avg-timing-iters", "N", "how often to time a kernel, to take the median of (default: 9)",
                      [](Options& o, const std::string& v) {
                        std::optional<uint64_t> n = parseCount(v);
                        if (!n || *n == 0 || *n > 1'000'000)
                          throw UsageError{"--num-avg-timing-iters takes a number from 1 to 1000000, not '" +
                                           abbreviate(v, 80) + "'"};
                        EngineOptions& engine = o.partition.spec.engine;
                        if (!engine.tactics) engine.tactics = std::make_shared<TacticCache>();
                        engine.tactics->timingRuns = static_cast<int>(*n);
                      }},
                     settingOption("workspace-size"),
                     settingOption("refittable"),
                     settingOption("keep-state"),
                     {"--save-engine", "", "make one engine of the whole method, or fail",
                      [](Options& o, const std::string&) { o.partition.oneEngine = true; }},
                     {"--profile", "text|json", "write what compiling and each rewrite cost to standard error",
                      [](Options& o, const std::string& v) {
                        o.rewrite.profile = v == "json" ? ProfileForm::Json : ProfileForm::Text;
                      }},
                     writing(Written::File, {"-o,--output", "FILE", "the engine file to write",
                                             [](Options& o, const std::string& v) { o.partition.output = v; }})};
}

}  // namespace

VerbSpec compileCommand() {
  return {.name = "compile",
          .summary = "write a graph with its engines and its weights to an engine file",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump; -: text from standard input",
          .argumentRequired = true,
          .details = kCompileDetails,
          .options = compileOptions(),
          .command = runCompile};
}

}  // namespace tscompile
