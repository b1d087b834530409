// `tscompile run`: executes a graph.
#include "api/compile.h"
#include "api/module.h"
#include "api/value_text.h"
#include "tools/commands.h"
#include "tools/machine_memory.h"
#include "tools/process.h"
#include "tools/run_inputs.h"
#include "tools/run_outputs.h"

namespace tscompile {
namespace {

class RunCommandExecutor {
 public:
  RunCommandExecutor(const Options& options, Session& session)
      : options_(options), run_(options.run), session_(session) {}

  int run() {
    std::optional<Method> method = prepare();
    if (!method) return session_.finish();
    Result<std::vector<IValue>> inputs = readInputs(method->inputs(), run_.inputs, session_);
    if (!inputs) return session_.finish();
    session_.report();

    InterruptScope interrupts(run_.timeLimit);
    Result<std::vector<IValue>> outputs = method->run(*inputs, session_.diagnostics, runOptions(interrupts));
    if (!outputs) {
      int code = session_.finish();
      return interrupts.signal() ? 128 + interrupts.signal() : code;
    }
    deliver(*outputs);
    return session_.finish();
  }

 private:
  std::optional<Method> prepare() {
    Result<SourcePtr> source = session_.readGraphText(options_.arguments[0]);
    if (!source) return std::nullopt;
    LoadOptions load;
    load.weights = run_.weights;
    load.limits = session_.common.limits;
    if (!session_.loadExtensions(run_.libraries, load)) return std::nullopt;
    Result<Module> module = Module::fromSource(*source, load, session_.diagnostics);
    if (!module) return std::nullopt;
    module_ = std::move(*module);
    std::string entry = run_.method;
    if (run_.engine) {
      CompileSpec spec;
      spec.partition.lowering.method = run_.method;
      spec.partition.lowering.limits = session_.common.limits;
      Result<Module> compiled = module_->compiled(spec, session_.diagnostics);
      if (!compiled) return std::nullopt;
      module_ = std::move(*compiled);
      entry = "forward";
    }
    Result<Method> method = module_->prepare(session_.diagnostics, entry);
    if (!method) return std::nullopt;
    session_.noteUnusedWeights(module_->unusedWeights());
    return *method;
  }

  RunOptions runOptions(const InterruptScope& interrupts) {
    RunOptions o;
    o.memoryLimit = run_.memoryLimit ? *run_.memoryLimit : availableMemory() / 5 * 4;
    o.timeLimit = run_.timeLimit;
    o.interrupt = &interrupts.interrupted();
    o.seed = run_.seed;
    o.print = [this](std::string_view text) { session_.err << text; };
    o.warn = [this](std::string_view text) {
      Diagnostic d;
      d.severity = Severity::Warning;
      d.message = text;
      session_.diagnostics.add(d);
      session_.report();
    };
    return o;
  }

  void deliver(std::span<const IValue> outputs) {
    checkOutputs(outputs);
    if (!run_.outputs.empty() && !writeOutputs(run_.outputs, outputs, session_.diagnostics)) return;
    if (session_.common.json) {
      if (run_.outputs.empty() || run_.print) describeOutputsJson(outputs, run_.print, session_.out);
    } else if (run_.print) {
      for (const IValue& v : outputs) session_.out << valueToText(v) << '\n';
    } else if (run_.outputs.empty()) {
      describeOutputs(outputs, session_.out);
    }
  }

  const Options& options_;
  const RunCommand& run_;
  Session& session_;
  std::optional<Module> module_;
};

}  // namespace

int runRun(const Options& options, Session& session) { return RunCommandExecutor(options, session).run(); }

}  // namespace tscompile
