// `tscompile lower`: one graph of a method and all that it calls.
#include "api/lower.h"
#include "ir/printer.h"
#include "tools/commands.h"

namespace tscompile {

int runLower(const Options& options, Session& session) {
  const LowerCommand& command = options.lower;
  Result<SourcePtr> source = session.readGraphText(options.arguments[0]);
  if (!source) return session.finish();
  LoadOptions load;
  load.weights = command.weights;
  load.limits = session.common.limits;
  Result<Module> module = Module::fromSource(*source, load, session.diagnostics);
  if (!module) return session.finish();
  LowerOptions lowering;
  lowering.method = command.method;
  lowering.passes = foldConstants;
  lowering.limits = session.common.limits;
  Result<Module> lowered = module->lowered(lowering, session.diagnostics);
  if (!lowered) return session.finish();
  session.noteUnusedWeights(module->unusedWeights());
  session.report();

  if (!command.output.empty() && command.output != "-") {
    lowered->write(command.output, session.diagnostics, session.common.limits);
    return session.finish();
  }
  PrintOptions printing;
  printing.maxBytes = session.common.limits.printBytes;
  if (!printGraph(
          *lowered->graph(), [&](std::string_view piece) { session.out << piece; }, printing))
    session.diagnostics
        .error("the printed text is longer than " + std::to_string(printing.maxBytes) + " bytes", ErrorKind::Limit)
        .note("the limit is set by --limit print=N");
  return session.finish();
}

}  // namespace tscompile
