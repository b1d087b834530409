#include "tools/tasks/execution.h"

#include "api/compile.h"
#include "api/model_file.h"
#include "ir/values/literal.h"
#include "tools/session/machine_memory.h"
#include "tools/tasks/graphs.h"
#include "tools/tasks/partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_map>

namespace tscompile {

namespace {

// Lowering looks through all blocks around a node, and compiling takes some 20 microseconds for each. Texts that are
// deeper or longer than what people write or tracers print are left to the interpreter unless engines are asked for.
constexpr size_t kDeepest = 1000, kMostNodes = 100'000;

// Why the graphs of a text are better interpreted; empty if they are not.
std::string tooLarge(const ParsedText& text) {
  bool deep = false;
  size_t nodes = 0;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    nodes += g.nodeCount();
    std::unordered_map<const Block*, size_t> depth{{g.block(), 0}};
    forEachNode(g, [&](const Node* n) {
      for (const Block* b : n->blocks()) deep |= (depth[b] = depth[n->block()] + 1) > kDeepest;
    });
  });
  if (deep) return fmt::format("its blocks are nested more than {} deep", kDeepest);
  return nodes > kMostNodes ? fmt::format("it has more than {} nodes", kMostNodes) : "";
}

// Constants that stand in the text without their data.
std::vector<const Value*> constantsWithoutData(const ParsedText& text) {
  std::vector<const Value*> out;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    forEachNode(g, [&](const Node* n) {
      const IValue* v = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
      if (v && v->isLiteral() && v->toLiteral().kind == LiteralValue::Kind::MissingTensor) out.push_back(n->output());
    });
  });
  return out;
}

// One line for weights that were forgotten, where each tensor would have one.
bool hasForgottenWeights(const std::string& path, const Module& module, Session& session) {
  if (modelFileOf(path) != ModelFile::Text) return false;  // which hold them
  std::vector<const Value*> missing = constantsWithoutData(module.text());
  if (missing.size() < 2) return false;
  session.diagnostics
      .fileError(path, {},
                 fmt::format("the text names {} tensors without their data, and no weights were given", missing.size()))
      .note(fmt::format("give them with --weights FILE; the first is '{}'", missing.front()->name()));
  return true;
}

}  // namespace

std::optional<Executable> loadAsGiven(const Options& options, Session& session) {
  const RunCommand& command = options.run;
  const std::string& path = options.arguments[0];
  Result<Module> module = session.loadModule(path, command.weights, command.libraries);
  if (!module || (command.weights.empty() && hasForgottenWeights(path, *module, session))) return std::nullopt;
  Result<Method> method = module->prepare(session.diagnostics, command.method);
  if (!method) return std::nullopt;
  std::map<std::string, IValue> defaults = module->defaults(command.method);
  return Executable{std::move(*module), std::move(*method), std::move(defaults)};
}

std::optional<Executable> withEngines(Executable given, const Options& options, Session& session) {
  if (options.run.executor == ExecutorChoice::Interpreter || given.module.engineInfo()) return given;
  CompileSpec spec = compileSpecOf(options.partition, session.common.limits);
  spec.lowering.method = options.run.method;
  // Whoever says what is to stay out of engines wants to hear that there is no such thing.
  bool isOptional = options.run.executor == ExecutorChoice::EngineIfPossible && spec.torchExecutedOps.empty() &&
                    spec.torchExecutedModules.empty() && spec.torchExecutedNodes.empty();
  if (isOptional) {
    if (std::string why = tooLarge(given.module.text()); !why.empty()) {
      session.note("the interpreter runs the graph: " + why + "; --executor engine compiles it all the same");
      return given;
    }
    // Calls that are inlined must not make it so.
    spec.lowering.limits.nodes = std::min<uint64_t>(spec.lowering.limits.nodes, kMostNodes);
  }
  session.progress.step("building engines");
  Diagnostics reasons;
  Diagnostics& diagnostics = isOptional ? reasons : session.diagnostics;
  Result<Module> module = given.module.compiled(spec, diagnostics);
  if (module)
    if (Result<Method> method = module->prepare(diagnostics, "forward"))
      return Executable{std::move(*module), std::move(*method), std::move(given.defaults)};
  if (!isOptional) return std::nullopt;
  session.note("the interpreter runs the graph, which cannot be compiled: " + reasons.list().front().message);
  return given;
}

std::optional<Executable> loadExecutable(const Options& options, Session& session) {
  std::optional<Executable> given = loadAsGiven(options, session);
  if (!given) return std::nullopt;
  return withEngines(std::move(*given), options, session);
}

RunOptions runOptions(const RunCommand& command, const InterruptScope& interrupts, Session& session) {
  RunOptions o;
  o.memoryLimit = command.memoryLimit ? *command.memoryLimit : availableMemory() / 5 * 4;
  o.timeLimit = command.timeLimit;
  o.interrupt = &interrupts.interrupted();
  o.seed = command.seed;
  o.threads = static_cast<int>(command.threads);
  o.print = [&session](std::string_view text) {
    session.progress.end();
    session.err << text;
  };
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
