// What the cache gives back: the same numbers however a sequence is cut into steps, and wherever its tokens lie.
#include "runtime/trtllm/attention/rotary.h"
#include "tests/support/attention_session.h"

namespace tscompile::test {
namespace {

GptAttentionParams paramsOf(int64_t heads, int64_t kvHeads, int64_t size,
                            PositionEmbedding positions = PositionEmbedding::LearnedAbsolute) {
  GptAttentionParams p;
  p.numHeads = heads;
  p.numKvHeads = kvHeads;
  p.headSize = size;
  p.positionEmbedding = positions;
  p.rotaryDim = p.usesRotary() ? size / 2 * 2 : 0;
  return p;
}

struct Named {
  const char* name;
  CacheLayout layout;
};

std::vector<Named> layouts() {
  std::vector<Named> all = {
      {"contiguous", {}},
      {"padded", {.packed = false}},
      {"cyclic", {.window = 5, .capacity = 5}},
      {"cyclic padded", {.packed = false, .window = 4, .capacity = 7}},
      {"sinks", {.window = 6, .sinks = 2, .capacity = 6}},
      {"window of one", {.window = 1, .capacity = 1}},
      {"paged cyclic", {.paged = true, .tokensPerBlock = 2, .window = 5, .capacity = 6}},
      {"paged sinks", {.paged = true, .tokensPerBlock = 4, .window = 7, .sinks = 2, .capacity = 8}},
      {"paged padded", {.packed = false, .paged = true, .tokensPerBlock = 2}},
  };
  for (int64_t tokens : {1, 2, 4, 64}) all.push_back({"paged", {.paged = true, .tokensPerBlock = tokens}});
  return all;
}

// Tokens [0, k) in one step, then `chunk` at a time.
std::vector<float> runSteps(const GptAttentionParams& p, const CacheLayout& layout, Kernel kernel,
                            const std::vector<float>& tokens, int64_t k, int64_t chunk, bool generation = true,
                            const GptAttentionInputs& shared = {}) {
  AttentionSession session(p, layout, kernel);
  session.shared() = shared;
  const int64_t width = p.qkvWidth(), count = static_cast<int64_t>(tokens.size()) / width;
  std::vector<float> all;
  for (int64_t at = 0; at < count;) {
    const bool first = at == 0 && k > 0;
    const int64_t end = std::min(count, at + (first ? k : chunk));
    auto results = session.step({{0, first || !generation, rowsOf(tokens, width, at, end)}});
    if (results.empty()) return {};
    all.insert(all.end(), results[0].begin(), results[0].end());
    at = end;
  }
  return all;
}

void checkSteps(const GptAttentionParams& p, const CacheLayout& layout, Kernel kernel, double tolerance = 1e-5,
                const GptAttentionInputs& shared = {}) {
  const int64_t count = 11;
  const std::vector<float> tokens = randomFloats(count * p.qkvWidth(), 5, -2, 2);
  const std::vector<float> want = runSteps(p, layout, kernel, tokens, count, 1, true, shared);
  for (int64_t k = 0; k < count; ++k)
    EXPECT_LT(largestDifference(want, runSteps(p, layout, kernel, tokens, k, 1, true, shared)), tolerance) << k;
  for (int64_t chunk : {1, 2, 3, 4, 7})
    EXPECT_LT(largestDifference(want, runSteps(p, layout, kernel, tokens, chunk, chunk, false, shared)), tolerance)
        << "chunks of " << chunk;
}

}  // namespace

TEST(GptAttentionSteps, PrefillIsPrefillAndDecode) {
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (const Named& t : layouts()) {
      SCOPED_TRACE(std::string(t.name) + (kernel == Kernel::Fast ? ", fast" : ", reference"));
      checkSteps(paramsOf(2, 2, 6), t.layout, kernel);
      checkSteps(paramsOf(4, 2, 8, PositionEmbedding::RopeGptNeox), t.layout, kernel);
      checkSteps(paramsOf(3, 1, 5, PositionEmbedding::Alibi), t.layout, kernel);
      GptAttentionParams p = paramsOf(2, 1, 8, PositionEmbedding::RopeGptJ);
      p.mask = AttentionMask::BlockSparse;
      p.blockSparseBlockSize = p.blockSparseVerticalStride = 2;
      p.blockSparseLocalBlocks = 1;
      p.softcap = 3;
      checkSteps(p, t.layout, kernel);
      p.mask = AttentionMask::Causal;
      p.oneMoreBlock = t.layout.paged;
      CacheLayout layout = t.layout;
      layout.capacity += p.oneMoreBlock ? layout.tokensPerBlock : 0;
      checkSteps(p, layout, kernel);
    }
}

TEST(GptAttentionSteps, QuantisedCachesGiveWhatTheyStore) {
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (const Named& t : layouts())
      for (int64_t mode : {kInt8KvCache, kFp8KvCache}) {
        SCOPED_TRACE(t.name);
        GptAttentionParams p = paramsOf(4, 2, 8, PositionEmbedding::RopeGptNeox);
        p.kvCacheQuantMode = mode;
        CacheLayout layout = t.layout;
        layout.scale = mode == kInt8KvCache ? 0.03f : 0.01f;
        checkSteps(p, layout, kernel);
      }
}

TEST(GptAttentionSteps, SixteenBitCaches) {
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (DType type : {DType::Float16, DType::BFloat16}) {
      GptAttentionParams p = paramsOf(4, 2, 20, PositionEmbedding::RopeGptNeox);
      p.type = type;
      checkSteps(p, {.paged = true}, kernel, type == DType::Float16 ? 2e-3 : 2e-2);
    }
}

TEST(GptAttentionSteps, ErrorOfQuantisedValuesIsBounded) {
  // With q = 0 the result is the mean of values: no worse than half a step of the grid.
  GptAttentionParams p = paramsOf(2, 1, 8);
  std::vector<float> tokens = randomFloats(9 * p.qkvWidth(), 3, -2, 2);
  for (int64_t t = 0; t < 9; ++t) std::fill_n(tokens.begin() + t * p.qkvWidth(), 16, 0.0f);
  const std::vector<float> exact = runSteps(p, {}, Kernel::Reference, tokens, 9, 1);
  p.kvCacheQuantMode = kInt8KvCache;
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast}) {
    const double error = largestDifference(exact, runSteps(p, {.scale = 1 / 32.0f}, kernel, tokens, 4, 1));
    EXPECT_LT(error, 0.5 / 32);
    EXPECT_GT(error, 0.05 / 32);
  }
}

