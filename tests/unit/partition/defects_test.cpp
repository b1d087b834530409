// Graphs that partitioners are known to get wrong: each with what must hold.
#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "partition/order_check.h"
#include "partition/report.h"
#include "partition/root_causes.h"
#include "partition/segment_graph.h"
#include "partition/stitch.h"
#include "tests/support/partitioning.h"
#include "tests/support/pass_checks.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <sstream>

namespace tscompile::test {
namespace {

struct Cut {
  std::unique_ptr<Graph> graph, stitched;
  Partition partition;
  std::string segments;
};

// Cuts it, checks it, and compares runs where no test:: operator is in the way.
Cut cut(const std::string& text, std::vector<std::string> forced = {}, size_t minBlockSize = 1,
        Strategy strategy = Strategy::Dependency) {
  std::unique_ptr<Graph> graph = readGraph(text);
  PartitionOptions options = optionsOf(minBlockSize, strategy);
  options.fallbackOperators = std::move(forced);
  Partition p = segment(*graph, partitionOps(), TestSupport(), options);
  std::unique_ptr<Graph> stitched = checkPartition(*graph, partitionOps(), p);
  std::string segments = segmentsText(p);
  std::unique_ptr<Graph> whole = stitch(*graph, p);
  inlineEngines(*whole);
  if (text.find("test::") == std::string::npos) {
    EXPECT_GT(expectSameRuns(*graph, *whole), 0);
  }
  return {std::move(graph), std::move(stitched), std::move(p), std::move(segments)};
}

size_t engines(const Graph& graph) {
  size_t count = 0;
  forEachNode(graph, [&](const Node* n) { count += n->kind() == sym::Engine; });
  return count;
}

}  // namespace

TEST(PartitionDefects, ValuesUsedOnlyInsideABlockAreMadeBefore) {
  Cut c = cut(R"(
graph(%x : Tensor, %c : float):
  %b : bool = aten::Bool(%c)
  %a : Tensor = aten::relu(%x)
  %u : Tensor = test::one(%x)
  %r : Tensor = prim::If(%b)
    block0():
      %d : Tensor = aten::neg(%a)
      -> (%d)
    block1():
      -> (%u)
  return (%r)
)");
  EXPECT_EQ(c.segments, "E{%a} T{%b %u} T{%r}\nE{%d}\n\n");
}

TEST(PartitionDefects, WritesComeBehindEarlierReads) {
  Cut c = cut(R"(
graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %w : Tensor = aten::clamp_(%x, %zero, %one)
  %z : Tensor = aten::relu(%x)
  %s : Tensor = aten::add(%y, %z, %one)
  return (%s)
)");
  EXPECT_EQ(c.segments, "E{%y} T{%w} E{%z %s}\n");
  EXPECT_EQ(c.partition.decisions[c.graph->find("w")->node()].reason, Reason::Aliasing);
}

TEST(PartitionDefects, WritesThroughViewsOrderReadsOfTheBase) {
  Cut c = cut(R"(
graph(%a : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %x : Tensor = aten::exp(%a)
  %y : Tensor = aten::relu(%x)
  %v : Tensor = aten::t(%x)
  %w : Tensor = aten::add_(%v, %one, %one)
  %z : Tensor = aten::neg(%x)
  return (%y, %z)
)");
  EXPECT_EQ(c.segments, "E{%x %y} T{%v %w} E{%z}\n");
  const Decision& view = c.partition.decisions[c.graph->find("v")->node()];
  EXPECT_EQ(view.reason, Reason::Aliasing);
  EXPECT_EQ(view.cause, c.graph->find("w")->node());
}

TEST(PartitionDefects, IfWithAnyNumberOfOutputs) {
  for (int outputs : {0, 1, 3}) {
    std::string left = "      %l1 : Tensor = aten::relu(%a)\n      %l2 : Tensor = aten::neg(%l1)\n";
    std::string results[] = {"-> ()", "-> (%l1)", "", "-> (%l1, %l2, %a)"};
    std::string made[] = {"", "%r1 : Tensor", "", "%r1 : Tensor, %r2 : Tensor, %r3 : Tensor"};
    std::string others[] = {"-> ()", "-> (%a)", "", "-> (%a, %a, %x)"};
    std::string returned[] = {"%a", "%r1", "", "%r1, %r2, %r3"};
    Cut c = cut("graph(%x : Tensor, %f : float):\n  %c : bool = aten::Bool(%f)\n  %a : Tensor = aten::exp(%x)\n  " +
                made[outputs] + " = prim::If(%c)\n    block0():\n" + left + "      " + results[outputs] +
                "\n    block1():\n      " + others[outputs] + "\n  return (" + returned[outputs] + ")\n");
    EXPECT_EQ(engines(*c.stitched), 2u) << outputs;
  }
}

TEST(PartitionDefects, EnginesInsideLoops) {
  Cut c = cut(R"(
graph(%x : Tensor, %n : int):
  %yes : bool = prim::Constant[value=1]()
  %three : int = prim::Constant[value=3]()
  %one : int = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %size : int = aten::dim(%x)
  %r : Tensor, %k : int = prim::Loop(%three, %yes, %x, %zero)
    block0(%i : int, %h : Tensor, %m : int):
      %a : Tensor = aten::relu(%h)
      %b : Tensor = aten::add(%a, %size, %one)
      %d : Tensor = aten::add(%b, %i, %one)
      %next : int = aten::add(%m, %one)
      -> (%yes, %d, %next)
  return (%r, %k)
)");
  EXPECT_EQ(c.segments, "T{%size} T{%r}\nE{+%size %a %b %d} T{%next}\n");
}

TEST(PartitionDefects, ConstantsAreOutputs) {
  Cut c = cut(R"(
graph(%x : Tensor):
  %k : int = prim::Constant[value=7]()
  %y : Tensor = aten::relu(%x)
  return (%k, %y, %x)
)");
  EXPECT_EQ(c.segments, "E{%y}\n");
}

TEST(PartitionDefects, SegmentsWithoutInputsAndOutputs) {
  Cut c = cut(R"(
graph():
  %s : str = prim::Constant[value="s"]()
  %sizes : int[] = prim::Constant[value=[2, 2]]()
  %none : NoneType = prim::Constant()
   = prim::Print(%s)
  %z : Tensor = aten::zeros(%sizes, %none, %none, %none, %none)
  %y : Tensor = aten::relu(%z)
  return (%y)
)",
              {"aten::zeros"});
  EXPECT_EQ(c.segments, "T{Print %z} E{%y}\n");
  EXPECT_TRUE(c.partition.segments[0].inputs.empty());
}

TEST(PartitionDefects, MarksReachNodesInsideBlocks) {
  std::unique_ptr<Graph> graph = readGraph(R"(
graph(%x : Tensor, %c : bool):
  %r : Tensor = prim::If[to_compile=0](%c)
    block0():
      %a : Tensor = aten::relu[to_compile=0](%x)
      -> (%a)
    block1():
      -> (%x)
  return (%r)
)");
  Partition p = segment(*graph, partitionOps(), TestSupport(), optionsOf());
  EXPECT_EQ(p.count(Target::Accelerated), 0u);
  EXPECT_EQ(p.decisions[graph->find("a")->node()].reason, Reason::UserExcluded);
}

TEST(PartitionDefects, MutatedListsAreNotCopied) {
  Cut c = cut(R"(
graph(%x : Tensor, %y : Tensor):
  %zero : int = prim::Constant[value=0]()
  %l : Tensor[] = prim::ListConstruct(%x)
  %a : Tensor = aten::cat(%l, %zero)
  %g : Tensor[] = aten::append(%l, %y)
  %b : Tensor = aten::cat(%l, %zero)
  %n : int = aten::len(%l)
  %d : Tensor = aten::add(%a, %n, %n)
  return (%b, %d)
)");
  for (const Segment& s : c.partition.segments) EXPECT_TRUE(s.recomputed.empty());
  EXPECT_EQ(c.partition.decisions[c.graph->find("n")->node()].accelerated(), false);
  EXPECT_EQ(c.partition.decisions[c.graph->find("d")->node()].reason, Reason::NonTensor);
}

TEST(PartitionDefects, NumbersNeededOnBothSidesAreComputedTwice) {
  Cut c = cut(R"(
graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %n : int = aten::dim(%x)
  %m : int = aten::mul(%n, %n)
  %a : Tensor = aten::add(%x, %m, %one)
  %b : Tensor = aten::sub(%x, %m, %one)
  %c : Tensor = aten::mul(%a, %b)
  return (%c)
)",
              {"aten::sub"});
  EXPECT_EQ(c.segments, "T{%n %m %b} E{+%n +%m %a %c}\n");
}

