// Random programs, random forces, every strategy: the segments keep the order, and run as the whole does.
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "partition/stitch.h"
#include "tests/support/memory_program.h"
#include "tests/support/partitioning.h"
#include "tests/support/pass_checks.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

namespace tscompile::test {
namespace {

constexpr Strategy kStrategies[] = {Strategy::Dependency, Strategy::Greedy, Strategy::Minimal, Strategy::Cost};

// Kinds that occur, each with one chance in `oneIn`.
std::vector<std::string> someKinds(Choices& c, const Graph& graph, uint64_t oneIn) {
  std::set<std::string> kinds, chosen;
  forEachNode(graph, [&](const Node* n) { kinds.emplace(n->kind().text()); });
  for (const std::string& k : kinds)
    if (c.oneIn(oneIn)) chosen.insert(k);
  return {chosen.begin(), chosen.end()};
}

size_t accelerated = 0, all = 0;  // nodes, to see that there is something to compare

void check(Choices& c, const Graph& graph, uint64_t seed, MakeInputs inputs) {
  PartitionOptions options = optionsOf(1 + c.below(4));
  options.fallbackOperators = someKinds(c, graph, 1 + c.below(8));
  bool repeatable = isRepeatable(graph);
  double seconds[4];
  for (Strategy s : kStrategies) {
    options.strategy = s;
    Partition p = segment(graph, partitionOps(), TestSupport(), options);
    seconds[static_cast<size_t>(s)] = p.seconds;
    std::unique_ptr<Graph> stitched = checkPartition(graph, partitionOps(), p);
    // On engines; fused layers may round otherwise, but not what memory programs compute.
    if (repeatable) expectSameRuns(graph, *stitched, 1, seed, inputs, {.optimize = inputs == memoryProgramInputs});
    inlineEngines(*stitched);
    if (repeatable) expectSameRuns(graph, *stitched, 1, seed, inputs);
    accelerated += p.acceleratedCount();
    all += p.nodeCount();
    if (::testing::Test::HasFailure()) {
      ADD_FAILURE() << strategyName(s) << "\n" << graphText(graph) << segmentsText(p);
      return;
    }
  }
  for (double other : seconds) EXPECT_LE(seconds[static_cast<size_t>(Strategy::Cost)], other * (1 + 1e-9));
}

}  // namespace

TEST(PartitionProperty, MemoryPrograms) {
  accelerated = all = 0;
  forEachSeed(400, [](uint64_t seed) {
    Choices c(seed);
    std::unique_ptr<Graph> graph = memoryProgram(c, 5 + c.below(30));
    check(c, *graph, seed, memoryProgramInputs);
  });
  EXPECT_GT(accelerated * 50, all) << accelerated << " of " << all;
}

TEST(PartitionProperty, RandomGraphs) {
  forEachSeed(250, [](uint64_t seed) {
    Choices c(seed);
    std::unique_ptr<Graph> graph = randomGraph(c, partitionOps());
    check(c, *graph, seed, randomInputs);
  });
}

// What gives back its argument where there is nothing to do gives the same tensor from an engine.
TEST(PartitionProperty, ResultsThatAreArgumentsStayThem) {
  for (const char* call :
       {"aten::conj_physical(%x)", "aten::dropout(%x, %p, %off)", "aten::feature_dropout(%x, %p, %off)",
        "aten::alpha_dropout(%x, %p, %off)", "aten::type_as(%x, %x)"}) {
    std::unique_ptr<Graph> graph = readGraph(
        "graph(%x : Tensor):\n  %off : bool = prim::Constant[value=0]()\n"
        "  %p : float = prim::Constant[value=0.5]()\n  %y : Tensor = " +
        std::string(call) + "\n  return (%y, %x)\n");
    SCOPED_TRACE(call);
    forEachSeed(20, [&](uint64_t seed) {
      Partition p = segment(*graph, partitionOps(), TestSupport(), optionsOf(1));
      EXPECT_EQ(p.acceleratedCount(), 1u);
      expectSameRuns(*graph, *stitch(*graph, p), 1, seed, randomInputs);
    });
  }
}

TEST(PartitionProperty, SameTextSamePartition) {
  forEachSeed(50, [](uint64_t seed) {
    Choices c(seed);
    std::unique_ptr<Graph> graph = memoryProgram(c, 30), copy = cloneGraph(*graph);
    Partition a = segment(*graph, partitionOps(), TestSupport(), optionsOf());
    Partition b = segment(*copy, partitionOps(), TestSupport(), optionsOf());
    EXPECT_EQ(segmentsText(a), segmentsText(b));
    EXPECT_EQ(graphText(*stitch(*graph, a)), graphText(*stitch(*copy, b)));
  });
}

}  // namespace tscompile::test