TEST(GptAttentionSteps, ScalingsAlongTheSequence) {
  GptAttentionInputs shared;
  std::vector<float> logn;
  for (int i = 0; i < 11; ++i) logn.push_back(1 + 0.1f * static_cast<float>(i));
  shared.lognScaling = floats(Dims{11}, logn);
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast}) {
    GptAttentionParams p = paramsOf(2, 1, 8, PositionEmbedding::RopeGptNeox);
    p.useLognScaling = true;
    p.visionStart = 2;
    p.visionLength = 4;
    checkSteps(p, {}, kernel, 1e-5, shared);
    // Later sections of a prompt at positions of their own, and the same positions by a delta.
    const int64_t count = 8, first = 5;
    GptAttentionParams rope = paramsOf(2, 1, 8, PositionEmbedding::Mrope);
    const std::vector<float> table = rotaryTable(paramsOf(2, 1, 8, PositionEmbedding::RopeGptNeox), 20);
    std::vector<float> sections;
    for (int64_t i = 0; i < count; ++i) {
      const int64_t position = i < first ? i : i + 3;
      sections.insert(sections.end(), table.begin() + position * 8, table.begin() + (position + 1) * 8);
    }
    GptAttentionInputs mrope;
    mrope.mropeRotaryCosSin = floats(Dims{1, count, 8}, sections);
    mrope.mropePositionDeltas = ints({3});
    const std::vector<float> tokens = randomFloats(count * rope.qkvWidth(), 5, -2, 2);
    const std::vector<float> want = runSteps(rope, {}, kernel, tokens, count, 1, true, mrope);
    EXPECT_LT(largestDifference(want, runSteps(rope, {}, kernel, tokens, first, 1, true, mrope)), 1e-5);
  }
}

