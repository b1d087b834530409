// `tscompile run`: executes a graph.
#include "api/value_text.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/execution.h"
#include "tools/tasks/expect.h"
#include "tools/tasks/plugin_work.h"
#include "tools/tasks/refusals.h"
#include "tools/tasks/run_outputs.h"

namespace tscompile {
namespace {

struct RunChecks {
  Expectations expected;
};

class RunCommandExecutor {
 public:
  RunCommandExecutor(const Options& options, Session& session)
      : options_(options), run_(options.run), session_(session) {}

  int run() {
    checkTogether();
    std::optional<InterruptScope> interrupts(std::in_place);
    std::optional<Executable> model = loadAsGiven(options_, session_);
    if (!model) return session_.finish();
    session_.noteUnusedWeights(model->module.unusedWeights());
    // Random ones only for whoever gives sizes in place of values.
    const bool sized = !options_.partition.spec.shapes.empty();
    Result<std::vector<IValue>> inputs = readInputs(*model, options_, sized, session_);
    if (!inputs) return session_.finish();
    session_.report();
    CutText cut;
    model =
        withEngines(std::move(*model), options_, session_, *inputs, sized, session_.common.verbose ? &cut : nullptr);
    if (!model) return session_.finish();

    session_.progress.step("running");
    PluginWork plugins;
    RefusalWatch refusals;
    Result<std::vector<IValue>> outputs = callMethod(model->method, *inputs, runOptions(run_, *interrupts, session_));
    int signal = interrupts->signal();
    const bool inTime = endTimeLimit();
    interrupts.reset();
    if (outputs && !inTime) session_.diagnostics.error(timeLimitPassed(), ErrorKind::Limit);
    if (!outputs || !inTime) {
      int code = session_.finish();
      return signal ? 128 + signal : code;
    }
    session_.progress.end();
    refused_ = refusalTexts(refusals);
    const int code = deliver(*outputs);
    if (session_.common.verbose) tellCut(cut);
    if (session_.common.verbose)
      for (const PluginWork::Row& row : plugins.rows()) session_.note(pluginWorkText(row));
    tellRefusals();
    return session_.finish(code);
  }

 private:
  // As often as it is to be called; the results are the last ones.
  Result<std::vector<IValue>> callMethod(const Method& method, std::span<const IValue> inputs,
                                         RunOptions options) const {
    if (run_.calls == 1) return method.run(inputs, session_.diagnostics, options);
    RunState state;
    options.state = &state;
    Result<std::vector<IValue>> outputs = Failed{};
    std::vector<IValue> given(inputs.size());
    for (uint64_t i = 0; i < run_.calls; ++i) {
      // PyTorch makes lists and dicts of Python's at each call; tensors are the same.
      std::ranges::transform(inputs, given.begin(), [](const IValue& v) { return copyContainers(v, false); });
      outputs = method.run(given, session_.diagnostics, options);
      if (!outputs) break;
    }
    return outputs;
  }

  // Throws UsageError for what would have no effect.
  void checkTogether() const {
    const Expectations& expected = options_.own.of<RunChecks>().expected;
    if (expected.empty() && expected.saysTolerance)
      throw UsageError{"--rtol and --atol are of --expect, which is missing"};
    if (!expected.empty() && run_.print) throw UsageError{"--print goes without --expect, which compares instead"};
  }

  void tellCut(const CutText& cut) {
    if (!cut.known()) return;
    session_.note(cut.summary());
    cut.tellReasons(session_);
  }

  // What was announced and is not what has run: an error if all was to run in engines.
  void tellRefusals() {
    const bool isError = options_.partition.spec.requiredCoverage >= 1;
    for (const std::string& text : refused_)
      isError ? (void)session_.diagnostics.error(text, ErrorKind::Unsupported) : session_.note(text);
  }

  int deliver(std::span<const IValue> outputs) {
    const uint64_t elements = checkOutputs(outputs);
    // Each takes a digit and a blank at least.
    if (run_.print && elements > session_.common.limits.printBytes / 2) {
      session_.failAtPrintLimit();
      return kExitDone;
    }
    if (!run_.outputs.empty() && !writeOutputs(run_.outputs, outputs, session_.diagnostics)) return kExitDone;
    const Expectations& expected = options_.own.of<RunChecks>().expected;
    if (!expected.empty()) {
      Result<ExpectationReport> report = compareOutputs(outputs, expected, session_);
      if (!report) return kExitDone;
      session_.common.json ? writeJson(session_.out, *report) : report->writeText(session_.out);
      if (!report->passed()) tellRandomInputs(options_, session_);
      return report->passed() ? kExitDone : kExitNegative;
    }
    if (session_.common.json) {
      if (run_.outputs.empty() || run_.print) describeOutputsJson(outputs, run_.print, refused_, session_.out);
    } else if (run_.print) {
      for (const IValue& v : outputs) session_.out << valueToText(v) << '\n';
    } else if (run_.outputs.empty()) {
      describeOutputs(outputs, session_.out);
    }
    return kExitDone;
  }

