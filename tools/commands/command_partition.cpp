// `tscompile partition` and `tscompile explain`: what runs where, and why.
#include "api/compile.h"
#include "api/engine_cut.h"
#include "ir/graph/printer.h"
#include "ir/graph/written_operator.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "partition/stitch.h"
#include "passes/lowering/assumed_weights.h"
#include "runtime/engine/why_kernel.h"
#include "tools/commands/commands.h"
#include "tools/options/option_parts.h"
#include "tools/tasks/bound_inputs.h"
#include "tools/tasks/option_effects.h"
#include "tools/tasks/partitioning.h"

#include <fmt/core.h>

#include <unordered_set>

namespace tscompile {
namespace {

// The graph of the file, ready to be cut; nothing after reporting what is wrong.
std::optional<Prepared> prepare(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  CompileSpec spec = compileSpecOf(command, session);
  Result<Module> module = loadForPartition(options, spec, session);
  if (!module || !addSizesOfInputs(spec, options, *module, session)) return std::nullopt;
  if (module->engineInfo())
    session.note("this is how the graph of the file would be cut; 'inspect' tells how it is cut");
  checkOptionEffects(options, *module, {"no-lower", "require-full"});
  if (command.output.empty()) spec.lowering.arguments.emplace(kAssumedWeights, true);
  ProgressStep lowering(session.progress, spec.lower ? "lowering" : "propagating shapes");
  Result<Prepared> prepared = prepareForPartition(*module, spec, session.diagnostics);
  if (!prepared) return std::nullopt;
  if (!prepared->unmatched.empty()) {
    UsageError error{prepared->unmatched[0].message};
    if (!prepared->unmatched[0].note.empty()) error.notes.push_back(prepared->unmatched[0].note);
    throw error;
  }
  session.noteUnusedWeights(module->unusedWeights());
  return std::move(*prepared);
}

// What has no effect beside the options that tell something else in place of the segments.
void checkTogether(const Options& options) {
  const PartitionCommand& command = options.partition;
  if (!command.checkSupport.empty())
    refuseBeside(options,
                 {"--method", "--min-block-size", "--strategy", "--torch-executed-op", "--torch-executed-module",
                  "--torch-executed-node", "--without-converter", "--shape", "--opt-shape", "--no-lower", "--input",
                  "--inputs", "--require-full", "--bind", "--sweep", "--explain", "--emit", "--output"},
                 "--check-method-support");
  if (!command.sweep.empty())
    refuseBeside(options, {"--min-block-size", "--require-full", "--explain", "--emit", "--output"}, "--sweep");
}

// --emit table: what --explain adds, and nothing else.
struct PartitionTable {
  bool alone = false;
};

struct SweepRow {
  size_t minBlockSize, segments, engines, accelerated;
  double coverage, seconds;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("min_block_size", minBlockSize);
    visit("segments", segments);
    visit("engines", engines);
    visit("coverage", coverage);
    visit("seconds", seconds);
  }
};

struct Sweep {
  std::vector<SweepRow> rows;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.partition_sweep/1");
    visit("rows", rows);
  }
};

int sweep(const Prepared& prepared, const PartitionCommand& command, Session& session) {
  Sweep sweep;
  const Repartition again = recuts(prepared, command.spec.engine, false);
  for (size_t size : command.sweep) {
    PartitionOptions options = partitionOptionsOf(command.spec);
    options.minBlockSize = size;
    options.countsGains = false;
    const Partition p = again(options);
    sweep.rows.push_back(
        {size, p.segments.size(), p.count(Target::Accelerated), p.acceleratedCount(), coverage(p), p.seconds});
  }
  if (command.form == PartitionForm::Json) {
    writeJson(session.out, sweep);
    return session.finish();
  }
  session.out << " min-block-size  segments  engines  nodes in engines  est. time\n";
  for (const SweepRow& r : sweep.rows)
    session.out << fmt::format(" {:>14}  {:>8}  {:>7}  {:>6} = {:>5.1f} %  {:>6.1f} us\n", r.minBlockSize, r.segments,
                               r.engines, r.accelerated, r.coverage * 100, r.seconds * 1e6);
  return session.finish();
}

