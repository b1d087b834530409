#include "api/partition.h"

#include "api/exported_sizes.h"
#include "api/extensions.h"
#include "api/input_advice.h"
#include "api/support/saved_plugins.h"
#include "api/symbolic_ranges.h"
#include "ir/graph/clone.h"
#include "ir/graph/module_path.h"
#include "ir/graph/printer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "passes/lowering/fallback_marks.h"
#include "runtime/engine/support.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

namespace tscompile {
namespace {

IValue nameList(const std::vector<std::string>& names, bool values) {
  std::vector<IValue> items;
  for (const std::string& n : names) items.emplace_back(values && n.starts_with('%') ? n.substr(1) : n);
  return IValue(Ref<ListValue>::make(types().string, std::move(items)));
}

RewriteArguments withForces(const PartitionSpec& spec) {
  RewriteArguments arguments = spec.lowering.arguments;
  if (!spec.torchExecutedOps.empty()) arguments["fallback_operators"] = nameList(spec.torchExecutedOps, false);
  if (!spec.torchExecutedNodes.empty()) arguments["fallback_nodes"] = nameList(spec.torchExecutedNodes, true);
  if (!spec.torchExecutedModules.empty()) {
    arguments["fallback_classes"] = nameList(spec.torchExecutedModules, false);
    arguments["fallback_paths"] = nameList(spec.torchExecutedModules, false);
  }
  return arguments;
}

// Whether nodes of the text can be told by modules at all.
bool hasModules(const ModuleDump* dump, const Graph& entry) {
  if (dump) return true;
  bool any = false;
  forEachNode(entry, [&](const Node* n) {
    any |= !n->scope.empty() || (n->kind() == sym::GetAttr && n->input(0)->type()->is(TypeKind::Class));
  });
  return any;
}

class MatchCheck {
 public:
  MatchCheck(const ModuleDump* dump, const Graph& entry, const RewriteArguments& reports)
      : dump_(dump), entry_(entry), reports_(reports) {}

  std::vector<Unmatched> check(const PartitionSpec& spec) {
    for (const std::string& name : spec.torchExecutedOps)
      if (!found(name)) missingOperator(name);
    for (const std::string& name : spec.torchExecutedModules)
      if (!found(name)) missingModule(name);
    for (const std::string& name : spec.torchExecutedNodes)
      if (!found(name.substr(name.starts_with('%')))) missingNode(name);
    return std::move(out_);
  }

 private:
  bool found(const std::string& name) const { return reports_.contains("fallback:" + name); }
  static std::string hint(const NearestName& nearest) {
    return nearest.found() ? "did you mean '" + nearest.name() + "'?" : "";
  }
  void missingOperator(const std::string& name) {
    NearestName nearest(name);
    const auto consider = [&](const Node* n) { nearest.consider(n->kind().text()); };
    forEachNode(entry_, consider);
    for (size_t i = 0; dump_ && i < dump_->modules.size(); ++i)
      for (const DumpedMethod& m : dump_->modules[i].methods)
        if (m.graph) forEachNode(*m.graph, consider);
    out_.push_back({"no node of the graph is '" + abbreviate(name, 80) + "'", hint(nearest)});
  }
  void missingModule(const std::string& name) {
    if (!hasModules(dump_, entry_))
      out_.push_back({"no module '" + abbreviate(name, 80) + "': the text has no modules",
                      "a module dump has them, and traced graphs with scopes"});
    else
      out_.push_back(
          {"no node belongs to a module of class or path '" + abbreviate(name, 80) + "'", nearestClass(name)});
  }
  // A class or a path; rather a class whose last part is the name.
  std::string nearestClass(const std::string& name) const {
    NearestName nearest(name);
    std::string ending;
    forEachNode(entry_, [&](const Node* n) {
      for (const std::string& path : FallbackMarks::pathsOf(n->scope.text())) nearest.consider(path);
      for (const Value* v : n->outputs()) {
        if (!v->type()->is(TypeKind::Class)) continue;
        std::string known = FallbackMarks::plainClass(v->type()->name());
        if (ending.empty() && known.ends_with("." + name)) ending = known;
        nearest.consider(known);
        nearest.consider(modulePath(v));
      }
    });
    if (dump_) considerCalled(name, nearest, ending);
    return ending.empty() ? hint(nearest) : "did you mean '" + ending + "'?";
  }
  // Modules that are called, with all that is in them.
  void considerCalled(const std::string& name, NearestName& nearest, std::string& ending) const {
    for (const std::string& path : modulePaths(*dump_))
      if (!path.empty()) nearest.consider(path);
    for (const DumpedModule& m : dump_->modules) {
      std::string known = FallbackMarks::plainClass(m.className);
      if (ending.empty() && known.ends_with("." + name)) ending = known;
      nearest.consider(known);
    }
  }
  void missingNode(const std::string& name) {
    std::string wanted = name.substr(name.starts_with('%'));
    NearestName nearest(wanted);
    entry_.forEachName([&](std::string_view n) { nearest.consider(n); });
    const Value* value = entry_.find(wanted);
    out_.push_back({value ? "%" + wanted + " is made by no node that runs"
                          : "the graph has no value '%" + abbreviate(wanted, 80) + "'",
                    value || !nearest.found() ? "" : "did you mean '%" + nearest.name() + "'?"});
  }

