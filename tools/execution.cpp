#include "tools/execution.h"

#include "api/compile.h"
#include "tools/machine_memory.h"

namespace tscompile {

std::optional<Executable> loadExecutable(const std::string& path, const RunCommand& command, Session& session) {
  Result<Module> module = session.loadModule(path, command.weights, command.libraries);
  if (!module) return std::nullopt;
  std::string entry = command.method;
  if (command.engine && !module->engineInfo()) {
    CompileSpec spec;
    spec.partition.lowering.method = command.method;
    spec.partition.lowering.limits = session.common.limits;
    module = module->compiled(spec, session.diagnostics);
    if (!module) return std::nullopt;
    entry = "forward";
  }
  Result<Method> method = module->prepare(session.diagnostics, entry);
  if (!method) return std::nullopt;
  return Executable{std::move(*module), std::move(*method)};
}

RunOptions runOptions(const RunCommand& command, const InterruptScope& interrupts, Session& session) {
  RunOptions o;
  o.memoryLimit = command.memoryLimit ? *command.memoryLimit : availableMemory() / 5 * 4;
  o.timeLimit = command.timeLimit;
  o.interrupt = &interrupts.interrupted();
  o.seed = command.seed;
  o.threads = static_cast<int>(command.threads);
  o.print = [&session](std::string_view text) { session.err << text; };
  o.warn = [&session](std::string_view text) {
    Diagnostic d;
    d.severity = Severity::Warning;
    d.message = text;
    session.diagnostics.add(d);
    session.report();
  };
  return o;
}

}  // namespace tscompile
