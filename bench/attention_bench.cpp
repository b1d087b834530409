// Attention with a cache on the shapes of GPT-2 small, against attention() of the engine on the same sizes (which
// writes no cache), and the other layouts of the cache.
#include "runtime/kernels/attention.h"
#include "runtime/trtllm/attention/gpt_attention.h"

#include <benchmark/benchmark.h>

#include <array>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kHeads = 12, kSize = 64, kHidden = kHeads * kSize;

Tensor values(DimSpan sizes) {
  Tensor t = Tensor::empty(DType::Float32, sizes);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(i * 2654435761u % 1000) / 500.0f - 1.0f;
  return t;
}
Tensor number(int64_t value) {
  return Tensor::of<int32_t>(Dims{1}, std::array<int32_t, 1>{static_cast<int32_t>(value)});
}

// Queries, keys and values side by side; keys and values of a decoding step lie apart.
void engine(benchmark::State& state, int64_t queries, int64_t keys, int threads) {
  Tensor qkv = values(Dims{queries, 3 * kHidden}), cache = values(Dims{2, kHeads, keys, kSize});
  std::vector<float> out(static_cast<size_t>(queries * kHidden));
  const float* q = qkv.data<float>();
  AttentionShape shape{1, kHeads, queries, keys, kSize, kSize, 0.125f, queries > 1};
  BatchedMatrix mq{q, 0, kSize, 3 * kHidden, 1}, mk{q + kHidden, 0, kSize, 3 * kHidden, 1},
      mv{q + 2 * kHidden, 0, kSize, 3 * kHidden, 1};
  if (queries == 1) {
    mk = {cache.data<float>(), 0, keys * kSize, kSize, 1};
    mv = {cache.data<float>() + kHidden * keys, 0, keys * kSize, kSize, 1};
  }
  for (auto _ : state) attention(shape, mq, mk, mv, {}, out.data(), 0, kSize, kHidden, threads);
}

struct Variant {
  const char* name;
  int64_t kvHeads = kHeads;
  int64_t tokensPerBlock = 0;  // 0: contiguous
  int64_t quantMode = 0;
  bool rotary = false;
};
const Variant kVariants[] = {{"f32"},
                             {"paged", kHeads, 64},
                             {"gqa", 2},
                             {"rope", kHeads, 0, 0, true},
                             {"int8", kHeads, 0, kInt8KvCache},
                             {"fp8", kHeads, 0, kFp8KvCache}};

void layer(benchmark::State& state, const Variant& variant, int64_t queries, int64_t past, int threads) {
  GptAttentionParams p;
  p.numHeads = kHeads;
  p.numKvHeads = variant.kvHeads;
  p.headSize = kSize;
  p.useCache = true;
  p.kvCacheQuantMode = variant.quantMode;
  GptAttentionInputs in;
  in.qkv = values(Dims{1, queries, p.qkvWidth()});
  const int64_t capacity = (past + queries + 63) / 64 * 64;
  const DType stored = variant.quantMode == kInt8KvCache  ? DType::Int8
                       : variant.quantMode == kFp8KvCache ? DType::UInt8
                                                          : DType::Float32;
  in.pastKeyValue = Tensor::zeros(stored, Dims{1, 2, variant.kvHeads, capacity, kSize});
  if (variant.tokensPerBlock > 0) {
    p.pagedKvCache = true;
    p.tokensPerBlock = variant.tokensPerBlock;
    in.kvCachePool = in.pastKeyValue;
    const int64_t blocks = capacity / variant.tokensPerBlock;
    std::vector<int32_t> offsets(static_cast<size_t>(2 * blocks));
    std::iota(offsets.begin(), offsets.end(), 0);
    in.kvCacheBlockOffsets = Tensor::of<int32_t>(Dims{1, 2, blocks}, offsets);
  }
  in.kvCacheQuantizationScale = in.kvCacheDequantizationScale = Tensor::of<float>(Dims{1}, std::array<float, 1>{1});
  if (variant.rotary) {
    p.positionEmbedding = PositionEmbedding::RopeGptNeox;
    p.rotaryDim = kSize;
    in.rotaryCosSin = values(Dims{past + queries, kSize});
  }
  in.contextLengths = number(past > 0 ? past : queries);
  in.hostRequestTypes = number(past > 0 ? 1 : 0);
  in.sequenceLength = number(past + queries);
  in.hostPastKeyValueLengths = number(past);
  Tensor context = Tensor::zeros(DType::Float32, Dims{1, queries, kHidden});
  for (auto _ : state)
    if (auto problem = gptAttention(p, in, context, threads)) {
      state.SkipWithError(problem->message.c_str());
      return;
    }
}

const bool registered = [] {
  auto add = [](const std::string& name, auto body) {
    benchmark::RegisterBenchmark(name.c_str(), body)->Unit(benchmark::kMicrosecond)->UseRealTime();
  };
  for (int threads : {1, 2})
    for (int64_t length : {128, 256, 1024}) {
      const std::string end = std::to_string(length) + "/" + std::to_string(threads);
      add("attention/prefill_" + end + "/engine",
          [=](benchmark::State& state) { engine(state, length, length, threads); });
      add("attention/decode_" + end + "/engine",
          [=](benchmark::State& state) { engine(state, 1, length + 1, threads); });
      for (const Variant& v : kVariants) {
        add("attention/prefill_" + end + "/" + v.name,
            [=](benchmark::State& state) { layer(state, v, length, 0, threads); });
        add("attention/decode_" + end + "/" + v.name,
            [=](benchmark::State& state) { layer(state, v, 1, length, threads); });
      }
    }
  return true;
}();

}  // namespace
}  // namespace tscompile