  const ModuleDump* dump_;
  const Graph& entry_;
  const RewriteArguments& reports_;
  std::vector<Unmatched> out_;
};

// The registry that the spec asks for: the one that is given, or one laid over it.
bool chooseRegistry(const OpRegistry& given, const PartitionSpec& spec, Prepared& out, Diagnostics& diagnostics) {
  out.registry = &given;
  if (spec.withoutConverters.empty()) return true;
  auto changed = std::make_shared<Extensions>(&given);
  bool good = true;
  for (const std::string& op : spec.withoutConverters) good &= changed->withoutConverter(op, diagnostics);
  out.registry = &changed->registry();
  out.extensions = std::move(changed);
  return good;
}

std::unique_ptr<Graph> marked(const Graph& graph, const PartitionSpec& spec, const OpRegistry& registry,
                              Diagnostics& diagnostics, RewriteArguments& reports) {
  std::unique_ptr<Graph> copy = cloneGraph(graph);
  RewriteContext context(*copy, registry, diagnostics);
  context.arguments = withForces(spec);
  markFallback(*copy, context);
  reports = context.reports;
  return copy;
}

using Nodes = std::unordered_set<const Node*>;

// Of each input of which no dtype is said, the nodes that could not run if it were of this one.
std::map<size_t, Nodes> failingOn(DType dtype, const Graph& graph, const OpRegistry& registry,
                                  const std::vector<InputRange>& asked) {
  std::map<size_t, Nodes> out;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].dtype != DType::Undefined) continue;
    std::vector<InputRange> other = asked;
    other[i].dtype = dtype;
    const ShapePropagation shapes(graph, registry, shapeOptions(graph, other, false));
    Nodes& nodes = out[i];
    for (const ShapeConflict& c : shapes.conflicts()) nodes.insert(c.node);
  }
  return out;
}

// The inputs whose dtype was said, and by which alone a node cannot run: as float32 it could.
std::vector<size_t> unfitDTypes(const Node* node, const Graph& graph, const OpRegistry& registry,
                                const std::vector<InputRange>& asked) {
  std::vector<size_t> out;
  for (size_t i = 0; i < asked.size(); ++i) {
    if (asked[i].dtype == DType::Undefined || asked[i].dtype == DType::Float32) continue;
    std::vector<InputRange> other = asked;
    other[i].dtype = DType::Float32;
    const ShapePropagation shapes(graph, registry, shapeOptions(graph, other, false));
    if (std::ranges::find(shapes.conflicts(), node, &ShapeConflict::node) == shapes.conflicts().end()) out.push_back(i);
  }
  return out;
}

