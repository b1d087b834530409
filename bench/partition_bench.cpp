// Partitioning of large graphs: the time should grow with the number of nodes.
#include "api/partition.h"
#include "frontend/text/parse.h"
#include "partition/stitch.h"
#include "runtime/engine/support.h"
#include "runtime/registry.h"

#include <benchmark/benchmark.h>

namespace tscompile {
namespace {

// Element-wise nodes over a few running values; every seventh stays out of engines, and every `writes`-th writes.
std::unique_ptr<Graph> chain(int64_t nodes, int64_t writes) {
  std::string text = "graph(%x : Tensor, %y : Tensor):\n  %one : int = prim::Constant[value=1]()\n";
  std::string last[4] = {"%x", "%y", "%x", "%y"};
  for (int64_t i = 0; i < nodes; ++i) {
    std::string name = "%v" + std::to_string(i), &a = last[i % 4], &b = last[(i * 7 + 3) % 4];
    if (writes && i % writes == writes - 1)
      text += "  " + name + " : Tensor = aten::add_(" + a + ", " + b + ", %one)\n";
    else
      text += "  " + name + " : Tensor = " + (i % 7 == 6 ? "aten::lgamma(" + a : "aten::mul(" + a + ", " + b) + ")\n";
    a = name;
  }
  text += "  return (" + last[0] + ", " + last[1] + ", " + last[2] + ", " + last[3] + ")\n";
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  options.limits.nodes = 1 << 24;
  return std::move(*parseGraph(SourceFile::make("chain", std::move(text)), diagnostics, options));
}

void partitionChain(benchmark::State& state) {
  std::unique_ptr<Graph> graph = chain(state.range(0), state.range(2));
  std::unique_ptr<EngineSupport> support = engineSupport(allOps());
  PartitionOptions options;
  options.strategy = static_cast<Strategy>(state.range(1));
  options.fallbackOperators = {"aten::lgamma"};
  size_t segments = 0;
  for (auto _ : state) segments = segment(*graph, allOps(), *support, options).segments.size();
  state.SetLabel(std::string(strategyName(options.strategy)) + (state.range(2) ? ", writes, " : ", ") +
                 std::to_string(segments) + " segments");
}
BENCHMARK(partitionChain)
    ->ArgsProduct({{1'000, 10'000, 100'000}, {0, 1, 2, 3}, {0, 50}})
    ->Unit(benchmark::kMillisecond);

void stitchChain(benchmark::State& state) {
  std::unique_ptr<Graph> graph = chain(state.range(0), 0);
  PartitionOptions options;
  options.fallbackOperators = {"aten::lgamma"};
  Partition p = segment(*graph, allOps(), *engineSupport(allOps()), options);
  for (auto _ : state) benchmark::DoNotOptimize(stitch(*graph, p));
}
BENCHMARK(stitchChain)->Arg(1'000)->Arg(10'000)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tscompile
