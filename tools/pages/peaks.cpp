#include "tools/pages/peaks.h"

#include "api/compile.h"
#include "api/module.h"

#include <fmt/core.h>

#include <algorithm>
#include <chrono>

namespace tscompile {
namespace {

using Clock = std::chrono::steady_clock;

// Seconds of the fastest of some runs of a graph of two inputs of `count` f32 each, in an engine.
double fastest(const std::string& call, const Dims& sizes, int threads) {
  constexpr int kLeast = 10, kMost = 100;
  constexpr double kLongest = 0.4;  // seconds of all of them
  Diagnostics unheard;
  const std::string text = fmt::format(
      "graph(%a : Tensor, %b : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
      "  %y : Tensor = {}\n  return (%y)\n",
      call);
  Result<Module> module = Module::fromText(text, "peak", {}, unheard);
  if (!module) return 0;
  CompileSpec spec({CompileInput(sizes), CompileInput(sizes)});
  spec.minBlockSize = 1;
  Result<Module> compiled = module->compiled(spec, unheard);
  if (!compiled) return 0;
  Result<Method> method = compiled->prepare(unheard);
  if (!method) return 0;
  std::vector<IValue> inputs;
  for (int i = 0; i < 2; ++i) {
    Tensor t = Tensor::empty(DType::Float32, sizes);
    std::fill_n(reinterpret_cast<float*>(t.raw()), t.numel(), 0.5f);
    inputs.emplace_back(std::move(t));
  }
  RunOptions options;
  options.threads = threads;
  double best = 0;
  const Clock::time_point start = Clock::now();
  auto isOver = [&] { return std::chrono::duration<double>(Clock::now() - start).count() >= kLongest; };
  for (int i = 0; i < kMost && (i < kLeast || !isOver()); ++i) {
    const Clock::time_point begin = Clock::now();
    if (!method->run(inputs, unheard, options)) return 0;
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    if (best == 0 || seconds < best) best = seconds;
  }
  return best;
}

}  // namespace

ReportPeaks measurePeaks(int threads) {
  constexpr int64_t kSide = 512, kElements = int64_t{8} << 20;
  ReportPeaks out;
  if (const double s = fastest("aten::mm(%a, %b)", {kSide, kSide}, threads); s > 0)
    out.gflops = 2.0 * kSide * kSide * kSide / s / 1e9;
  if (const double s = fastest("aten::add(%a, %b, %one)", {kElements}, threads); s > 0)
    out.gbytes = 3.0 * kElements * sizeof(float) / s / 1e9;
  return out;
}

}  // namespace tscompile