int writeStitched(const Prepared& prepared, const Partition& p, const PartitionCommand& command, Session& session) {
  if (!command.emitGraph) throw UsageError{"--output goes with --emit graph", {"segments go to standard output"}};
  prepared.module->withGraph(stitch(*prepared.graph, p))
      .write(command.output, session.diagnostics, session.common.limits);
  return session.finish();
}

int print(const Prepared& prepared, const EngineCut& cut, const PartitionCommand& command, bool onlyTable,
          Session& session) {
  const Partition& p = cut.partition;
  PrintOptions printing;
  printing.maxBytes = session.common.limits.printBytes;
  TextSink sink = [&](std::string_view piece) { session.out << piece; };
  bool complete = onlyTable           ? true
                  : command.emitGraph ? printGraph(*stitch(*prepared.graph, p), sink, printing)
                                      : printSegments(p, sink, printing);
  if (!complete)
    session.diagnostics
        .error("the printed text is longer than " + std::to_string(printing.maxBytes) + " bytes", ErrorKind::Limit)
        .note(textOf(Remedy(Remedy::Kind::RaiseLimit, {"print"})));
  if (command.explain)
    session.out << (onlyTable ? "" : "\n")
                << explainSegments(*prepared.graph, p, recuts(prepared, command.spec.engine, false));
  return session.finish();
}

// "%x" and "%12": numbers of values without a name change when a graph is cut, so those that are printed count.
const Value* findValue(const Graph& graph, std::string_view name) {
  if (const Value* v = graph.find(name)) return v;
  const Value* found = nullptr;
  forEachNode(graph, [&](const Node* n) {
    for (const Value* v : n->outputs())
      if (!found && !v->isNamed() && v->name() == name) found = v;
  });
  return found;
}

[[noreturn]] void throwNoValue(const std::string& asked, const Graph& graph) {
  NearestName nearest(asked.substr(1));
  graph.forEachName([&](std::string_view n) { nearest.consider(n); });
  UsageError error{"the graph has no value '" + abbreviate(asked, 80) + "'"};
  if (nearest.found()) error.notes.push_back("did you mean '%" + nearest.name() + "'?");
  error.notes.push_back("lowering removes and renames values; --no-lower takes the graph as it is");
  throw error;
}

[[noreturn]] void throwNoOperator(const std::string& asked, const Graph& graph) {
  const std::string nearest = nearestOperator(graph, asked);
  UsageError error{"no node of the graph is '" + abbreviate(asked, 80) + "'"};
  if (findValue(graph, asked))
    error.notes.push_back("did you mean '%" + asked + "'?");
  else if (!nearest.empty())
    error.notes.push_back("did you mean '" + nearest + "'?");
  else if (const std::string some = someOperators(graph); !some.empty())
    error.notes.push_back("it has " + some +
                          "; lowering makes other operators of some, --no-lower takes the graph as it is");
  throw error;
}

// The nodes that "%name" or "aten::relu" stands for; none for an input.
std::vector<const Node*> nodesOf(const std::string& asked, const Graph& graph) {
  std::vector<const Node*> out;
  if (asked.starts_with('%')) {
    const Value* v = findValue(graph, asked.substr(1));
    if (!v) throwNoValue(asked, graph);
    if (v->node()) out.push_back(v->node());
    return out;
  }
  forEachNode(graph, [&](const Node* n) {
    if (n->kind().text() == asked || writtenOperator(*n) == asked) out.push_back(n);
  });
  if (out.empty()) throwNoOperator(asked, graph);
  return out;
}