  const Options& options_;
  const RunCommand& run_;
  Session& session_;
  std::vector<std::string> refused_;  // what engines have left to the interpreter
};

}  // namespace

static int runRun(const Options& options, Session& session) { return RunCommandExecutor(options, session).run(); }

namespace {

constexpr std::string_view kRunDetails = R"(Values are written so:
  3  2.5  -inf  true  None  "text"  [1, 2]  (1, "a")  {"k": 1}
  @file.npy  @file.safetensors#tensor  @file.npz#member
  1x3x224x224:f32:randn(seed=0)  and zeros, ones, arange, randint(lo,hi), uniform(lo,hi)
  2x2:f32=[1 2; 3 4]

Engines run what they can of the graph, the interpreter the rest, or all of it if the graph cannot be
compiled. With --shape they are made for these sizes; a tensor of which only --shape tells the sizes is
random. --torch-executed-op and the like keep nodes out of engines; see docs/partitioning.md.

What the model prints goes to standard error. Without --outputs and --print, one line
tells the type, shape, least, greatest and mean value of each output. With --expect a line tells how
far each is from what it should be, the last line is PASSED or FAILED, and the exit code 0 or 1.

Examples:
  tscompile run model.ir --weights model.safetensors --input x=1x3x224x224:f32:randn(seed=0)
  tscompile run model.ir -w model.safetensors -i x=@cat.npy --outputs out
  tscompile run model.tse -i x=@cat.npy --expect out --rtol 1e-5
)";

OptionSpecs runOptions() {
  return modelOptions() +
         OptionSpecs{
             writing(Written::Folder, {"--outputs", "DIR", "write outputs.json and the tensors there",
                                       [](Options& o, const std::string& v) { o.run.outputs = v; }}),
             {"--print", "", "print the returned values in full, one a line",
              [](Options& o, const std::string&) { o.run.print = true; }},
             {"--expect", "VALUES",
              "compare with these instead of printing: a folder of --outputs, @FILE, or NAME=@FILE for an output, or "
              "an item of a tuple or dict",
              [](Options& o, const std::string& v) { o.own.of<RunChecks>().expected.texts.push_back(v); }, true},
             {"--rtol", "X",
              "of --expect: part of an element that a difference may be (default: 0.001); N=X: of output N",
              [](Options& o, const std::string& v) {
                setTolerance(o.own.of<RunChecks>().expected, &Tolerance::relative, "--rtol", v);
              },
              true},
             {"--atol", "X", "of --expect: that a difference may be besides (default: 0.0001); N=X: of output N",
              [](Options& o, const std::string& v) {
                setTolerance(o.own.of<RunChecks>().expected, &Tolerance::absolute, "--atol", v);
              },
              true},
             {"--calls", "N",
              "call it N times, each call going on with what those before wrote to buffers and attributes; the outputs "
              "are those of the last",
              [](Options& o, const std::string& v) {
                std::optional<uint64_t> n = parseCount(v);
                if (!n || *n == 0)
                  throw UsageError{"--calls takes a number from 1 up, not '" + abbreviate(v, 80) + "'"};
                o.run.calls = *n;
                o.partition.spec.lowering.keepsState = *n > 1;
              }},
             executorOption(),
             requireFullOption(),
             {"--threads", "N", "threads to use at most; the interpreter runs on one",
              [](Options& o, const std::string& v) { o.run.threads = static_cast<uint64_t>(threadCount(v, v)); }},
             settingOption("shape"),
         } +
         precisionOptions() + cuttingOptions();
}

}  // namespace

VerbSpec runCommand() {
  return {
      .name = "run",
      .summary = "execute a graph",
      .argument = "GRAPH",
      .argumentHelp = "a model (.pt, .pt2, graph text, a module dump) or an engine file; -: text from standard input",
      .argumentRequired = true,
      .details = kRunDetails,
      .options = runOptions(),
      .command = runRun};
}

}  // namespace tscompile
