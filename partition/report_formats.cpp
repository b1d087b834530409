// Partitions for programs: JSON and Graphviz.
#include "ir/operators/overload_cache.h"
#include "ir/support/json_fields.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "partition/root_causes.h"
#include "partition/segment_graph.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

// What all parts of a report look up.
struct Sources {
  Sources(const Graph& graph, const OpRegistry& registry, const Partition& partition)
      : graph(graph), partition(partition), roots(graph, partition), overloads(registry) {}

  const Graph& graph;
  const Partition& partition;
  RootCauses roots;
  OverloadCache overloads;
};

struct ValueFields {
  ValueFields(const Value* v) : value(v) {}  // NOLINT: as JSON has it
  const Value* value;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("name", value->name());
    visit("type", typeText(value->type()));
  }
};

std::vector<ValueFields> fieldsOf(const std::vector<const Value*>& values) { return {values.begin(), values.end()}; }

struct SegmentFields {
  const Partition& partition;
  const Segment& s;

  template <class Visit>
  void fields(Visit&& visit) const {
    std::vector<std::string> recomputed;
    for (const Node* n : s.recomputed) recomputed.push_back(n->output()->name());
    visit("id", s.id);
    visit("target", targetName(s.target));
    visit("nodes", partition.count(s));
    visit("depth", s.block->depth());
    if (s.target == Target::Accelerated) visit("hash", contentHash(*segmentGraph(s, partition)));
    visit("inputs", fieldsOf(s.inputs));
    visit("outputs", fieldsOf(s.outputs));
    visit("recomputed", recomputed);
    visit("do_not_merge", s.doNotMerge);
    visit("seconds", s.seconds);
    visit("gain_seconds", s.gainSeconds);
    visit("border_seconds", s.borderSeconds);
  }
};

// The first cause; the way to it are the causes of the nodes between, the nearest of them.
struct CauseFields {
  Sources& sources;
  const Node* node;

  template <class Visit>
  void fields(Visit&& visit) const {
    constexpr size_t kMost = 32;
    const std::vector<const Node*> causes = sources.partition.causes(node, kMost);
    const Node* root = sources.roots.of(node);
    std::vector<std::string> chain;
    for (const Node* c : causes) chain.push_back(nameOf(c).value.value_or(std::string(c->kind().text())));
    visit("value", nameOf(root));
    visit("op", root->kind().text());
    visit("line", lineOf(root));
    visit("reason", reasonCode(sources.partition.decisions[root].reason));
    visit("chain", chain);
    if (causes.size() == kMost && causes.back() != root) visit("chain_complete", false);
  }

 private:
  static OrNull<std::string> nameOf(const Node* n) {
    return {n->outputCount() ? std::optional<std::string>(n->output()->name()) : std::nullopt};
  }
};

struct NodeFields {
  Sources& sources;
  const Node* n;
  size_t id;

  template <class Visit>
  void fields(Visit&& visit) const {
    const Decision& d = sources.partition.decisions[n];
    const Work& work = sources.partition.work[n];
    const Operator* op = n->hasBlocks() || n->python || n->subgraph() ? nullptr : sources.overloads.resolve(*n);
    std::vector<std::string> outputs;
    for (const Value* v : n->outputs()) outputs.emplace_back(v->name());
    visit("id", id);
    visit("line", lineOf(n));
    visit("op", n->kind().text());
    visit("schema", OrNull<std::string>{op ? std::optional<std::string>(op->schemaSource()) : std::nullopt});
    visit("outputs", outputs);
    visit("segment", d.segment);
    visit("reason", reasonCode(d.reason));
    if (!d.accelerated()) {
      visit("detail", d.detail);
      visit("remedy", textOf(d.remedy));
      visit("cause", CauseFields{sources, n});
    }
    visit("flops", work.flops);
    visit("bytes", work.bytes);
  }
};

template <class Wanted>
std::vector<NodeFields> nodesOf(Sources& sources, Wanted wanted) {
  std::vector<NodeFields> out;
  size_t id = 0;
  forEachNode(sources.graph, [&](const Node* n) {
    if (!sources.partition.given.contains(n) && wanted(n)) out.push_back({sources, n, id});
    ++id;
  });
  return out;
}

struct PartitionFields {
  Sources& sources;

  template <class Visit>
  void fields(Visit&& visit) const {
    const Partition& p = sources.partition;
    std::vector<SegmentFields> segments;
    for (const Segment& s : p.segments) segments.push_back({p, s});
    visit("schema", "tscompile.partition/1");
    visit("strategy", strategyName(p.strategy));
    visit("min_block_size", p.minBlockSize);
    visit("engines", p.count(Target::Accelerated));
    visit("coverage", coverage(p));
    visit("seconds", p.seconds);
    visit("segments", Lines{segments});
    visit("nodes", Lines{nodesOf(sources, [](const Node*) { return true; })});
  }
};

struct ExplainFields {
  Sources& sources;
  const std::unordered_set<const Node*>& wanted;
  const std::vector<std::string>& inputs;

  template <class Visit>
  void fields(Visit&& visit) const {
    visit("schema", "tscompile.explain/1");
    visit("inputs", inputs);
    visit("nodes", Lines{nodesOf(sources, [&](const Node* n) { return wanted.contains(n); })});
  }
};

}  // namespace

void writePartitionJson(const Graph& graph, const OpRegistry& registry, const Partition& partition, std::ostream& out) {
  Sources sources(graph, registry, partition);
  writeJson(out, PartitionFields{sources});
}

void writeNodesJson(const Graph& graph, const OpRegistry& registry, const Partition& partition,
                    const std::unordered_set<const Node*>& nodes, const std::vector<std::string>& inputs,
                    std::ostream& out) {
  Sources sources(graph, registry, partition);
  writeJson(out, ExplainFields{sources, nodes, inputs});
}

void writePartitionDot(const Graph& graph, const Partition& partition, std::ostream& out) {
  NodeTable<uint32_t> number(graph);
  uint32_t count = 0;
  forEachNode(graph, [&](const Node* n) { number[n] = count++; });
  out << "digraph partition {\n  node [shape=box];\n";
  for (const Segment& s : partition.segments) {
    bool engine = s.target == Target::Accelerated;
    out << fmt::format("  subgraph cluster_{} {{\n    label=\"@{} {}\"; style=filled; color={};\n", s.id, s.id,
                       targetName(s.target), engine ? "lightblue" : "lightgrey");
    for (const Node* n : s.nodes) {
      std::string label(n->kind().text());
      const Decision& d = partition.decisions[n];
      if (!d.accelerated()) label += "\n" + std::string(reasonCode(d.reason));
      out << fmt::format("    n{} [label={}, tooltip=\"line {}\"];\n", number[n], jsonQuote(label), lineOf(n));
    }
    out << "  }\n";
  }
  for (const Segment& s : partition.segments)
    for (const Node* n : s.nodes)
      for (const Use& u : n->inputs())
        if (u.value->node() && !partition.given.contains(u.value->node()))
          out << fmt::format("  n{} -> n{} [label={}];\n", number[u.value->node()], number[n],
                             jsonQuote("%" + u.value->name()));
  out << "}\n";
}

}  // namespace tscompile