// Whether nodes that always run can do so with the sizes that are asked for.
bool checkConflicts(const ShapePropagation& shapes, const Graph& graph, const std::vector<InputRange>& asked,
                    Diagnostics& diagnostics) {
  bool good = true;
  if (shapes.conflicts().empty()) return true;
  std::map<size_t, Nodes> failing = failingOn(DType::Int64, graph, shapes.registry(), asked),
                          failingOnMasks = failingOn(DType::Bool, graph, shapes.registry(), asked);
  constexpr DType kOthers[] = {DType::Float16, DType::BFloat16, DType::Float64};
  std::vector<std::map<size_t, Nodes>> failingOnOthers;
  for (DType dtype : kOthers) failingOnOthers.push_back(failingOn(dtype, graph, shapes.registry(), asked));
  for (const ShapeConflict& c : shapes.conflicts()) {
    if (c.node->block() != graph.block()) continue;
    Diagnostic& d = diagnostics.error(c.node->range, fmt::format("{} cannot run with the sizes that are asked for: {}",
                                                                 c.node->kind().text(), c.message));
    for (const auto& [i, nodes] : failing) {
      const bool mayBeInteger = !nodes.contains(c.node), mayBeMask = !failingOnMasks[i].contains(c.node);
      const bool isMask = mayBeMask && (!mayBeInteger || c.message.find("bool") != std::string::npos);
      const auto other = std::ranges::find_if(
          failingOnOthers, [&, i = i](auto& failingOnIt) { return !failingOnIt[i].contains(c.node); });
      if (!mayBeInteger && !mayBeMask && other == failingOnOthers.end()) continue;
      const DType likely = isMask         ? DType::Bool
                           : mayBeInteger ? DType::Int64
                                          : kOthers[other - failingOnOthers.begin()];
      d.note(fmt::format("no dtype was said for %{}, so it is float32; {}:{} says one", asked[i].name,
                         inputRangeText(asked[i]), shortName(likely)));
    }
    const bool isFirst = std::exchange(good, false);
    for (size_t i : unfitDTypes(c.node, graph, shapes.registry(), asked))
      d.note(fmt::format("%{} was said to be {}: with float32 it can run", asked[i].name, pythonName(asked[i].dtype)));
    if (isFirst && d.notes.empty())
      for (std::string& text : fittingSizes(graph, shapes.registry(), asked)) d.note(std::move(text));
  }
  return good;
}

bool propagateShapes(std::unique_ptr<Graph> graph, const PartitionSpec& spec, bool always, Prepared& out,
                     Diagnostics& diagnostics) {
  forgetPluginPhases(*graph);
  if (always || !spec.shapes.empty()) {
    ShapePropagation shapes(*graph, *out.registry, shapeOptions(*graph, spec.shapes, false));
    if (!spec.shapes.empty() && !checkConflicts(shapes, *graph, spec.shapes, diagnostics)) return false;
    shapes.applyTo(*graph);
  }
  if (!spec.shapes.empty()) {
    std::vector<InputRange> least = spec.shapes;
    for (InputRange& r : least) {
      r = withoutExpressions(r);
      r.most = r.least;
    }
    out.leastShapes = std::make_shared<ShapePropagation>(*graph, *out.registry, shapeOptions(*graph, least, true));
  }
  std::vector<InputRange> usual = spec.shapes;
  usual.insert(usual.end(), spec.usualShapes.begin(), spec.usualShapes.end());  // the last of a name counts
  out.shapes = std::make_shared<ShapePropagation>(*graph, *out.registry, shapeOptions(*graph, usual, true));
  out.graph = std::move(graph);
  return true;
}

}  // namespace

Result<Prepared> prepareForPartition(const Module& module, const PartitionSpec& spec, Diagnostics& diagnostics) {
  Prepared out;
  if (!chooseRegistry(module.registry(), spec, out, diagnostics)) return Failed{};
  const Graph* entry = module.graph(spec.lowering.method);
  if (entry && !checkExportedRanges(module.exportedInputs(*entry).tensors, spec.shapes, diagnostics)) return Failed{};
  RewriteArguments reports;
  std::unique_ptr<Graph> graph;
  if (spec.lower || !entry) {
    LowerOptions lowering = spec.lowering;
    lowering.arguments = withForces(spec);
    lowering.shapes = spec.shapes;
    lowering.onReports = [&](const RewriteArguments& r) { reports = r; };
    Result<Module> lowered = module.lowered(lowering, diagnostics);
    if (!lowered) return Failed{};
    out.module = std::make_shared<Module>(std::move(*lowered));
    graph = cloneGraph(*out.module->graph());
  } else {
    out.module = std::make_shared<Module>(module);
    graph = marked(*entry, spec, *out.registry, diagnostics, reports);
  }
  out.unmatched = MatchCheck(module.text().module.get(), *entry, reports).check(spec);
  if (!propagateShapes(std::move(graph), spec, spec.lower, out, diagnostics)) return Failed{};
  return out;
}