void explainText(const std::string& asked, const Prepared& prepared, const EngineCut& cut, const Repartition& again,
                 std::ostream& out) {
  const Graph& graph = *prepared.graph;
  std::vector<const Node*> nodes = nodesOf(asked, graph);
  for (const Node* n : nodes)
    out << explainNode(n, cut.partition, again,
                       prepared.shapes ? whyKernel(*n, *prepared.shapes, *prepared.registry) : "");
  if (!nodes.empty()) return;
  const Value* v = findValue(graph, asked.substr(1));
  out << asked << " is an input of " << (v->block()->owner() ? "its block" : "the graph") << "\n";
}

struct UnsupportedFields {
  UnsupportedFields(const UnsupportedNode& n) : node(n) {}  // NOLINT: as JSON has it
  const UnsupportedNode& node;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("operator", node.op);
    if (!node.schema.empty()) visit("schema", node.schema);
    visit("node", node.text);
    visit("reason", reasonCode(node.verdict.reason));
    visit("detail", node.verdict.detail);
  }
};

struct MethodSupport {
  std::string method;
  std::vector<UnsupportedFields> unsupported;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.method_support/1");
    visit("method", method);
    visit("unsupported", Lines{unsupported});
  }
};

// Lists the nodes of a method that no engine takes.
int checkSupport(const Options& options, Session& session) {
  const std::string& method = options.partition.checkSupport;
  CompileSpec spec = compileSpecOf(options.partition, session);
  Result<Module> module = loadForPartition(options, spec, session);
  if (!module) return session.finish();
  Result<std::vector<UnsupportedNode>> nodes = checkMethodOperatorSupport(*module, method, session.diagnostics);
  if (!nodes) return session.finish();
  if (session.common.json) {
    writeJson(session.out, MethodSupport{method, {nodes->begin(), nodes->end()}});
  } else if (nodes->empty()) {
    session.out << "engines take every operator of '" << method << "'\n";
  } else {
    session.out << "engines do not take " << nodes->size() << (nodes->size() == 1 ? " node" : " nodes") << " of '"
                << method << "'\n";
    for (const UnsupportedNode& n : *nodes)
      session.out << "  " << reasonCode(n.verdict.reason) << "  " << n.text << "\n    " << n.verdict.detail << "\n"
                  << (n.schema.empty() ? "" : "    schema " + n.schema + "\n");
  }
  return session.finish(nodes->empty() ? kExitDone : kExitNegative);
}

}  // namespace

static int runPartition(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  checkTogether(options);
  if (!command.checkSupport.empty()) return checkSupport(options, session);
  std::optional<Prepared> prepared = prepare(options, session);
  if (!prepared) return session.finish();
  if (!command.sweep.empty()) return sweep(*prepared, command, session);
  std::optional<EngineCut> cut =
      cutIntoEngines(*prepared, partitionOptionsOf(command.spec), command.spec.engine, false, session.diagnostics);
  if (!cut) return session.finish();
  const Partition& p = cut->partition;
  if (const double required = command.spec.requiredCoverage; coverage(p) < required)
    reportNotCovered(*prepared, p, required, session.diagnostics);
  if (!command.output.empty() && command.output != "-") return writeStitched(*prepared, p, command, session);
  if (command.form == PartitionForm::Text)
    return print(*prepared, *cut, command, options.own.of<PartitionTable>().alone, session);
  if (command.form == PartitionForm::Json)
    writePartitionJson(*prepared->graph, *prepared->registry, p, session.out);
  else
    writePartitionDot(*prepared->graph, p, session.out);
  return session.finish();
}

static int runExplain(const Options& options, Session& session) {
  if (options.arguments.size() < 2)
    throw UsageError{"explain needs a value (%name) or an operator (aten::relu) after the file",
                     {"see 'tscompile help explain'"}};
  std::optional<Prepared> prepared = prepare(options, session);
  if (!prepared) return session.finish();
  const CompileSpec& spec = options.partition.spec;
  std::optional<EngineCut> cut =
      cutIntoEngines(*prepared, partitionOptionsOf(spec), spec.engine, false, session.diagnostics);
  if (!cut) return session.finish();
  const std::vector<std::string> asked(options.arguments.begin() + 1, options.arguments.end());
  if (!session.common.json) {
    const Repartition again = recuts(*prepared, spec.engine, false);
    for (const std::string& a : asked) explainText(a, *prepared, *cut, again, session.out);
    return session.finish();
  }
  std::unordered_set<const Node*> nodes;
  std::vector<std::string> inputs;
  for (const std::string& a : asked) {
    std::vector<const Node*> found = nodesOf(a, *prepared->graph);
    nodes.insert(found.begin(), found.end());
    if (found.empty()) inputs.push_back(a.substr(1));
  }
  writeNodesJson(*prepared->graph, *prepared->registry, cut->partition, nodes, inputs, session.out);
  return session.finish();
}

