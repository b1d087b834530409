// Partitions for programs: JSON and Graphviz.
#include "ir/operators/overload_cache.h"
#include "ir/support/json_writer.h"
#include "ir/support/text.h"
#include "partition/report.h"
#include "partition/root_causes.h"
#include "partition/segment_graph.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

class JsonReport {
 public:
  JsonReport(const Graph& graph, const OpRegistry& registry, const Partition& partition, std::ostream& out)
      : graph_(graph), partition_(partition), roots_(graph, partition), overloads_(registry), json_(out) {}

  void write() {
    json_.beginObject();
    json_.field("format", "tscompile.partition/1");
    json_.field("strategy", strategyName(partition_.strategy));
    json_.field("min_block_size", partition_.minBlockSize);
    json_.field("engines", partition_.count(Target::Accelerated));
    json_.field("coverage", coverage(partition_));
    json_.field("seconds", partition_.seconds);
    json_.key("segments");
    json_.beginArray();
    for (const Segment& s : partition_.segments) segment(s);
    json_.endArray();
    nodes([](const Node*) { return true; });
  }

  void write(const std::unordered_set<const Node*>& wanted, const std::vector<std::string>& inputs) {
    json_.beginObject();
    json_.field("format", "tscompile.explain/1");
    json_.key("inputs");
    json_.beginArray();
    for (const std::string& name : inputs) json_.value(name);
    json_.endArray();
    nodes([&](const Node* n) { return wanted.contains(n); });
  }

 private:
  template <class Wanted>
  void nodes(Wanted&& wanted) {
    json_.key("nodes");
    json_.beginArray();
    size_t id = 0;
    forEachNode(graph_, [&](const Node* n) {
      if (!partition_.given.contains(n) && wanted(n)) node(n, id);
      ++id;
    });
    json_.endArray();
    json_.endObject();
    json_.finish();
  }

  void segment(const Segment& s) {
    json_.newLine();
    json_.beginObject();
    json_.field("id", s.id);
    json_.field("target", targetName(s.target));
    json_.field("nodes", s.nodes.size());
    json_.field("depth", s.block->depth());
    if (s.target == Target::Accelerated) json_.field("hash", contentHash(*segmentGraph(s, partition_)));
    for (auto [name, values] : {std::pair{"inputs", &s.inputs}, std::pair{"outputs", &s.outputs}}) {
      json_.key(name);
      json_.beginArray();
      for (const Value* v : *values) {
        json_.beginObject();
        json_.field("name", v->name());
        json_.field("type", typeText(v->type()));
        json_.endObject();
      }
      json_.endArray();
    }
    json_.key("recomputed");
    json_.beginArray();
    for (const Node* n : s.recomputed) json_.value(n->output()->name());
    json_.endArray();
    json_.field("do_not_merge", s.doNotMerge);
    json_.field("seconds", s.seconds);
    json_.field("gain_seconds", s.gainSeconds);
    json_.field("border_seconds", s.borderSeconds);
    json_.endObject();
  }

  void node(const Node* n, size_t id) {
    const Decision& d = partition_.decisions[n];
    json_.newLine();
    json_.beginObject();
    json_.field("id", id);
    json_.field("line", lineOf(n));
    json_.field("op", n->kind().text());
    json_.key("schema");
    const Operator* op = n->hasBlocks() || n->python || n->subgraph() ? nullptr : overloads_.resolve(*n);
    op ? json_.value(op->schemaSource()) : json_.null();
    json_.key("outputs");
    json_.beginArray();
    for (const Value* v : n->outputs()) json_.value(v->name());
    json_.endArray();
    json_.field("segment", d.segment);
    json_.field("reason", reasonCode(d.reason));
    if (!d.accelerated()) {
      json_.field("detail", d.detail);
      json_.field("remedy", d.remedy);
      cause(n);
    }
    json_.field("flops", partition_.work[n].flops);
    json_.field("bytes", partition_.work[n].bytes);
    json_.endObject();
  }

  // The first cause; the way to it are the causes of the nodes between, the nearest of them.
  void cause(const Node* n) {
    constexpr size_t kMost = 32;
    const std::vector<const Node*> causes = partition_.causes(n, kMost);
    const Node* root = roots_.of(n);
    json_.key("cause");
    json_.beginObject();
    json_.key("value");
    root->outputCount() ? json_.value(root->output()->name()) : json_.null();
    json_.field("op", root->kind().text());
    json_.field("line", lineOf(root));
    json_.field("reason", reasonCode(partition_.decisions[root].reason));
    json_.key("chain");
    json_.beginArray();
    for (const Node* c : causes) c->outputCount() ? json_.value(c->output()->name()) : json_.value(c->kind().text());
    json_.endArray();
    if (causes.size() == kMost && causes.back() != root) json_.field("chain_complete", false);
    json_.endObject();
  }

  const Graph& graph_;
  const Partition& partition_;
  RootCauses roots_;
  OverloadCache overloads_;
  JsonWriter json_;
};

}  // namespace

void writePartitionJson(const Graph& graph, const OpRegistry& registry, const Partition& partition, std::ostream& out) {
  JsonReport(graph, registry, partition, out).write();
}

void writeNodesJson(const Graph& graph, const OpRegistry& registry, const Partition& partition,
                    const std::unordered_set<const Node*>& nodes, const std::vector<std::string>& inputs,
                    std::ostream& out) {
  JsonReport(graph, registry, partition, out).write(nodes, inputs);
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