TEST(PartitionDefects, FirstCauseIsKept) {
  Cut c = cut(R"(
graph(%x : Tensor):
  %one : int = prim::Constant[value=1]()
  %n : int = test::number(%x)
  %m : int = aten::mul(%n, %n)
  %a : Tensor = aten::unsqueeze(%x, %m)
  return (%a, %m)
)");
  auto decision = [&](const char* name) -> const Decision& {
    return c.partition.decisions[c.graph->find(name)->node()];
  };
  EXPECT_EQ(decision("n").reason, Reason::NoOp);
  EXPECT_EQ(decision("m").reason, Reason::NonTensor);
  std::vector<const Node*> causes = c.partition.causes(c.graph->find("a")->node());
  ASSERT_EQ(causes.size(), 2u);
  EXPECT_EQ(causes.back(), c.graph->find("n")->node());
}

// Each node of a long chain tells its first cause and the nearest ones between, not all of the chain.
TEST(PartitionDefects, LongChainsOfCausesAreCutShort) {
  std::string text = "graph(%x : Tensor):\n  %n0 : int = test::number(%x)\n";
  for (int i = 1; i <= 100; ++i) text += fmt::format("  %n{} : int = aten::mul(%n{}, %n0)\n", i, i - 1);
  Cut c = cut(text + "  %a : Tensor = aten::mul(%x, %n100)\n  return (%a, %n100)\n");
  std::ostringstream out;
  writePartitionJson(*c.graph, partitionOps(), c.partition, out);
  const nlohmann::json report = nlohmann::json::parse(out.str());
  size_t cut = 0, most = 0;
  for (const auto& n : report["nodes"]) {
    if (n["reason"] == "OK" || n["outputs"][0] == "n0") continue;
    EXPECT_EQ(n["cause"]["value"], "n0");
    most = std::max(most, n["cause"]["chain"].size());
    cut += n["cause"].contains("chain_complete") ? 1 : 0;
  }
  EXPECT_EQ(report["nodes"].size(), 102u);
  EXPECT_LE(most, 32u);
  EXPECT_GT(cut, 0u);
}

