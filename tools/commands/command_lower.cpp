// `tscompile lower`: one graph of a method and all that it calls, lowered.
#include "api/lower.h"
#include "api/partition.h"
#include "api/value_text.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"
#include "tools/commands/rewriting.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/partitioning.h"

namespace tscompile {
namespace {

struct LowerCommand {
  std::vector<std::string> fallBack;  // classes, paths, %names
  std::vector<std::string> records;   // functions and kinds of nodes
  bool unpackPlugins = false;
  std::string method = "forward";
  std::string output;
};

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

std::string argumentText(const CallArgument& a) {
  if (const Value* v = a.value()) return "%" + v->name();
  if (const IValue* v = a.constant()) return valueText(*v, LiteralStyle::Schema);
  if (!a.items()) return "gone";
  std::string out = join(a.items()->list, ", ", argumentText);
  return a.items()->isTuple ? "(" + out + ")" : "[" + out + "]";
}

// What calls and nodes of a module may be recorded by.
std::string nearestKind(const std::string& kind, const Module& module) {
  NearestName nearest(kind);
  std::string ending;
  auto consider = [&](const std::string& name) {
    if (ending.empty() && (name.ends_with("::" + kind) || name.ends_with("." + kind))) ending = name;
    nearest.consider(name);
  };
  auto considerNodes = [&](const Graph& graph) {
    forEachNode(graph, [&](const Node* n) { consider(std::string(n->kind().text())); });
  };
  const ParsedText& text = module.text();
  for (const auto& graph : text.graphs) considerNodes(*graph);
  if (text.module) {
    for (const DumpedModule& m : text.module->modules)
      for (const DumpedMethod& method : m.methods) {
        consider(m.className + "." + method.name);
        if (method.graph) considerNodes(*method.graph);
      }
    for (const DumpedMethod& f : text.module->functions) {
      consider(f.name);
      if (f.graph) considerNodes(*f.graph);
    }
  }
  return ending.empty() ? nearest.name() : ending;
}

// A kind of which there was nothing is a mistake.
UsageError nothingOf(const std::string& kind, const Module& module) {
  UsageError error{"--record: nothing that is called, and no node, is '" + abbreviate(kind, 80) + "'"};
  std::string nearest = nearestKind(kind, module);
  if (!nearest.empty() && nearest != kind) error.notes.push_back("did you mean '" + nearest + "'?");
  return error;
}

// One line for each: "relu(x=%x, inplace=False) -> %y: 2 nodes". The first kind of which there was nothing, or null.
const std::string* describeRecords(const CallRecords& records, const std::vector<std::string>& kinds,
                                   Session& session) {
  for (const std::string& kind : kinds) {
    std::vector<const CallRecord*> all = records.everOfKind(kind);
    if (all.empty()) return &kind;
    for (const CallRecord* r : all)
      session.note(kind + "(" +
                   join(r->arguments(), ", ", [](const auto& a) { return a.first + "=" + argumentText(a.second); }) +
                   ") -> " +
                   join(r->outputs(), ", ", [](const Value* v) { return v ? "%" + v->name() : std::string("gone"); }) +
                   ": " + (r->isAlive() ? counted(r->nodes().size(), "node") : "none of its nodes is left"));
  }
  return nullptr;
}

// Names of --fall-back that match nothing are mistakes.
void checkFallBack(const std::vector<std::string>& given, const Module& module, const std::string& method,
                   const RewriteArguments& reports) {
  PartitionSpec spec;
  spec.lowering.method = method;
  for (const std::string& name : given)
    (name[0] == '%' ? spec.torchExecutedNodes : spec.torchExecutedModules).push_back(name);
  for (const Unmatched& u : unmatchedForces(module, spec, reports)) {
    UsageError error{"--fall-back: " + u.message};
    if (!u.note.empty()) error.notes.push_back(u.note);
    throw error;
  }
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

static int runLower(const Options& options, Session& session) {
  const LowerCommand& command = options.own.of<LowerCommand>();
  std::unique_ptr<RewritingSetup> setup =
      RewritingSetup::make(options.rewrite, loweringDatabase(), Query().including({"default"}), session);
  if (!setup) return session.finish();
  if (options.rewrite.plan) {
    session.out << setup->database.query(setup->query).describe();
    return session.finish();
  }
  Result<Module> module = session.loadModule(options.arguments[0], options.partition.weights);
  if (!module) return session.finish();
  LowerOptions lowering;
  lowering.method = command.method;
  lowering.database = &setup->database;
  lowering.query = setup->query;
  std::optional<RuleWatch> watch;
  if (!options.rewrite.why.empty()) watch.emplace(*setup, options.rewrite.why, session);
  lowering.settings = setup->settings;
  lowering.limits = session.common.limits;
  if (const Graph* entry = module->graph(command.method); entry && !options.partition.spec.shapes.empty()) {
    PartitionSpec sized = options.partition.spec;
    checkShapes(sized, *entry);
    lowering.shapes = sized.shapes;
  }
  if (!bindInputs(lowering.arguments, options.own.of<BoundInputs>().texts, module->graph(command.method), session))
    return session.finish();
  setFallBack(lowering.arguments, command.fallBack);
  lowering.unpackPlugins = command.unpackPlugins;
  lowering.records = command.records;
  const std::string* missing = nullptr;  // of what is to be remembered
  lowering.onRecords = [&](const CallRecords& records) {
    missing = describeRecords(records, command.records, session);
  };
  RewriteArguments reports;
  lowering.onReports = [&](const RewriteArguments& all) { reports = all; };
  Result<Module> lowered = module->lowered(lowering, session.diagnostics);
  if (!lowered) return session.finish();
  if (missing) throw nothingOf(*missing, *module);
  checkFallBack(command.fallBack, *module, command.method, reports);
  session.noteUnusedWeights(module->unusedWeights());
  session.report();
  setup->finish();
  if (watch) {
    session.out << watch->text();
    return session.finish();
  }

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

namespace {

constexpr std::string_view kLowerDetails =
    R"(Calls are inlined, attributes that nothing writes become constants, and the graph is simplified:
every entry of 'tscompile passes' with the tag 'default' is applied. Without weights, what attributes
hold stays an attribute.

Examples:
  tscompile lower model.dump
  tscompile lower model.dump --weights weights.safetensors -o lowered.ir
  tscompile run lowered.ir --weights lowered.safetensors --input x=1x3x224x224:f32:randn(seed=0)
)";

OptionSpecs lowerOptions() {
  return OptionSpecs{
             weightsOption(),
             {"--method", "NAME", "the method to lower (default: forward)",
              [](Options& o, const std::string& v) { o.own.of<LowerCommand>().method = v; }},
             bindOption(),
             settingOption("shape"),
             {"--record", "KIND",
              "remember calls of this function, or nodes of this kind, and tell what became of them",
              [](Options& o, const std::string& v) { o.own.of<LowerCommand>().records.push_back(v); }, true},
             {"--unpack-plugins", "", "replace nodes of plugins by the graphs that they decompose into",
              [](Options& o, const std::string&) { o.own.of<LowerCommand>().unpackPlugins = true; }},
             {"--fall-back", "WHAT", "mark nodes with to_compile=0: %NAME of a value, or the class or path of a module",
              [](Options& o, const std::string& v) { o.own.of<LowerCommand>().fallBack.push_back(v); }, true},
             writing(Written::File,
                     {"-o,--output", "FILE", "write there, and the tensors to FILE with .safetensors in place of .ir",
                      [](Options& o, const std::string& v) { o.own.of<LowerCommand>().output = v; }}),
             {"--mode", "min|merge|o0|o1|o2|o3|o4|stabilize|unsafe",
              "a query by its name (default: o2): from inlining alone over all that is exact to all that is fast",
              [](Options& o, const std::string& v) { o.rewrite.mode = v; }},
             {"--why", "RULE",
              "tell instead of the graph whether this rule is applied, and if not, what does not fit where",
              [](Options& o, const std::string& v) { o.rewrite.why = v; }},
             {"--passes", "NAMES", "only these entries, separated by commas, in the order of their positions",
              [](Options& o, const std::string& v) { addNames(o.rewrite.passes, v); }, true},
         } +
         rewritingOptions();
}

}  // namespace

VerbSpec lowerCommand() {
  return {.name = "lower",
          .summary = "make one graph of a method and all that it calls, and simplify it",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump; -: text from standard input",
          .argumentRequired = true,
          .details = kLowerDetails,
          .options = lowerOptions(),
          .command = runLower};
}

}  // namespace tscompile
