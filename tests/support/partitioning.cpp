#include "tests/support/partitioning.h"

#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "partition/order_check.h"
#include "partition/segment_graph.h"
#include "partition/stitch.h"
#include "runtime/engine/support.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {

const OpRegistry& partitionOps() {
  static const OpRegistry* const kOps = [] {
    auto* ops = new OpRegistry(&allOps());
    for (const char* schema :
         {"test::one(Tensor a) -> Tensor", "test::two(Tensor a, Tensor b) -> Tensor",
          "test::index_add(Tensor self, int dim, Tensor index, Tensor source, Scalar alpha) -> Tensor",
          "test::number(Tensor a) -> int"})
      ops->add({.schema = schema});
    return ops;
  }();
  return *kOps;
}

TestSupport::TestSupport(std::set<std::string> without)
    : without_(std::move(without)), base_(engineSupport(partitionOps())) {}

Verdict TestSupport::accepts(const Node& node) const {
  std::string kind(node.kind().text());
  if (node.kind().nameSpace() == "test" || without_.contains(kind))
    return {Reason::NoOp, kind + " has no converter", Remedy::Kind::ReadOfConverters};
  return base_->accepts(node);
}

PartitionOptions optionsOf(size_t minBlockSize, Strategy strategy) {
  PartitionOptions options;
  options.minBlockSize = minBlockSize;
  options.strategy = strategy;
  return options;
}

std::string nodeMap(const Graph& graph, const Partition& partition) {
  std::map<const Node*, size_t> number;
  for (const Node* n : graph.block()->nodes())
    if (n->kind() != sym::Constant) number.emplace(n, number.size());
  std::string out;
  for (const Segment& s : partition.segments) {
    if (s.block != graph.block()) continue;
    if (!out.empty()) out += ' ';
    out += s.target == Target::Accelerated ? "E{" : "T{";
    for (size_t i = 0; i < s.nodes.size(); ++i) out += (i ? " " : "") + std::to_string(number.at(s.nodes[i]));
    out += '}';
  }
  return out;
}

std::string segmentsText(const Partition& partition) {
  std::string out;
  for (const Partition::BlockSegments& b : partition.blocks) {
    for (uint32_t i = 0; i < b.count; ++i) {
      const Segment& s = partition.segments[b.first + i];
      out += i ? " " : "";
      out += s.target == Target::Accelerated ? "E{" : "T{";
      bool first = true;
      for (const auto* nodes : {&s.recomputed, &s.nodes})
        for (const Node* n : *nodes) {
          out += first ? "" : " ";
          first = false;
          if (nodes == &s.recomputed) out += '+';
          out += n->outputCount() ? "%" + n->output()->name() : std::string(n->kind().name());
        }
      out += '}';
    }
    out += '\n';
  }
  return out;
}

namespace {

void checkBorders(const Graph& graph, const Partition& partition) {
  std::map<const Node*, int> seen;
  for (const Segment& s : partition.segments) {
    for (const Node* n : s.nodes) {
      ++seen[n];
      EXPECT_EQ(partition.decisions[n].segment, s.id);
      EXPECT_EQ(partition.decisions[n].accelerated(), s.target == Target::Accelerated);
    }
    if (s.target != Target::Accelerated) continue;
    // With all that control flow holds.
    for (const Node* n : s.nodes)
      for (Block* b : n->blocks())
        forEachNode(b, [&](const Node* inner) {
          if (partition.given.contains(inner)) return;
          ++seen[inner];
          EXPECT_EQ(partition.decisions[inner].segment, s.id);
          EXPECT_TRUE(partition.decisions[inner].accelerated());
        });
    auto isPlannedFor = [&](const Value* v) {
      const TypePtr t = withoutOptional(v->type());
      return !v->node() && v->block() == graph.block() && (isNumber(t) || t->isListOf(TypeKind::Int));
    };
    for (const auto* values : {&s.inputs, &s.outputs})
      for (const Value* v : *values)
        EXPECT_TRUE(v->type()->isTensor() || v->type()->isListOf(TypeKind::Tensor) || v->type()->is(TypeKind::Class) ||
                    (values == &s.inputs && (isNumber(v->type()) || isPlannedFor(v))))
            << "%" << v->name() << " : " << typeText(v->type());
  }
  forEachNode(graph, [&](const Node* n) {
    EXPECT_EQ(seen[n], partition.given.contains(n) ? 0 : 1) << nodeText(*n);
    if (partition.given.contains(n)) return;
    const Decision& d = partition.decisions[n];
    EXPECT_EQ(d.detail.empty(), d.accelerated()) << nodeText(*n);
  });
}

// Segments as graphs of their own, read back from their text.
void checkSegmentGraphs(const OpRegistry& registry, const Partition& partition) {
  ParseOptions options;
  options.registry = &registry;
  for (const Segment& s : partition.segments) {
    std::string text = graphText(*segmentGraph(s, partition));
    Diagnostics diagnostics;
    Result<std::unique_ptr<Graph>> read = parseGraph(SourceFile::make("segment", text), diagnostics, options);
    EXPECT_TRUE(read.ok()) << renderDiagnostics(diagnostics, "test") << text;
    if (!read) continue;
    EXPECT_TRUE(verify(**read, registry, diagnostics)) << renderDiagnostics(diagnostics, "test") << text;
    EXPECT_EQ(graphText(**read), text);
  }
}

}  // namespace

std::unique_ptr<Graph> checkPartition(const Graph& graph, const OpRegistry& registry, const Partition& partition) {
  std::string source = graphText(graph), violation;
  checkBorders(graph, partition);
  checkSegmentGraphs(registry, partition);
  EXPECT_TRUE(keepsOrder(graph, registry, partition, violation)) << violation << "\n"
                                                                 << source << segmentsText(partition);
  std::unique_ptr<Graph> stitched = stitch(graph, partition);
  EXPECT_EQ(graphText(graph), source);
  Diagnostics diagnostics;
  std::string text = graphText(*stitched);
  EXPECT_TRUE(verify(*stitched, registry, diagnostics)) << renderDiagnostics(diagnostics, "test") << source << text;
  EXPECT_TRUE(keepsOrder(graph, registry, *stitched, violation)) << violation << "\n" << source << text;
  ParseOptions options;
  options.registry = &registry;
  Result<std::unique_ptr<Graph>> read = parseGraph(SourceFile::make("stitched", text), diagnostics, options);
  EXPECT_TRUE(read.ok()) << renderDiagnostics(diagnostics, "test") << text;
  if (read) {
    EXPECT_EQ(graphText(**read), text);
  }
  return stitched;
}

}  // namespace tscompile::test