Result<Prepared> prepareForPartition(const Graph& graph, const OpRegistry& registry, const PartitionSpec& spec,
                                     Diagnostics& diagnostics) {
  Prepared out;
  if (!chooseRegistry(registry, spec, out, diagnostics)) return Failed{};
  RewriteArguments reports;
  std::unique_ptr<Graph> copy = marked(graph, spec, *out.registry, diagnostics, reports);
  out.unmatched = MatchCheck(nullptr, graph, reports).check(spec);
  if (!propagateShapes(std::move(copy), spec, false, out, diagnostics)) return Failed{};
  return out;
}

std::vector<Unmatched> unmatchedForces(const Module& module, const PartitionSpec& spec,
                                       const RewriteArguments& reports) {
  const Graph* entry = module.graph(spec.lowering.method);
  if (!entry) return {};
  return MatchCheck(module.text().module.get(), *entry, reports).check(spec);
}

bool reportUnmatched(const Prepared& prepared, Diagnostics& diagnostics) {
  for (const Unmatched& u : prepared.unmatched) {
    Diagnostic& d = diagnostics.error(u.message, ErrorKind::Input);
    if (!u.note.empty()) d.note(u.note);
  }
  return prepared.unmatched.empty();
}

PartitionOptions partitionOptionsOf(const PartitionSpec& spec) {
  PartitionOptions options;
  options.minBlockSize = spec.minBlockSize.value_or(spec.requiredCoverage > 0 ? 1 : options.minBlockSize);
  options.countsGains = !spec.minBlockSize && spec.requiredCoverage == 0;
  options.strategy = spec.strategy;
  options.markedOperators = spec.torchExecutedOps;
  auto mark = [&](const std::vector<std::string>& names, int64_t kind) {
    options.marks.names.insert(options.marks.names.end(), names.begin(), names.end());
    options.marks.numbers.resize(options.marks.names.size(), kind);
  };
  mark(spec.torchExecutedOps, 0);
  mark(spec.torchExecutedModules, 1);
  mark(spec.torchExecutedNodes, 2);
  return options;
}

Partition partition(const Prepared& prepared, PartitionOptions options) {
  options.shapes = prepared.shapes.get();
  return segment(*prepared.graph, *prepared.registry, *engineSupport(*prepared.registry), options);
}

void reportNotCovered(const Prepared& prepared, const Partition& p, double required, Diagnostics& diagnostics) {
  diagnostics.error(
      fmt::format("{:.1f} % of the nodes run in engines, and {:g} % are required", coverage(p) * 100, required * 100),
      ErrorKind::Unsupported);
  forEachNode(*prepared.graph, [&](const Node* n) {
    if (p.given.contains(n) || p.wrapping.contains(n)) return;
    const Decision& d = p.decisions[n];
    if (d.accelerated() || d.cause) return;
    Diagnostic& error = diagnostics.error(
        n->range, fmt::format("{} cannot run in an engine: {}", n->kind().text(), d.detail), ErrorKind::Unsupported);
    error.note("the node is " + nodeText(*n));
    if (const Operator* op = n->hasBlocks() ? nullptr : prepared.registry->resolve(*n))
      error.note("its schema is " + std::string(op->schemaSource()));
    if (!d.remedy.empty()) error.note(textOf(d.remedy));
    if (d.reason == Reason::NoOverload || (d.reason == Reason::NoOp && !d.remedy.isToRead()))
      error.note("docs/writing_converters.md tells how to add operators and converters");
  });
}

}  // namespace tscompile
