// `tscompile run`: executes a graph.
#include "api/value_text.h"
#include "tools/commands/commands.h"
#include "tools/work/execution.h"
#include "tools/work/inputs.h"
#include "tools/work/plugin_work.h"
#include "tools/work/run_outputs.h"

namespace tscompile {
namespace {

class RunCommandExecutor {
 public:
  RunCommandExecutor(const Options& options, Session& session)
      : options_(options), run_(options.run), session_(session) {}

  int run() {
    std::optional<Executable> model = loadAsGiven(options_, session_);
    if (!model) return session_.finish();
    session_.noteUnusedWeights(model->module.unusedWeights());
    Result<std::vector<IValue>> inputs = InputReader(model->method.inputs(), session_).read(run_.inputs);
    if (!inputs) return session_.finish();
    session_.report();
    model = withEngines(std::move(*model), options_, session_);
    if (!model) return session_.finish();

    session_.progress.step("running");
    PluginWork plugins;
    InterruptScope interrupts(run_.timeLimit);
    Result<std::vector<IValue>> outputs =
        model->method.run(*inputs, session_.diagnostics, runOptions(run_, interrupts, session_));
    if (!outputs) {
      int code = session_.finish();
      return interrupts.signal() ? 128 + interrupts.signal() : code;
    }
    session_.progress.end();
    deliver(*outputs);
    if (session_.common.verbose)
      for (const PluginWork::Row& row : plugins.rows()) session_.note(pluginWorkText(row));
    return session_.finish();
  }

 private:
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
};

}  // namespace

int runRun(const Options& options, Session& session) { return RunCommandExecutor(options, session).run(); }

}  // namespace tscompile
