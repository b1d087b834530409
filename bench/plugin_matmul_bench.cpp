// Products with weights that plugins read where they lie: GPT-2's decoding and prompts, in bytes of weights a second.
#include "runtime/trtllm/matmul/matmul.h"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace tscompile {
namespace {

struct Shape {
  const char* name;
  int64_t m, n, k;
};
const Shape kShapes[] = {
    {"gpt2_out", 1, 768, 768},        {"gpt2_qkv", 1, 2304, 768},   {"gpt2_fc1", 1, 3072, 768},
    {"gpt2_fc2", 1, 768, 3072},       {"gpt2_head", 1, 50257, 768}, {"llama_fc", 1, 11008, 4096},
    {"gpt2_fc1_4", 4, 3072, 768},     {"gpt2_fc1_8", 8, 3072, 768}, {"gpt2_fc1_128", 128, 3072, 768},
    {"gpt2_fc2_128", 128, 768, 3072},
};

void weightRows(benchmark::State& state, const Shape& s, DType format, int64_t group, int threads) {
  WeightRows w{format, nullptr, s.k, s.n / 2 * 2};
  w.group = group;
  // Several copies, so that they are not in the nearest caches as those of other layers would not be.
  const int64_t bytes = s.k * w.rowBytes(), copies = std::max<int64_t>(1, (int64_t{64} << 20) / bytes);
  std::vector<std::byte> data(static_cast<size_t>(bytes * copies));
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i * 2654435761u >> 8);
  const int64_t groups = group ? (s.k + group - 1) / group : 1;
  std::vector<float> scales(static_cast<size_t>(groups * s.n), 0.01f), x(static_cast<size_t>(s.m * s.k), 1.0f),
      y(static_cast<size_t>(s.m * s.n));
  w.scales = scales.data();
  int64_t copy = 0;
  for (auto _ : state) {
    w.data = data.data() + bytes * (copy++ % copies);
    multiplyRows(w, s.m, x.data(), nullptr, y.data(), threads);
  }
  state.counters["B"] = benchmark::Counter(static_cast<double>(bytes), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["FLOP"] =
      benchmark::Counter(2.0 * static_cast<double>(s.m * s.n * s.k), benchmark::Counter::kIsIterationInvariantRate);
}

void int8Product(benchmark::State& state, const Shape& s, int threads) {
  std::vector<int8_t> a(static_cast<size_t>(s.m * s.k), 3), b(static_cast<size_t>(s.n * s.k), 5);
  std::vector<int32_t> c(static_cast<size_t>(s.m * s.n));
  for (auto _ : state) multiplyInt8(s.m, s.n, s.k, a.data(), b.data(), c.data(), threads);
  state.counters["B"] =
      benchmark::Counter(static_cast<double>(s.n * s.k), benchmark::Counter::kIsIterationInvariantRate);
  state.counters["FLOP"] =
      benchmark::Counter(2.0 * static_cast<double>(s.m * s.n * s.k), benchmark::Counter::kIsIterationInvariantRate);
}

const bool registered = [] {
  auto add = [](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond)->UseRealTime();
  };
  for (const Shape& s : kShapes)
    for (int threads : {1, 2}) {
      std::string name = std::string(s.name) + "/threads:" + std::to_string(threads);
      add("plugin_int8_weights/" + name,
          [=](benchmark::State& state) { weightRows(state, s, DType::Int8, 0, threads); });
      add("plugin_int4_weights/" + name,
          [=](benchmark::State& state) { weightRows(state, s, DType::Int4, 128, threads); });
      add("plugin_f16_weights/" + name,
          [=](benchmark::State& state) { weightRows(state, s, DType::Float16, 0, threads); });
      add("plugin_int8_int8/" + name, [=](benchmark::State& state) { int8Product(state, s, threads); });
    }
  return true;
}();

}  // namespace
}  // namespace tscompile
