// Whole-graph passes, from 10^3 to 10^5 nodes.
#include "frontend/text/parse.h"
#include "ir/graph/clone.h"
#include "passes/catalog.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/pattern.h"
#include "runtime/registry.h"

#include <benchmark/benchmark.h>

namespace tscompile {
namespace {

// Of three additions two are equal, and of four nodes one is dead; every twelfth node stands in a branch.
std::string mixedText(int64_t nodes, const char* relu) {
  std::string text = "graph(%x : Tensor, %c : bool):\n", last = "x";
  for (int64_t i = 0; i < nodes; i += 12) {
    std::string n = std::to_string(i);
    auto line = [&](const std::string& out, const std::string& call) {
      text += "  %" + out + n + " : " + (out == "k" ? "int" : "Tensor") + " = " + call + "\n";
    };
    line("k", "prim::Constant[value=1]()");
    line("a", "aten::add(%" + last + ", %x, %k" + n + ")");
    line("b", "aten::add(%" + last + ", %x, %k" + n + ")");
    line("d", "aten::neg(%a" + n + ")");
    line("e", "aten::mul(%a" + n + ", %b" + n + ")");
    line("f", std::string(relu) + "(%e" + n + ")");
    line("g", "aten::mul(%f" + n + ", %x)");
    line("h", "aten::sigmoid(%g" + n + ")");
    line("i", "aten::tanh(%h" + n + ")");
    line("j", "aten::mul(%i" + n + ", %x)");
    text += "  %y" + n + " : Tensor = prim::If(%c)\n    block0():\n  ";
    line("m", "aten::mul(%i" + n + ", %x)");
    text += "      -> (%m" + n + ")\n    block1():\n      -> (%j" + n + ")\n";
    last = "y" + n;
  }
  return text + "  return (%" + last + ")\n";
}

// One tensor that is written all the way.
std::string chainText(int64_t nodes) {
  std::string text = "graph(%x : Tensor):\n  %r0 : Tensor = aten::relu(%x)\n";
  for (int64_t i = 1; i < nodes; ++i)
    text += "  %r" + std::to_string(i) + " : Tensor = aten::relu_(%r" + std::to_string(i - 1) + ")\n";
  return text + "  return (%r" + std::to_string(nodes - 1) + ")\n";
}

using Pass = bool (*)(Graph&, RewriteContext&);

void run(benchmark::State& state, Pass pass, const std::string& text) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  auto graph = parseGraph(SourceFile::make("bench", text), diagnostics, options);
  if (!graph) return state.SkipWithError("the text is not read");
  bool changed = false;
  for (auto _ : state) {
    state.PauseTiming();
    std::unique_ptr<Graph> copy = cloneGraph(**graph);
    RewriteContext context(*copy, allOps(), diagnostics);
    state.ResumeTiming();
    changed = pass(*copy, context);
    state.PauseTiming();
    copy.reset();
    state.ResumeTiming();
  }
  if (!changed) state.SkipWithError("nothing was done");
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void BM_RemoveDeadCode(benchmark::State& state) { run(state, removeDeadCode, mixedText(state.range(0), "aten::relu")); }
void BM_MergeCommonSubexpressions(benchmark::State& state) {
  run(state, mergeCommonSubexpressions, mixedText(state.range(0), "aten::relu"));
}
void BM_PoolConstants(benchmark::State& state) { run(state, poolConstants, mixedText(state.range(0), "aten::relu")); }
void BM_RemoveDeadCodeBesideWrites(benchmark::State& state) {
  run(state, removeDeadCode, mixedText(state.range(0), "aten::relu_"));
}
void BM_MergeBesideWrites(benchmark::State& state) {
  run(state, mergeCommonSubexpressions, mixedText(state.range(0), "aten::relu_"));
}
void BM_Functionalise(benchmark::State& state) { run(state, functionalise, mixedText(state.range(0), "aten::relu_")); }
void BM_FunctionaliseChain(benchmark::State& state) { run(state, functionalise, chainText(state.range(0))); }

// What `lower` does without options.
bool lowering(Graph&, RewriteContext& context) {
  return loweringDatabase().query(Query().including({"default"})).run(context).changed;
}
void BM_Lowering(benchmark::State& state) { run(state, lowering, mixedText(state.range(0), "aten::relu")); }

// A pattern of three nodes, of which the graph has all kinds but one, or all but never together.
void searchInVain(benchmark::State& state, const char* last) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  auto graph = parseGraph(SourceFile::make("bench", mixedText(state.range(0), "aten::relu")), diagnostics, options);
  Result<Pattern> pattern =
      Pattern::parse(std::string("graph(%x, %y):\n  %a = aten::tanh(%x)\n  %b = aten::mul(%a, %y)\n  %c = ") + last +
                         "(%b)\n  return (%c)\n",
                     diagnostics);
  if (!graph || !pattern) return state.SkipWithError("the text is not read");
  Plan plan = Plan::walk("search", {patternRewrite("search", *pattern, *pattern)});
  for (auto _ : state) {
    RewriteContext context(**graph, allOps(), diagnostics);
    if (plan.run(context).changed) return state.SkipWithError("something was found");
  }
  state.counters["ns_per_node"] =
      benchmark::Counter(static_cast<double>(state.range(0)) * 1e-9,
                         benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
void BM_PatternWithoutItsKinds(benchmark::State& state) { searchInVain(state, "aten::erf"); }
void BM_PatternThatDoesNotOccur(benchmark::State& state) { searchInVain(state, "aten::sigmoid"); }

#define TS_SIZES RangeMultiplier(10)->Range(1000, 100'000)->Unit(benchmark::kMillisecond)
BENCHMARK(BM_RemoveDeadCode)->TS_SIZES;
BENCHMARK(BM_MergeCommonSubexpressions)->TS_SIZES;
BENCHMARK(BM_PoolConstants)->TS_SIZES;
BENCHMARK(BM_RemoveDeadCodeBesideWrites)->TS_SIZES;
BENCHMARK(BM_MergeBesideWrites)->TS_SIZES;
BENCHMARK(BM_Functionalise)->TS_SIZES;
BENCHMARK(BM_FunctionaliseChain)->TS_SIZES;
BENCHMARK(BM_Lowering)->TS_SIZES;
BENCHMARK(BM_PatternWithoutItsKinds)->TS_SIZES;
BENCHMARK(BM_PatternThatDoesNotOccur)->TS_SIZES;
#undef TS_SIZES

}  // namespace
}  // namespace tscompile
