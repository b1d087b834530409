// `tscompile partition` and `tscompile explain`: what runs where, and why.
#include "api/partition.h"
#include "ir/printer.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "ir/verifier.h"
#include "partition/report.h"
#include "partition/stitch.h"
#include "tools/commands.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

InputRange rangeOf(std::string_view option, const std::string& text) {
  std::optional<InputRange> range = parseInputRange(text);
  if (range) return std::move(*range);
  throw UsageError{std::string(option) + " takes NAME=SIZES such as x=1..8x3x224x224 or x=2x10:i64, not '" +
                   abbreviate(text, 80) + "'"};
}

PartitionSpec specOf(const PartitionCommand& command, Session& session) {
  PartitionSpec spec;
  spec.operators = command.operators;
  spec.modules = command.modules;
  spec.nodes = command.nodes;
  spec.lower = command.lower;
  spec.lowering.method = command.method;
  spec.lowering.limits = session.common.limits;
  for (const std::string& text : command.shapes) spec.shapes.push_back(rangeOf("--shape", text));
  for (const std::string& text : command.usualShapes) spec.usualShapes.push_back(rangeOf("--opt-shape", text));
  return spec;
}

void checkShapeName(const InputRange& range, const Graph& graph) {
  auto inputs = graph.inputs();
  auto found = std::find_if(inputs.begin(), inputs.end(), [&](const Value* v) { return v->name() == range.name; });
  if (found == inputs.end()) {
    UsageError error{"the graph has no input '" + abbreviate(range.name, 80) + "'"};
    NearestName nearest(range.name);
    for (const Value* v : inputs) nearest.consider(v->name());
    if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
    throw error;
  }
  if (!(*found)->type()->isTensor())
    throw UsageError{"input %" + range.name + " is " + typeText((*found)->type()) + " and has no shape"};
}

// One size for each dimension, in the range that --shape gives.
void checkUsualShape(const InputRange& usual, const std::vector<InputRange>& shapes) {
  if (usual.least != usual.most) throw UsageError{"--opt-shape takes one size for each dimension of " + usual.name};
  for (const InputRange& r : shapes) {
    if (r.name != usual.name) continue;
    bool inside = r.most.size() == usual.most.size();
    for (size_t d = 0; inside && d < r.most.size(); ++d)
      inside = r.least[d] <= usual.most[d] && usual.most[d] <= r.most[d];
    if (!inside) throw UsageError{"--opt-shape of " + r.name + " is outside of its --shape"};
  }
}

void checkShapes(const PartitionSpec& spec, const Graph& graph) {
  for (const InputRange& r : spec.shapes) checkShapeName(r, graph);
  for (const InputRange& r : spec.usualShapes) {
    checkShapeName(r, graph);
    checkUsualShape(r, spec.shapes);
  }
}

// The graph of the file, ready to be cut; nothing after reporting what is wrong.
std::optional<Prepared> prepare(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  PartitionSpec spec = specOf(command, session);
  Result<SourcePtr> source = session.readGraphText(options.arguments[0]);
  if (!source) return std::nullopt;
  LoadOptions load;
  load.weights = command.weights;
  load.limits = session.common.limits;
  Result<Module> module = Module::fromSource(*source, load, session.diagnostics);
  if (!module) return std::nullopt;
  const Graph* entry = module->graph(command.method);
  if (entry && !verify(*entry, module->registry(), session.diagnostics)) return std::nullopt;
  if (entry) checkShapes(spec, *entry);
  Result<Prepared> prepared = prepareForPartition(*module, spec, session.diagnostics);
  if (!prepared) return std::nullopt;
  if (!prepared->unmatched.empty()) {
    UsageError error{prepared->unmatched[0].message};
    if (!prepared->unmatched[0].note.empty()) error.notes.push_back(prepared->unmatched[0].note);
    throw error;
  }
  return std::move(*prepared);
}

PartitionOptions optionsOf(const PartitionCommand& command) {
  PartitionOptions options;
  // Whoever wants all nodes in engines does not mind small ones.
  options.minBlockSize = command.minBlockSize.value_or(command.requireFull ? 1 : options.minBlockSize);
  options.strategy = command.strategy;
  options.markedOperators = command.operators;
  return options;
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
    PartitionOptions options = optionsOf(command);
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

// Reports what keeps the graph from running in engines as far as was asked for.
void checkRequired(const Prepared& prepared, const Partition& p, double required, Session& session) {
  if (coverage(p) >= required) return;
  session.diagnostics.error(fmt::format("{:.1f} % of the nodes run in engines, and --require-full asks for {:g} %",
                                        coverage(p) * 100, required * 100),
                            ErrorKind::Unsupported);
  forEachNode(*prepared.graph, [&](const Node* n) {
    if (p.given.contains(n)) return;
    const Decision& d = p.decisions[n];
    if (d.accelerated() || d.cause) return;
    Diagnostic& error = session.diagnostics.error(
        n->range, std::string(n->kind().text()) + " cannot run in an engine: " + d.detail, ErrorKind::Unsupported);
    error.note("the node is " + nodeText(*n));
    const Operator* op = n->hasBlocks() ? nullptr : prepared.registry->resolve(*n);
    if (op) error.note("its schema is " + std::string(op->schemaSource()));
    if (!d.remedy.empty()) error.note(d.remedy);
    if (d.reason == Reason::NoOp || d.reason == Reason::NoOverload)
      error.note("docs/adding_an_operator.md tells how to write a converter");
  });
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
                << explainSegments(*prepared.graph, p, [&](PartitionOptions options) {
                     options.markedOperators = command.operators;
                     return partition(prepared, options);
                   });
  return session.finish();
}

bool explainOne(const std::string& asked, const Prepared& prepared, const Partition& p, Session& session) {
  const Graph& graph = *prepared.graph;
  if (asked.starts_with('%')) {
    const Value* v = graph.find(asked.substr(1));
    if (v && v->node()) {
      session.out << explainNode(v->node(), p);
      return true;
    }
    if (v) {
      session.out << asked << " is an input of " << (v->block()->owner() ? "its block" : "the graph") << "\n";
      return true;
    }
    NearestName nearest(asked.substr(1));
    graph.forEachName([&](std::string_view n) { nearest.consider(n); });
    UsageError error{"the graph has no value '" + abbreviate(asked, 80) + "'"};
    if (nearest.found()) error.notes.push_back("did you mean '%" + nearest.name() + "'?");
    error.notes.push_back("lowering removes and renames values; --no-lower takes the graph as it is");
    throw error;
  }
  bool any = false;
  NearestName nearest(asked);
  forEachNode(graph, [&](const Node* n) {
    nearest.consider(n->kind().text());
    if (n->kind().text() != asked) return;
    any = true;
    session.out << explainNode(n, p);
  });
  if (any) return true;
  UsageError error{"no node of the graph is '" + abbreviate(asked, 80) + "'"};
  if (nearest.found()) error.notes.push_back("did you mean '" + nearest.name() + "'?");
  throw error;
}

}  // namespace

int runPartition(const Options& options, Session& session) {
  const PartitionCommand& command = options.partition;
  std::optional<Prepared> prepared = prepare(options, session);
  if (!prepared) return session.finish();
  if (!command.sweep.empty()) return sweep(*prepared, command, session);
  Partition p = partition(*prepared, optionsOf(command));
  if (command.requireFull) checkRequired(*prepared, p, *command.requireFull, session);
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
  Partition p = partition(*prepared, optionsOf(options.partition));
  for (size_t i = 1; i < options.arguments.size(); ++i) explainOne(options.arguments[i], *prepared, p, session);
  return session.finish();
}

}  // namespace tscompile