TEST(GptAttentionSteps, LongRopeTakesTheFactorsOfItsLength) {
  GptAttentionParams rope = paramsOf(1, 1, 4, PositionEmbedding::RopeGptNeox), longRope = rope;
  longRope.positionEmbedding = PositionEmbedding::LongRope;
  longRope.rotaryMaxPositions = longRope.rotaryOriginalMaxPositions = 4;
  GptAttentionInputs both, one;
  both.rotaryInvFreq = floats(Dims{2}, {0.5, 0.1});
  both.longRopeRotaryInvFreq = floats(Dims{2}, {0.2, 0.05});
  for (int64_t count : {3, 4, 5, 7}) {
    const std::vector<float> tokens = randomFloats(count * 12, 5, -2, 2);
    one.rotaryInvFreq = count <= 4 ? both.rotaryInvFreq : both.longRopeRotaryInvFreq;
    EXPECT_LT(largestDifference(runSteps(rope, {}, Kernel::Fast, tokens, count, 1, true, one),
                                runSteps(longRope, {}, Kernel::Fast, tokens, count, 1, true, both)),
              1e-6);
  }
}

TEST(GptAttentionBatches, PackedRowsAreIndependent) {
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (bool packed : {false, true})
      for (bool paged : {false, true}) {
        GptAttentionParams p = paramsOf(4, 2, 8, PositionEmbedding::RopeGptNeox);
        const CacheLayout layout{.packed = packed, .paged = paged};
        const int64_t width = p.qkvWidth();
        const std::vector<float> tokens = randomFloats(12 * width, 9, -2, 2);
        const int64_t lengths[] = {5, 3, 1};
        AttentionSession together(p, layout, kernel, 3);
        std::vector<AttentionRequest> requests;
        int64_t at = 0;
        for (int64_t i = 0; i < 3; ++i, at += lengths[i - 1])
          requests.push_back({i, true, rowsOf(tokens, width, at, at + lengths[i])});
        auto got = together.step(requests);
        ASSERT_EQ(got.size(), 3u);
        std::vector<AttentionRequest> next;
        for (int64_t i = 0; i < 3; ++i) next.push_back({i, false, rowsOf(tokens, width, 9 + i, 10 + i)});
        auto more = together.step(next);
        ASSERT_EQ(more.size(), 3u);
        for (size_t i = 0; i < 3; ++i) {
          std::vector<float> alone = requests[i].tokens;
          alone.insert(alone.end(), next[i].tokens.begin(), next[i].tokens.end());
          std::vector<float> both = got[i];
          both.insert(both.end(), more[i].begin(), more[i].end());
          EXPECT_LT(largestDifference(both, runSteps(p, layout, kernel, alone, lengths[i], 1)), 1e-5);
        }
      }
}

TEST(GptAttentionBatches, ContextAndGenerationTogether) {
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (bool paged : {false, true}) {
      GptAttentionParams p = paramsOf(4, 1, 8, PositionEmbedding::Alibi);
      const CacheLayout layout{.paged = paged};
      const int64_t width = p.qkvWidth();
      const std::vector<float> tokens = randomFloats(20 * width, 9, -2, 2);
      AttentionSession session(p, layout, kernel, 4);
      ASSERT_EQ(session.step({{2, true, rowsOf(tokens, width, 0, 4)}, {3, true, rowsOf(tokens, width, 4, 10)}}).size(),
                2u);
      auto got = session.step({{0, true, rowsOf(tokens, width, 10, 15)},
                               {1, true, rowsOf(tokens, width, 15, 18)},
                               {2, false, rowsOf(tokens, width, 18, 19)},
                               {3, false, rowsOf(tokens, width, 19, 20)}});
      ASSERT_EQ(got.size(), 4u);
      auto last = [&](int64_t begin, int64_t end, int64_t then) {
        std::vector<float> history = rowsOf(tokens, width, begin, end);
        const std::vector<float> next = rowsOf(tokens, width, then, then + 1);
        history.insert(history.end(), next.begin(), next.end());
        return rowsOf(runSteps(p, layout, kernel, history, end - begin, 1), 32, end - begin, end - begin + 1);
      };
      EXPECT_LT(largestDifference(got[0], runSteps(p, layout, kernel, rowsOf(tokens, width, 10, 15), 5, 1)), 1e-5);
      EXPECT_LT(largestDifference(got[1], runSteps(p, layout, kernel, rowsOf(tokens, width, 15, 18), 3, 1)), 1e-5);
      EXPECT_LT(largestDifference(got[2], last(0, 4, 18)), 1e-5);
      EXPECT_LT(largestDifference(got[3], last(4, 10, 19)), 1e-5);
    }
}

