// Reading and printing graph text, from 10^3 to 10^6 nodes.
#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/printer.h"
#include "runtime/registry.h"

#include <benchmark/benchmark.h>

namespace tscompile {
namespace {

// Nodes as PyTorch prints them: the mix of a residual network, with types, scopes and source locations of a trace.
std::string locatedText(int64_t nodes) {
  const std::string type = "Float(1, 64, 56, 56, strides=[200704, 3136, 56, 1], requires_grad=0, device=cpu)";
  std::string text = "graph(%x : " + type + "):\n  %one : int = prim::Constant[value=1]()\n";
  std::string last = "x";
  for (int64_t i = 2; i < nodes; i += 2) {
    std::string a = std::to_string(1000 + i), b = "input." + std::to_string(i);
    text += "  %" + a + " : " + type + " = aten::add(%" + last +
            ", %x, %one), scope: __module.layer1/__module.layer1.0 # " + "torchvision/models/resnet.py:102:0\n";
    text += "  %" + b + " : " + type + " = aten::relu(%" + a +
            "), scope: __module.layer1/__module.layer1.0/__module.layer1.0.relu # " + "torch/nn/functional.py:1455:0\n";
    last = b;
  }
  return text + "  return (%" + last + ")\n";
}

std::string bareText(int64_t nodes) {
  std::string text = "graph(%x : Tensor):\n  %one : int = prim::Constant[value=1]()\n";
  std::string last = "x";
  for (int64_t i = 2; i < nodes; i += 2) {
    std::string a = std::to_string(1000 + i), b = std::to_string(1001 + i);
    text +=
        "  %" + a + " : Tensor = aten::add(%" + last + ", %x, %one)\n  %" + b + " : Tensor = aten::relu(%" + a + ")\n";
    last = b;
  }
  return text + "  return (%" + last + ")\n";
}

void read(benchmark::State& state, const std::string& text) {
  ParseOptions options;
  options.registry = &allOps();
  for (auto _ : state) {
    Diagnostics diagnostics;
    auto graph = parseGraph(SourceFile::make("bench", text), diagnostics, options);
    if (!graph) state.SkipWithError("the text is not read");
    benchmark::DoNotOptimize(graph);
    // Taking the graph apart is not reading.
    state.PauseTiming();
    graph = Failed{};
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(text.size()));
}

void BM_ReadLocated(benchmark::State& state) { read(state, locatedText(state.range(0))); }
void BM_ReadBare(benchmark::State& state) { read(state, bareText(state.range(0))); }
BENCHMARK(BM_ReadLocated)->RangeMultiplier(10)->Range(1000, 1'000'000)->Unit(benchmark::kMillisecond);
BENCHMARK(BM_ReadBare)->RangeMultiplier(10)->Range(1000, 1'000'000)->Unit(benchmark::kMillisecond);

void BM_Print(benchmark::State& state) {
  Diagnostics diagnostics;
  auto graph = parseGraph(locatedText(state.range(0)), diagnostics);
  size_t bytes = 0;
  for (auto _ : state) {
    bytes = 0;
    printGraph(**graph, [&](std::string_view piece) { bytes += piece.size(); });
  }
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
}
BENCHMARK(BM_Print)->Arg(100'000)->Unit(benchmark::kMillisecond);

void BM_Verify(benchmark::State& state) {
  Diagnostics diagnostics;
  auto graph = parseGraph(locatedText(state.range(0)), diagnostics);
  for (auto _ : state) benchmark::DoNotOptimize(verify(**graph, allOps(), diagnostics));
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_Verify)->Arg(100'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tscompile