// Two nodes that are each other's cause have one first cause, so that one of them is told about.
TEST(PartitionDefects, CirclesOfCausesHaveOneFirst) {
  Cut c = cut("graph(%x : Tensor):\n  %a : Tensor = aten::relu(%x)\n  %b : Tensor = aten::relu(%a)\n  return (%b)\n");
  const Node *a = c.graph->find("a")->node(), *b = c.graph->find("b")->node();
  c.partition.decisions[a].cause = b;
  c.partition.decisions[b].cause = a;
  const RootCauses roots(*c.graph, c.partition);
  EXPECT_EQ(roots.of(a), roots.of(b));
}

TEST(PartitionDefects, EqualSegmentsHaveEqualIdentity) {
  Cut c = cut(R"(
graph(%x : Tensor):
  %a : Tensor = aten::relu(%x)
  %b : Tensor = aten::neg(%a)
  %u : Tensor = test::one(%b)
  %d : Tensor = aten::relu(%u)
  %e : Tensor = aten::neg(%d)
  %v : Tensor = test::one(%e)
  %f : Tensor = aten::neg(%v)
  %g : Tensor = aten::relu(%f)
  return (%g)
)");
  std::vector<std::string> ids;
  for (const Segment& s : c.partition.segments)
    if (s.target == Target::Accelerated) ids.push_back(contentHash(*segmentGraph(s, c.partition)));
  ASSERT_EQ(ids.size(), 3u);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_NE(ids[0], ids[2]);
}

