// `tscompile partition` and `tscompile explain`: what runs where, and why.
#include "api/compile.h"
#include "ir/graph/printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "partition/stitch.h"
#include "runtime/engine/why_kernel.h"
#include "tools/commands/commands.h"
#include "tools/work/partitioning.h"

#include <fmt/core.h>

#include <algorithm>
#include <unordered_set>

namespace tscompile {
namespace {

// The graph of the file, ready to be cut; nothing after reporting what is wrong.
std::optional<Prepared> prepare(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  PartitionSpec spec = partitionSpecOf(command, session.common.limits);
  Result<Module> module = loadForPartition(options, session);
  if (!module) return std::nullopt;
  ProgressStep lowering(session.progress, spec.lower ? "lowering" : "propagating shapes");
  Result<Prepared> prepared = prepareForPartition(*module, spec, session.diagnostics);
  if (!prepared) return std::nullopt;
  if (!prepared->unmatched.empty()) {
    UsageError error{prepared->unmatched[0].message};
    if (!prepared->unmatched[0].note.empty()) error.notes.push_back(prepared->unmatched[0].note);
    throw error;
  }
  return std::move(*prepared);
}

int sweep(const Prepared& prepared, const PartitionCommand& command, Session& session) {
  bool json = command.form == PartitionForm::Json;
  JsonWriter writer(session.out);
  if (json) {
    writer.beginObject();
    writer.field("format", "tscompile.partition_sweep/1");
    writer.key("rows");
    writer.beginArray();
  } else {
    session.out << " min-block-size  segments  engines  nodes in engines  est. time\n";
  }
  for (size_t size : command.sweep) {
    PartitionOptions options = partitionOptionsOf(command);
    options.minBlockSize = size;
    Partition p = partition(prepared, options);
    size_t engines = p.count(Target::Accelerated);
    if (json) {
      writer.beginObject();
      writer.field("min_block_size", size);
      writer.field("segments", p.segments.size());
      writer.field("engines", engines);
      writer.field("coverage", coverage(p));
      writer.field("seconds", p.seconds);
      writer.endObject();
    } else {
      session.out << fmt::format(" {:>14}  {:>8}  {:>7}  {:>6} = {:>5.1f} %  {:>6.1f} us\n", size, p.segments.size(),
                                 engines, p.acceleratedCount(), coverage(p) * 100, p.seconds * 1e6);
    }
  }
  if (json) {
    writer.endArray();
    writer.endObject();
    writer.finish();
  }
  return session.finish();
}

int writeStitched(const Prepared& prepared, const Partition& p, const PartitionCommand& command, Session& session) {
  if (!command.emitGraph) throw UsageError{"--output goes with --emit graph", {"segments go to standard output"}};
  prepared.module->withGraph(stitch(*prepared.graph, p))
      .write(command.output, session.diagnostics, session.common.limits);
  return session.finish();
}

int print(const Prepared& prepared, const Partition& p, const PartitionCommand& command, Session& session) {
  PrintOptions printing;
  printing.maxBytes = session.common.limits.printBytes;
  TextSink sink = [&](std::string_view piece) { session.out << piece; };
  bool complete =
      command.emitGraph ? printGraph(*stitch(*prepared.graph, p), sink, printing) : printSegments(p, sink, printing);
  if (!complete)
    session.diagnostics
        .error("the printed text is longer than " + std::to_string(printing.maxBytes) + " bytes", ErrorKind::Limit)
        .note("the limit is set by --limit print=N");
  if (command.explain)
    session.out << '\n'
                << explainSegments(*prepared.graph, p,
                                   [&](PartitionOptions options) { return partition(prepared, options); });
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
  NearestName nearest(asked);
  forEachNode(graph, [&](const Node* n) { nearest.consider(n->kind().text()); });
  UsageError error{"no node of the graph is '" + abbreviate(asked, 80) + "'"};
  if (findValue(graph, asked))
    error.notes.push_back("did you mean '%" + asked + "'?");
  else if (nearest.found())
    error.notes.push_back("did you mean '" + nearest.name() + "'?");
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
    if (n->kind().text() == asked) out.push_back(n);
  });
  if (out.empty()) throwNoOperator(asked, graph);
  return out;
}

