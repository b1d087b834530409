// `tscompile lower`: one graph of a method and all that it calls, lowered.
#include "api/lower.h"
#include "api/value_text.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "tools/commands/rewriting.h"

namespace tscompile {
namespace {

// "%x" is a value; anything else may be a class or a path.
void setFallBack(RewriteArguments& arguments, const std::vector<std::string>& given) {
  std::vector<IValue> nodes, modules;
  for (const std::string& name : given)
    name[0] == '%' ? nodes.emplace_back(name.substr(1)) : modules.emplace_back(name);
  auto list = [](std::vector<IValue> items) { return IValue(Ref<ListValue>::make(types().string, std::move(items))); };
  if (!nodes.empty()) arguments["fallback_nodes"] = list(nodes);
  if (modules.empty()) return;
  arguments["fallback_classes"] = list(modules);
  arguments["fallback_paths"] = list(std::move(modules));
}

// Values for inputs; nothing after reporting what is wrong with them.
bool bindInputs(RewriteArguments& arguments, const LowerCommand& command, const Module& module, Session& session) {
  const Graph* graph = module.graph(command.method);
  for (const std::string& text : command.bind) {
    size_t equal = text.find('=');
    if (equal == std::string::npos) throw UsageError{"--bind takes NAME=VALUE, not '" + abbreviate(text, 80) + "'"};
    std::string name = text.substr(text[0] == '%' ? 1 : 0, equal - (text[0] == '%' ? 1 : 0));
    const Value* input = nullptr;
    for (size_t i = 0; graph && i < graph->inputs().size(); ++i)
      if (graph->input(i)->name() == name) input = graph->input(i);
    if (graph && !input) throw UsageError{"the graph has no input '" + abbreviate(name, 80) + "'"};
    if (!graph) continue;  // reported where it is lowered
    Result<IValue> value = parseValueText(std::string_view(text).substr(equal + 1), "--bind " + name,
                                          session.diagnostics, input->type(), session.common.limits);
    if (!value) return false;
    if (!isInstance(*value, withoutRefinement(input->type())))
      throw UsageError{"input %" + name + " takes " + typeText(input->type()) + ", not " +
                       typeText(withoutRefinement(dynamicType(*value)))};
    arguments["bind:" + name] = *value;
  }
  return true;
}

std::string argumentText(const CallArgument& a) {
  if (const Value* v = a.value()) return "%" + v->name();
  if (const IValue* v = a.constant()) return valueText(*v, LiteralStyle::Schema);
  if (!a.items()) return "gone";
  std::string out = join(a.items()->list, ", ", argumentText);
  return a.items()->isTuple ? "(" + out + ")" : "[" + out + "]";
}

// One line for each: "relu(x=%x, inplace=False) -> %y: 2 nodes".
void describeRecords(const CallRecords& records, const std::vector<std::string>& kinds, Session& session) {
  for (const std::string& kind : kinds)
    for (const CallRecord* r : records.ofKind(kind))
      session.note(kind + "(" +
                   join(r->arguments(), ", ", [](const auto& a) { return a.first + "=" + argumentText(a.second); }) +
                   ") -> " +
                   join(r->outputs(), ", ", [](const Value* v) { return v ? "%" + v->name() : std::string("gone"); }) +
                   ": " + counted(r->nodes().size(), "node"));
}

int print(const Graph& graph, Session& session) {
  PrintOptions printing;
  printing.maxBytes = session.common.limits.printBytes;
  if (!printGraph(
          graph, [&](std::string_view piece) { session.out << piece; }, printing))
    session.failAtPrintLimit();
  return session.finish();
}

}  // namespace

int runLower(const Options& options, Session& session) {
  const LowerCommand& command = options.lower;
  std::unique_ptr<RewritingSetup> setup =
      RewritingSetup::make(options.rewrite, loweringDatabase(), Query().including({"default"}), session);
  if (!setup) return session.finish();
  if (options.rewrite.plan) {
    session.out << setup->database.query(setup->query).describe();
    return session.finish();
  }
  Result<Module> module = session.loadModule(options.arguments[0], command.weights);
  if (!module) return session.finish();
  LowerOptions lowering;
  lowering.method = command.method;
  lowering.database = &setup->database;
  lowering.query = setup->query;
  lowering.settings = setup->settings;
  lowering.limits = session.common.limits;
  if (!bindInputs(lowering.arguments, command, *module, session)) return session.finish();
  setFallBack(lowering.arguments, command.fallBack);
  lowering.unpackPlugins = command.unpackPlugins;
  lowering.records = command.records;
  lowering.onRecords = [&](const CallRecords& records) { describeRecords(records, command.records, session); };
  Result<Module> lowered = module->lowered(lowering, session.diagnostics);
  if (!lowered) return session.finish();
  session.noteUnusedWeights(module->unusedWeights());
  session.report();
  setup->finish();

  if (!command.output.empty() && command.output != "-") {
    lowered->write(command.output, session.diagnostics, session.common.limits);
    if (session.common.json) setup->writeApplied(nullptr);
    return session.finish();
  }
  if (session.common.json) {
    setup->writeApplied([&](const TextSink& sink) {
      PrintOptions printing;
      printing.maxBytes = session.common.limits.printBytes;
      return printGraph(*lowered->graph(), sink, printing);
    });
    return session.finish();
  }
  return print(*lowered->graph(), session);
}

}  // namespace tscompile
