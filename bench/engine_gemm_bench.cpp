// The engine's matrix products on the models' shapes, against OpenBLAS on one thread.
#include "runtime/kernels/gemm.h"
#include "runtime/kernels/openblas/blas.h"

#include <benchmark/benchmark.h>

#include <string>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

struct Shape {
  const char* name;
  int64_t m, n, k;
};
const Shape kShapes[] = {
    {"bert_qkv", 128, 2304, 768}, {"bert_out", 128, 768, 768},  {"bert_fc1", 128, 3072, 768},
    {"bert_fc2", 128, 768, 3072}, {"gpt2_qkv", 1, 2304, 768},   {"gpt2_out", 1, 768, 768},
    {"gpt2_fc1", 1, 3072, 768},   {"gpt2_fc2", 1, 768, 3072},   {"gpt2_head", 1, 50257, 768},
    {"vgg_fc1", 1, 4096, 25088},  {"resnet_fc", 1, 1000, 2048}, {"lenet_fc1", 1, 120, 576},
    {"lenet_b64", 64, 120, 576},  {"skinny_8", 8, 3072, 768},   {"square", 1024, 1024, 1024},
};

std::vector<float> values(int64_t count) {
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(i * 2654435761u % 1000) / 1000.0f - 0.5f;
  return v;
}

void rate(benchmark::State& state, const Shape& s) {
  state.SetLabel(std::to_string(s.m) + ' ' + std::to_string(s.n) + ' ' + std::to_string(s.k));
  double flops = 2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
  state.counters["FLOP"] = benchmark::Counter(flops, benchmark::Counter::kIsIterationInvariantRate);
  state.counters["B"] = benchmark::Counter(4.0 * static_cast<double>(s.n) * static_cast<double>(s.k),
                                           benchmark::Counter::kIsIterationInvariantRate);
}

void packed(benchmark::State& state, const Shape& s, WeightStorage storage, int threads) {
  std::vector<float> a = values(s.m * s.k), b = values(s.n * s.k), c(static_cast<size_t>(s.m * s.n));
  std::vector<char> data(static_cast<size_t>(packedBytes(s.k, s.n, storage)));
  packMatrix(s.k, s.n, b.data(), s.n, 1, storage, data.data());
  PackedMatrix matrix{s.k, s.n, storage, data.data()};
  std::vector<char> workspace(static_cast<size_t>(gemmWorkspace(s.m, matrix)));
  for (auto _ : state) gemm(s.m, a.data(), s.k, matrix, c.data(), s.n, {}, workspace.data(), threads);
  rate(state, s);
}

void openBlas(benchmark::State& state, const Shape& s) {
  std::vector<float> a = values(s.m * s.k), b = values(s.n * s.k), c(static_cast<size_t>(s.m * s.n));
  for (auto _ : state) blas::gemm(false, false, s.m, s.n, s.k, 1.0f, a.data(), s.k, b.data(), s.n, 0.0f, c.data(), s.n);
  rate(state, s);
}

const bool registered = [] {
  auto add = [](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond)->UseRealTime();
  };
  for (const Shape& s : kShapes) {
    for (int threads : {1, 2})
      add(std::string("engine_gemm/") + s.name + "/" + std::to_string(threads),
          [&s, threads](benchmark::State& state) { packed(state, s, WeightStorage::F32, threads); });
    add(std::string("engine_gemm/") + s.name + "/openblas", [&s](benchmark::State& state) { openBlas(state, s); });
  }
  const std::pair<WeightStorage, const char*> stored[] = {
      {WeightStorage::F16, "f16"}, {WeightStorage::BF16, "bf16"}, {WeightStorage::I8, "i8"}};
  for (auto [storage, storageName] : stored)
    for (const Shape& s : {kShapes[1], kShapes[8], kShapes[13]})
      for (int threads : {1, 2})
        add(std::string("engine_gemm_") + storageName + "/" + s.name + "/" + std::to_string(threads),
            [s, storage = storage, threads](benchmark::State& state) { packed(state, s, storage, threads); });
  return true;
}();

}  // namespace
}  // namespace tscompile