TEST(GptAttentionWindows, SinksAndLastTokensAreAttended) {
  // q = 0 weighs all keys alike; the value of token t is one in lane t.
  GptAttentionParams p = paramsOf(1, 1, 32);
  const int64_t count = 21;
  std::vector<float> tokens(static_cast<size_t>(count * 96), 0);
  for (int64_t t = 0; t < count; ++t) tokens[static_cast<size_t>(t * 96 + 64 + t)] = 1;
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (bool paged : {false, true})
      for (int64_t k : {1, 9, 21}) {
        const CacheLayout layout{.paged = paged, .window = 8, .sinks = 2, .capacity = 8};
        const std::vector<float> all = runSteps(p, layout, kernel, tokens, k, 1);
        ASSERT_EQ(all.size(), 32u * 21);
        for (int64_t t = 0; t < count; ++t)
          for (int64_t j = 0; j < count; ++j) {
            const bool seen = j <= t && (t < 8 || j < 2 || j > t - 6);
            const double share = 1.0 / static_cast<double>(std::min<int64_t>(t + 1, 8));
            ASSERT_NEAR(all[static_cast<size_t>(t * 32 + j)], seen ? share : 0, 1e-6) << t << ' ' << j;
          }
      }
}

TEST(GptAttentionWindows, DenseContextSeesThePrompt) {
  GptAttentionParams p = paramsOf(2, 1, 8);
  const std::vector<float> tokens = randomFloats(9 * p.qkvWidth(), 5, -2, 2);
  const std::vector<float> full = runSteps(p, {}, Kernel::Reference, tokens, 9, 1);
  p.denseContext = true;
  const CacheLayout cyclic{.window = 4, .capacity = 4};
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    EXPECT_LT(largestDifference(full, runSteps(p, cyclic, kernel, tokens, 9, 1)), 1e-6);
  p.denseContext = false;
  EXPECT_GT(largestDifference(full, runSteps(p, cyclic, Kernel::Fast, tokens, 9, 1)), 1e-2);
}

TEST(GptAttentionShift, KeysAreRotatedByTheirPlaceInTheCache) {
  for (PositionEmbedding type : {PositionEmbedding::RopeGptJ, PositionEmbedding::RopeGptNeox})
    for (bool paged : {false, true})
      for (int64_t mode : {int64_t{0}, kInt8KvCache, kFp8KvCache}) {
        GptAttentionParams rope = paramsOf(4, 2, 8, type), shifted = rope;
        shifted.posShift = true;
        shifted.kvCacheQuantMode = mode;
        const CacheLayout layout{.paged = paged, .window = 8, .sinks = 2, .capacity = 12, .scale = 0.02f};
        const std::vector<float> tokens = randomFloats(20 * rope.qkvWidth(), 5, -2, 2);
        const std::vector<float> slow = runSteps(shifted, layout, Kernel::Reference, tokens, 3, 1);
        const std::vector<float> fast = runSteps(shifted, layout, Kernel::Fast, tokens, 3, 1);
        EXPECT_LT(largestDifference(slow, fast), 1e-5);
        // While the window is not full it is plain rotary attention.
        const std::vector<float> plain = runSteps(rope, layout, Kernel::Reference, tokens, 3, 1);
        EXPECT_LT(largestDifference(rowsOf(plain, 32, 0, 8), rowsOf(fast, 32, 0, 8)), mode == 0 ? 1e-5 : 0.4);
        EXPECT_GT(largestDifference(rowsOf(plain, 32, 8, 20), rowsOf(fast, 32, 8, 20)), 1e-2);
        // And later what a prompt of just the attended tokens gives: 0, 1 and 14 to 19.
        if (mode != 0) continue;
        std::vector<float> attended = rowsOf(tokens, rope.qkvWidth(), 0, 2);
        const std::vector<float> recent = rowsOf(tokens, rope.qkvWidth(), 14, 20);
        attended.insert(attended.end(), recent.begin(), recent.end());
        const std::vector<float> prompt = runSteps(rope, {}, Kernel::Reference, attended, 8, 1);
        EXPECT_LT(largestDifference(rowsOf(prompt, 32, 7, 8), rowsOf(fast, 32, 19, 20)), 1e-5);
      }
}

