// Steps of a language model that was built: the prompt of one request, and one token for one or for many requests. The
// folder is named by TSCOMPILE_LANGUAGE_MODEL; without it there is nothing to measure. bench/language.py sets the
// figures beside ONNX Runtime's.
#include "api/language_model.h"
#include "ir/support/diagnostic_printer.h"

#include <benchmark/benchmark.h>

#include <cstdlib>

namespace tscompile {
namespace {

constexpr int64_t kPrompt = 128, kPast = 256;

LanguageModel* model(benchmark::State& state) {
  static std::unique_ptr<LanguageModel> loaded = [&]() -> std::unique_ptr<LanguageModel> {
    const char* folder = std::getenv("TSCOMPILE_LANGUAGE_MODEL");
    if (!folder) return nullptr;
    Diagnostics diagnostics;
    LanguageModel::Options options;
    options.threads = 2;
    auto made = LanguageModel::load(folder, options, diagnostics);
    if (!made) std::fputs(renderDiagnostics(diagnostics, "benchmark").c_str(), stderr);
    return made;
  }();
  if (!loaded) state.SkipWithError("TSCOMPILE_LANGUAGE_MODEL names no model");
  return loaded.get();
}

// `rows` requests with `past` tokens in the cache and `tokens` new ones each; every request has blocks of its own.
StepBatch batchOf(const LanguageModel& m, int64_t rows, int64_t past, int64_t tokens) {
  StepBatch b;
  const KvCacheConfig& c = m.cache();
  b.maxBlocks = c.blocksFor(past + tokens);
  for (int64_t r = 0; r < rows; ++r) {
    b.requestTypes.push_back(tokens > 1 ? 0 : 1);
    b.pastLengths.push_back(static_cast<int32_t>(past));
    b.contextLengths.push_back(static_cast<int32_t>(tokens > 1 ? tokens : past));
    b.sequenceLengths.push_back(static_cast<int32_t>(past + tokens));
    for (int64_t t = 0; t < tokens; ++t) {
      b.tokens.push_back((r * 131 + t * 37) % m.shape().vocabulary);
      b.positions.push_back(past + t);
    }
    b.lastTokenIds.push_back(static_cast<int32_t>(b.tokens.size()));
    for (int kind = 0; kind < 2; ++kind)
      for (int64_t i = 0; i < b.maxBlocks; ++i)
        b.blockTable.push_back(static_cast<int32_t>((r * b.maxBlocks + i) * 2 + kind));
  }
  return b;
}

void measure(benchmark::State& state, int64_t rows, int64_t past, int64_t tokens) {
  LanguageModel* m = model(state);
  if (!m) return;
  if (rows > m->config().maxBatchSize || rows * m->cache().blocksFor(past + tokens) > m->cache().blocks)
    return state.SkipWithError("the model was built for less");
  StepBatch batch = batchOf(*m, rows, past, tokens);
  Diagnostics diagnostics;
  double least = 1e9;
  for (auto _ : state) {
    auto begin = std::chrono::steady_clock::now();
    Result<Tensor> logits = m->step(batch, diagnostics);
    if (!logits) return state.SkipWithError(renderDiagnostics(diagnostics, "benchmark").c_str());
    least = std::min(least, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  state.counters["min_ms"] = least * 1e3;
  state.counters["tokens/s"] = static_cast<double>(rows * tokens) / least;
}

void languagePrefill128(benchmark::State& state) { measure(state, 1, 0, kPrompt); }
void languageDecode256(benchmark::State& state) { measure(state, 1, kPast, 1); }
void languageDecode256Rows8(benchmark::State& state) { measure(state, 8, kPast, 1); }
BENCHMARK(languagePrefill128)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(languageDecode256)->Unit(benchmark::kMillisecond)->UseRealTime();
BENCHMARK(languageDecode256Rows8)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace tscompile
