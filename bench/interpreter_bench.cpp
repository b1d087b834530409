// What the interpreter adds to the operators: loop iterations, operators on one element, calls.
#include "api/compiler.h"

#include <benchmark/benchmark.h>

namespace tscompile {
namespace {

Method prepare(const std::string& text) {
  Diagnostics diagnostics;
  auto module = Module::fromText(text, "bench", {}, diagnostics);
  auto method = module ? module->prepare(diagnostics) : Result<Method>(Failed{});
  if (!method) std::fputs(renderDiagnostics(diagnostics, "bench").c_str(), stderr);
  return *method;
}

void run(benchmark::State& state, const std::string& text, std::vector<IValue> inputs, int64_t items) {
  Method method = prepare(text);
  Diagnostics diagnostics;
  for (auto _ : state) {
    auto outputs = method.run(inputs, diagnostics);
    if (!outputs) state.SkipWithError("the run failed");
  }
  // Reported as time for each item.
  state.counters["each"] = benchmark::Counter(
      static_cast<double>(items), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

void BM_ScalarLoop(benchmark::State& state) {
  constexpr int64_t kTrips = 1'000'000;
  run(state, R"(graph(%n : int):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %r : int = prim::Loop(%n, %true, %zero)
    block0(%i : int, %a : int):
      %b : int = aten::add(%a, %i)
      %c : int = aten::mul(%b, %one)
      %d : int = aten::sub(%c, %one)
      -> (%true, %d)
  return (%r)
)",
      {IValue(kTrips)}, kTrips);
}
BENCHMARK(BM_ScalarLoop)->Unit(benchmark::kMillisecond);

void BM_OneElementAdd(benchmark::State& state) {
  constexpr int64_t kTrips = 100'000;
  run(state, R"(graph(%x : Tensor, %n : int):
  %one : int = prim::Constant[value=1]()
  %true : bool = prim::Constant[value=1]()
  %r : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %a : Tensor):
      %b : Tensor = aten::add(%a, %x, %one)
      -> (%true, %b)
  return (%r)
)",
      {Tensor::zeros(DType::Float32, Dims{1}), IValue(kTrips)}, kTrips);
}
BENCHMARK(BM_OneElementAdd)->Unit(benchmark::kMillisecond);

void BM_OneElementRelu(benchmark::State& state) {
  constexpr int64_t kTrips = 100'000;
  run(state, R"(graph(%x : Tensor, %n : int):
  %true : bool = prim::Constant[value=1]()
  %r : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %a : Tensor):
      %b : Tensor = aten::relu(%a)
      -> (%true, %b)
  return (%r)
)",
      {Tensor::zeros(DType::Float32, Dims{1}), IValue(kTrips)}, kTrips);
}
BENCHMARK(BM_OneElementRelu)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace tscompile