TEST(GptAttentionBeams, IndirectionIsTheHistoryOfABeam) {
  const int64_t beams = 3, prompt = 4, steps = 6, capacity = 12;
  GptAttentionParams p = paramsOf(4, 2, 8, PositionEmbedding::RopeGptNeox);
  const int64_t width = p.qkvWidth();
  const std::vector<float> start = randomFloats(prompt * width, 1, -2, 2);
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (bool paged : {false, true}) {
      GptAttentionParams q = p;
      q.useCache = q.removeInputPadding = true;
      q.pagedKvCache = paged;
      q.tokensPerBlock = 2;
      GptAttentionInputs in;
      in.pastKeyValue = valuesAs(DType::Float32, Dims{beams, 2, 2, capacity, 8}, std::vector<float>(1152, NAN));
      in.kvCachePool = valuesAs(DType::Float32, Dims{64, 2, 2, 8}, std::vector<float>(2048, NAN));
      // Beams share the blocks of the prompt.
      std::vector<int32_t> offsets;
      for (int32_t m = 0; m < beams; ++m)
        for (int32_t kv = 0; kv < 2; ++kv)
          for (int32_t b = 0; b < 6; ++b) offsets.push_back(b < 2 ? kv * 2 + b : 4 + (m * 2 + kv) * 4 + b - 2);
      std::vector<int32_t> indirection(static_cast<size_t>(beams * capacity), -7);
      in.cacheIndirection = ints(Dims{1, beams, capacity}, indirection);
      in.qkv = floats(Dims{prompt, width}, start);
      in.contextLengths = ints({4});
      in.kvCacheBlockOffsets = ints(Dims{1, 2, 6}, std::vector<int32_t>(offsets.begin(), offsets.begin() + 12));
      auto run = [&](int64_t rows) {
        Tensor context = Tensor::zeros(DType::Float32, Dims{rows, 32});
        auto problem = kernel == Kernel::Fast ? gptAttention(q, in, context, 2) : gptAttentionReference(q, in, context);
        EXPECT_FALSE(problem) << problem->message;
        return valuesOf(context);
      };
      run(prompt);
      in.kvCacheBlockOffsets = ints(Dims{beams, 2, 6}, offsets);
      in.hostRequestTypes = ints({1, 1, 1});
      in.contextLengths = ints({4, 4, 4});
      std::vector<std::vector<float>> histories(static_cast<size_t>(beams), start);
      std::vector<int32_t> parents[] = {{0, 0, 0}, {1, 0, 2}, {2, 2, 0}, {0, 1, 1}, {2, 0, 1}, {1, 1, 1}};
      for (int64_t s = 0; s < steps; ++s) {
        const int32_t past = static_cast<int32_t>(prompt + s);
        const std::vector<float> next = randomFloats(beams * width, static_cast<uint32_t>(10 + s), -2, 2);
        in.qkv = floats(Dims{beams, width}, next);
        in.hostPastKeyValueLengths = ints({past, past, past});
        // Each beam goes on from its parent.
        std::vector<int32_t> before = indirection;
        std::vector<std::vector<float>> old = histories;
        for (int64_t m = 0; m < beams; ++m) {
          const int64_t parent = parents[s][static_cast<size_t>(m)];
          std::copy_n(before.begin() + parent * capacity, capacity, indirection.begin() + m * capacity);
          histories[static_cast<size_t>(m)] = old[static_cast<size_t>(parent)];
        }
        in.cacheIndirection = ints(Dims{1, beams, capacity}, indirection);
        const std::vector<float> got = run(beams);
        for (int64_t m = 0; m < beams; ++m) {
          std::vector<float>& history = histories[static_cast<size_t>(m)];
          history.insert(history.end(), next.begin() + m * width, next.begin() + (m + 1) * width);
          indirection[static_cast<size_t>(m * capacity + past)] = static_cast<int32_t>(m);
          const std::vector<float> alone = runSteps(p, {}, kernel, history, past + 1, 1);
          EXPECT_LT(largestDifference(rowsOf(got, 32, m, m + 1), rowsOf(alone, 32, past, past + 1)), 1e-5)
              << "step " << s << ", beam " << m;
        }
      }
    }
}

}  // namespace tscompile::test