namespace {

void setSweep(Options& o, const std::string& v) {
  constexpr std::string_view kName = "min-block-size=";
  if (!startsWith(v, kName)) throw UsageError{"--sweep takes min-block-size=N,N..., not '" + abbreviate(v, 80) + "'"};
  for (std::string_view size : split(std::string_view(v).substr(kName.size()), ','))
    o.partition.sweep.push_back(blockSize("--sweep min-block-size", std::string(size)));
}

constexpr std::string_view kPartitionDetails =
    R"(The graph is lowered first, without its weights unless they are given; --no-lower takes it as it is.
Nothing is compiled. docs/partitioning.md explains the reasons and the strategies.

Examples:
  tscompile partition model.ir --explain
  tscompile partition model.ir --torch-executed-op aten::lgamma --min-block-size 1
  tscompile partition model.ir --sweep min-block-size=1,2,4,8
)";

OptionSpecs partitionOptions() {
  return partitioningOptions() + sizesOfInputsOptions() + precisionOptions() +
         OptionSpecs{
             requireFullOption(),
             {"--check-method-support", "METHOD",
              "list what engines cannot take of a method, instead; exit 1 if there is some",
              [](Options& o, const std::string& v) { o.partition.checkSupport = v; }},
             {"--sweep", "LIST", "tell what min-block-size=1,2,4 would give, instead of the segments", setSweep},
             {"--format", "text|json|dot", "form of the output (default: text)",
              [](Options& o, const std::string& v) {
                o.partition.form = v == "json"  ? PartitionForm::Json
                                   : v == "dot" ? PartitionForm::Dot
                                                : PartitionForm::Text;
                o.common.json = v == "json";
              }},
             {"--explain", "", "add a table of the segments, with the reasons for what is not in engines",
              [](Options& o, const std::string&) { o.partition.explain = true; }},
             {"--emit", "segments|graph|table",
              "print the segments (default), one graph that has engines as nodes, or the table of --explain alone",
              [](Options& o, const std::string& v) {
                o.partition.emitGraph = v == "graph";
                o.partition.explain |= v == "table";
                o.own.of<PartitionTable>().alone = v == "table";
              }},
             writing(Written::File, {"-o,--output", "FILE",
                                     "write the graph there, and the tensors to FILE with .safetensors in place of .ir",
                                     [](Options& o, const std::string& v) { o.partition.output = v; }}),
         };
}

}  // namespace

VerbSpec partitionCommand() {
  return {.name = "partition",
          .summary = "cut a graph into segments for engines and for the interpreter, and tell why",
          .argument = "FILE",
          .argumentHelp = "a model: .pt, .pt2, graph text, a module dump; -: text from standard input",
          .argumentRequired = true,
          .details = kPartitionDetails,
          .options = partitionOptions(),
          .command = runPartition};
}

VerbSpec explainCommand() {
  return {.name = "explain",
          .summary = "tell where a node runs, why, and what would change it",
          .argument = "FILE",
          .argumentHelp = "a model as partition takes, then values (%name) or operators (aten::relu)",
          .argumentRequired = true,
          .argumentRepeats = true,
          .details = "Example:\n  tscompile explain model.ir %12 aten::lgamma\n",
          .options = partitioningOptions() + sizesOfInputsOptions() + precisionOptions(),
          .command = runExplain};
}

}  // namespace tscompile