TEST(PartitionDefects, AttributesGoWhereTheyAreUsed) {
  const char* text = R"(
graph(%self : __torch__.Net, %x : Tensor):
  %layer : __torch__.Layer = prim::GetAttr[name="layer"](%self)
  %w : Tensor = prim::GetAttr[name="weight"](%layer)
  %a : Tensor = aten::mul(%x, %w)
  %b : Tensor = test::one(%a)
  %c : Tensor = aten::mul(%b, %w)
  return (%c)
)";
  std::unique_ptr<Graph> graph = readGraph(text);
  Partition p = segment(*graph, partitionOps(), TestSupport(), optionsOf());
  EXPECT_EQ(segmentsText(p), "E{%a} T{%b} E{%c}\n");
  checkPartition(*graph, partitionOps(), p);
  std::string stitched = graphText(*stitch(*graph, p));
  EXPECT_EQ(stitched.find("GetAttr", stitched.find("GetAttr") + 1) != std::string::npos, true);
  EXPECT_GT(stitched.find("GetAttr"), stitched.find("with tscompile::Engine_0"));
}

// A branch whose only named values are inside a loop inside an engine is found again.
TEST(OrderCheck, FindsBranchesByWhatEnginesHold) {
  std::unique_ptr<Graph> graph = readGraph(R"(
graph(%x : Tensor, %c : bool):
  %y : Tensor = aten::neg(%x)
   = prim::Print(%y)
   = prim::If(%c)
    block0():
      %two : int = prim::Constant[value=2]()
      %true : bool = prim::Constant[value=1]()
       = prim::Loop(%two, %true)
        block0(%i : int):
          %z : Tensor = aten::mul(%x, %two)
          -> (%true)
      -> ()
    block1():
      -> ()
  return (%y)
)");
  PartitionOptions options = optionsOf();
  options.fallbackOperators = {"prim::If"};
  const Partition p = segment(*graph, partitionOps(), TestSupport(), options);
  EXPECT_EQ(segmentsText(p), "E{%y} T{Print} T{If}\nE{Loop}\n\n");
  checkPartition(*graph, partitionOps(), p);
}

// The checker itself: orders that are wrong are seen.
TEST(OrderCheck, SeesWhatIsWrong) {
  std::unique_ptr<Graph> graph = readGraph(R"(
graph(%x : Tensor):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %y : Tensor = aten::relu(%x)
  %w : Tensor = aten::clamp_(%x, %zero, %one)
  %z : Tensor = aten::relu(%x)
   = prim::Print(%y)
   = prim::Print(%z)
  return (%y, %z)
)");
  const Partition good = segment(*graph, partitionOps(), TestSupport(), optionsOf());
  std::string why;
  EXPECT_TRUE(keepsOrder(*graph, partitionOps(), good, why)) << why;
  std::vector<const Node*> order;
  for (const Segment& s : good.segments) order.insert(order.end(), s.nodes.begin(), s.nodes.end());
  auto violation = [&](std::vector<const Node*> nodes) {
    Partition p = good;
    p.segments.resize(1);
    p.segments[0].recomputed.clear();
    p.segments[0].nodes = std::move(nodes);
    p.blocks = {{graph->block(), 0, 1}};
    why.clear();
    EXPECT_FALSE(keepsOrder(*graph, partitionOps(), p, why));
    return why;
  };
  std::sort(order.begin(), order.end(), [](const Node* a, const Node* b) { return a->isBefore(b); });
  auto swapped = [&](size_t a, size_t b) {
    std::vector<const Node*> nodes = order;
    std::swap(nodes[a], nodes[b]);
    return nodes;
  };
  EXPECT_EQ(violation(swapped(0, 1)), "aten::relu (%y) finds other memory than before");
  EXPECT_EQ(violation(swapped(1, 2)), "aten::relu (%z) finds other memory than before");
  EXPECT_EQ(violation(swapped(3, 4)), "prim::Print finds other memory than before");
  EXPECT_EQ(violation(swapped(2, 4)), "prim::Print runs before aten::relu (%z), which it needs");
  EXPECT_EQ(violation({order.begin(), order.end() - 1}), "prim::Print does not run");
  std::vector<const Node*> twice = order;
  twice.push_back(order[1]);
  EXPECT_EQ(violation(twice), "aten::clamp_ (%w) runs twice");
}

}  // namespace tscompile::test