void explainText(const std::string& asked, const Prepared& prepared, const Partition& p, std::ostream& out) {
  const Graph& graph = *prepared.graph;
  std::vector<const Node*> nodes = nodesOf(asked, graph);
  for (const Node* n : nodes)
    out << explainNode(
        n, p, [&](PartitionOptions options) { return partition(prepared, options); },
        prepared.shapes ? whyKernel(*n, *prepared.shapes, *prepared.registry) : "");
  if (!nodes.empty()) return;
  const Value* v = findValue(graph, asked.substr(1));
  out << asked << " is an input of " << (v->block()->owner() ? "its block" : "the graph") << "\n";
}

// Lists the nodes of a method that no engine takes.
int checkSupport(const Options& options, Session& session) {
  const std::string& method = options.partition.checkSupport;
  Result<Module> module = loadForPartition(options, session);
  if (!module) return session.finish();
  Result<std::vector<UnsupportedNode>> nodes = checkMethodOperatorSupport(*module, method, session.diagnostics);
  if (!nodes) return session.finish();
  if (session.common.json) {
    JsonWriter json(session.out);
    json.beginObject();
    json.field("format", "tscompile.method_support/1");
    json.field("method", method);
    json.key("unsupported");
    json.beginArray();
    for (const UnsupportedNode& n : *nodes) {
      json.newLine();
      json.beginObject();
      json.field("operator", n.op);
      if (!n.schema.empty()) json.field("schema", n.schema);
      json.field("node", n.text);
      json.field("reason", reasonCode(n.verdict.reason));
      json.field("detail", n.verdict.detail);
      json.endObject();
    }
    json.endArray();
    json.endObject();
    json.finish();
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

int runPartition(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  if (!command.checkSupport.empty()) return checkSupport(options, session);
  std::optional<Prepared> prepared = prepare(options, session);
  if (!prepared) return session.finish();
  if (!command.sweep.empty()) return sweep(*prepared, command, session);
  Partition p = partition(*prepared, partitionOptionsOf(command));
  if (command.requireFull && coverage(p) < *command.requireFull)
    reportNotCovered(*prepared, p, *command.requireFull, session.diagnostics);
  if (!command.output.empty() && command.output != "-") return writeStitched(*prepared, p, command, session);
  if (command.form == PartitionForm::Text) return print(*prepared, p, command, session);
  if (command.form == PartitionForm::Json)
    writePartitionJson(*prepared->graph, *prepared->registry, p, session.out);
  else
    writePartitionDot(*prepared->graph, p, session.out);
  return session.finish();
}

int runExplain(const Options& options, Session& session) {
  if (options.arguments.size() < 2)
    throw UsageError{"explain needs a value (%name) or an operator (aten::relu) behind the file",
                     {"see 'tscompile help explain'"}};
  std::optional<Prepared> prepared = prepare(options, session);
  if (!prepared) return session.finish();
  Partition p = partition(*prepared, partitionOptionsOf(options.partition));
  const std::vector<std::string> asked(options.arguments.begin() + 1, options.arguments.end());
  if (!session.common.json) {
    for (const std::string& a : asked) explainText(a, *prepared, p, session.out);
    return session.finish();
  }
  std::unordered_set<const Node*> nodes;
  std::vector<std::string> inputs;
  for (const std::string& a : asked) {
    std::vector<const Node*> found = nodesOf(a, *prepared->graph);
    nodes.insert(found.begin(), found.end());
    if (found.empty()) inputs.push_back(a.substr(1));
  }
  writeNodesJson(*prepared->graph, *prepared->registry, p, nodes, inputs, session.out);
  return session.finish();
}

}  // namespace tscompile
