// Results of the layer on small cases, and what it refuses.
#include "runtime/trtllm/attention/gpt_attention.h"
#include "runtime/trtllm/attention/position_bias.h"
#include "runtime/trtllm/attention/rotary.h"
#include "tests/support/attention_session.h"

#include <functional>

namespace tscompile::test {
namespace {

const std::vector<float> kTiny = {1, 0, 0, 1, 1, 0, 1, 2, 0, 1, 1, 1, 0, 1, 3, 4, 1, 1, 1, -1, 1, 1, 5, 6};

GptAttentionParams tinyParams() {
  GptAttentionParams p;
  p.numHeads = 2;
  p.numKvHeads = 1;
  p.headSize = 2;
  p.removeInputPadding = true;
  return p;
}

GptAttentionInputs tinyInputs() {
  GptAttentionInputs in;
  in.qkv = floats(Dims{3, 8}, kTiny);
  in.contextLengths = ints({3});
  return in;
}

std::vector<float> resultOf(const GptAttentionParams& p, const GptAttentionInputs& in, Kernel kernel,
                            DType type = DType::Float32) {
  Dims sizes(in.qkv.sizes().begin(), in.qkv.sizes().end());
  sizes[sizes.size() - 1] = p.numHeads * p.headSize;
  Tensor context = Tensor::zeros(type, sizes);
  auto problem = kernel == Kernel::Fast ? gptAttention(p, in, context, 2) : gptAttentionReference(p, in, context);
  if (problem) ADD_FAILURE() << problem->message;
  return valuesOf(context);
}

void expectResult(const GptAttentionParams& p, const GptAttentionInputs& in, const std::vector<double>& want) {
  expectNear(resultOf(p, in, Kernel::Reference), want, 1e-5, 1e-6);
  expectNear(resultOf(p, in, Kernel::Fast), want, 1e-5, 1e-6);
}

std::string problemOf(const GptAttentionParams& p, const GptAttentionInputs& in, ErrorKind kind = ErrorKind::Input) {
  if (!in.qkv.defined()) return "no qkv";
  Dims sizes(in.qkv.sizes().begin(), in.qkv.sizes().end());
  sizes[sizes.size() - 1] = p.numHeads * p.headSize;
  auto problem = gptAttentionProblem(p, in, Tensor::zeros(in.qkv.dtype(), sizes));
  if (!problem) return "none";
  EXPECT_EQ(problem->kind, kind) << problem->message;
  return problem->message;
}

// Numbers that a script can make as well.
std::vector<float> pattern(int64_t count, int64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(static_cast<float>((i * 37 + seed * 11) % 41) / 10 - 2);
  return values;
}

}  // namespace

TEST(GptAttention, TinyTable) {
  const GptAttentionInputs in = tinyInputs();
  GptAttentionParams p = tinyParams();
  expectResult(p, in, {1, 2, 1, 2, 2.339523, 3.339523, 2, 3, 3.51047, 4.51047, 2.41604, 3.41604});
  p.positionEmbedding = PositionEmbedding::RopeGptJ;
  p.rotaryDim = 2;
  const std::vector<double> rotated = {1,        2,        1,        2,        2.572382, 3.572382,
                                       2.430111, 3.430111, 4.039304, 5.039304, 2.771662, 3.771662};
  expectResult(p, in, rotated);
  p.positionEmbedding = PositionEmbedding::RopeGptNeox;  // of two values: the same pair
  expectResult(p, in, rotated);
  p = tinyParams();
  GptAttentionInputs windowed = in;
  windowed.hostMaxAttentionWindowSizes = ints({2});
  const std::vector<double> twoKeys = {1, 2, 1, 2, 2.339523, 3.339523, 2, 3, 4.339523, 5.339523, 4.339523, 5.339523};
  expectResult(p, windowed, twoKeys);
  p.mask = AttentionMask::SlidingWindowCausal;
  expectResult(p, windowed, twoKeys);
  windowed.hostMaxAttentionWindowSizes = ints({1});
  expectResult(p, windowed, {1, 2, 1, 2, 3, 4, 3, 4, 5, 6, 5, 6});
  p = tinyParams();
  p.positionEmbedding = PositionEmbedding::Alibi;
  expectResult(p, in, {1, 2, 1, 2, 2.366872, 3.366872, 2.001953, 3.001953, 3.595122, 4.595122, 2.422099, 3.422099});
  p = tinyParams();
  p.softcap = 0.5;
  expectResult(p, in, {1, 2, 1, 2, 2.218515, 3.218515, 2, 3, 3.035183, 4.035183, 2.650543, 3.650543});
  GptAttentionInputs sinks = in;
  sinks.attentionSinks = floats(Dims{2}, {0, 1});
  expectResult(tinyParams(), sinks,
               {.669762, 1.339523, .268941, .537883, 1.758725, 2.51047, 1.197497, 1.796246, 3.127627, 4.018569, 1.36347,
                1.92781});
}

TEST(GptAttention, EqualsPyTorch) {
  const int64_t heads = 2, size = 4, tokens = 3;
  GptAttentionParams p;
  p.numHeads = p.numKvHeads = heads;
  p.headSize = size;
  p.unfuseQkvGemm = true;
  GptAttentionInputs in;
  in.qkv = floats(Dims{1, tokens, heads, size}, pattern(24, 1));
  in.k = floats(Dims{1, tokens, heads, size}, pattern(24, 2));
  in.v = floats(Dims{1, tokens, heads * size}, pattern(24, 3));
  Tensor context = Tensor::zeros(DType::Float32, Dims{1, tokens, heads * size});
  auto check = [&](const std::vector<double>& want) {
    ASSERT_FALSE(gptAttention(p, in, context, 1));
    expectNear(valuesOf(context), want, 1e-5, 1e-6);
    ASSERT_FALSE(gptAttentionReference(p, in, context));
    expectNear(valuesOf(context), want, 1e-5, 1e-6);
  };
  p.mask = AttentionMask::Padding;
  check({0.1936907, 0.8793067,   0.4793067,  0.541001,  1.012198,   0.6121982,  0.2121982,  -0.1878018,
         0.3707717, 0.9277597,   0.5277597,  0.4527486, -0.2963069, -0.6963069, -1.096307,  -1.496307,
         -0.866519, -0.02362594, -0.4236259, 1.309187,  0.6704428,  0.2704428,  -0.1295572, -0.5295572});
  p.mask = AttentionMask::Causal;
  check({1.3,       0.9,         0.5,        0.1,       -0.3,       -0.7,       -1.1,       -1.5,
         0.4887807, 1.128155,    0.7281554,  0.3281554, -0.2985366, -0.6985366, -1.098537,  -1.498537,
         -0.866519, -0.02362594, -0.4236259, 1.309187,  0.6704428,  0.2704428,  -0.1295572, -0.5295572});
  // One head of keys: views with the strides of the two.
  p.numKvHeads = 1;
  in.k = in.k.withGeometry(Dims{1, tokens, 1, size}, Dims{24, 8, 4, 1}, 0);
  in.v = in.v.withGeometry(Dims{1, tokens, size}, Dims{24, 8, 1}, 0);
  check({1.3,       0.9,         0.5,        0.1,       1.3,        0.9,       0.5,       0.1,
         0.4887807, 1.128155,    0.7281554,  0.3281554, -0.0853027, 1.289616,  0.8896164, 0.4896164,
         -0.866519, -0.02362594, -0.4236259, 1.309187,  1.001892,   0.9591107, 0.5591107, 0.1935207});
}

TEST(GptAttention, GroupedHeadsAreRepeatedHeads) {
  const int64_t tokens = 9, size = 8;
  const std::vector<float> q = randomFloats(tokens * 4 * size, 1), k = randomFloats(tokens * size, 2),
                           v = randomFloats(tokens * size, 3);
  std::vector<float> one, four;
  auto row = [&](const std::vector<float>& x, int64_t t, int64_t heads, std::vector<float>& to) {
    to.insert(to.end(), x.begin() + t * heads * size, x.begin() + (t + 1) * heads * size);
  };
  for (int64_t t = 0; t < tokens; ++t) {
    row(q, t, 4, one), row(k, t, 1, one), row(v, t, 1, one);
    row(q, t, 4, four);
    for (int i = 0; i < 4; ++i) row(k, t, 1, four);
    for (int i = 0; i < 4; ++i) row(v, t, 1, four);
  }
  GptAttentionParams p;
  p.numHeads = 4;
  p.numKvHeads = 1;
  p.headSize = size;
  GptAttentionInputs in;
  in.qkv = floats(Dims{1, tokens, 6 * size}, one);
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast}) {
    p.numKvHeads = 1;
    in.qkv = floats(Dims{1, tokens, 6 * size}, one);
    const std::vector<float> grouped = resultOf(p, in, kernel);
    p.numKvHeads = 4;
    in.qkv = floats(Dims{1, tokens, 12 * size}, four);
    EXPECT_LT(largestDifference(grouped, resultOf(p, in, kernel)), 1e-6);
    // q_scaling 2 is half of q.
    p.qScaling = 2;
    const std::vector<float> scaled = resultOf(p, in, kernel);
    p.qScaling = 1;
    std::vector<float> halved = four;
    for (int64_t t = 0; t < tokens; ++t)
      for (int64_t i = 0; i < 4 * size; ++i) halved[static_cast<size_t>(t * 12 * size + i)] *= 0.5f;
    in.qkv = floats(Dims{1, tokens, 12 * size}, halved);
    EXPECT_LT(largestDifference(scaled, resultOf(p, in, kernel)), 1e-6);
  }
}

TEST(GptAttention, BiasTablesAndStoredTypes) {
  GptAttentionParams p = tinyParams();
  p.positionEmbedding = PositionEmbedding::RopeGptJ;
  p.rotaryDim = 2;
  GptAttentionInputs in = tinyInputs();
  const std::vector<float> plain = resultOf(p, in, Kernel::Fast);
  in.rotaryCosSin = floats(Dims{5, 2}, rotaryTable(p, 5));
  EXPECT_LT(largestDifference(plain, resultOf(p, in, Kernel::Fast)), 1e-6);
  in.rotaryCosSin = {};
  in.rotaryInvFreq = floats(Dims{1}, {1});
  EXPECT_LT(largestDifference(plain, resultOf(p, in, Kernel::Fast)), 1e-6);
  // The bias comes before the rotation.
  const std::vector<float> bias = pattern(8, 5);
  std::vector<float> without = kTiny;
  for (size_t i = 0; i < without.size(); ++i) without[i] -= bias[i % 8];
  in.qkv = floats(Dims{3, 8}, without);
  in.qkvBias = floats(Dims{8}, bias);
  p.qkvBiasEnabled = true;
  EXPECT_LT(largestDifference(plain, resultOf(p, in, Kernel::Fast)), 1e-5);
  EXPECT_LT(largestDifference(plain, resultOf(p, in, Kernel::Reference)), 1e-5);
  for (DType type : {DType::Float16, DType::BFloat16}) {
    GptAttentionInputs half = tinyInputs();
    half.qkv = valuesAs(type, Dims{3, 8}, kTiny);
    p.qkvBiasEnabled = false;
    EXPECT_LT(largestDifference(plain, resultOf(p, half, Kernel::Fast, type)), type == DType::Float16 ? 5e-3 : 4e-2);
  }
}

TEST(GptAttention, LognScalesQueries) {
  const std::vector<float> factors = {1, 2, 0.5};
  std::vector<float> scaled = kTiny;
  for (size_t t = 0; t < 3; ++t)
    for (size_t i = 0; i < 4; ++i) scaled[t * 8 + i] *= factors[t];
  GptAttentionInputs in = tinyInputs(), plain = tinyInputs();
  plain.qkv = floats(Dims{3, 8}, scaled);
  in.lognScaling = floats(Dims{3}, factors);
  GptAttentionParams p = tinyParams();
  p.useLognScaling = true;
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    EXPECT_LT(largestDifference(resultOf(p, in, kernel), resultOf(tinyParams(), plain, kernel)), 1e-6);
}

TEST(GptAttention, RelativeBiasOfBothKinds) {
  GptAttentionParams p = tinyParams();
  p.positionEmbedding = PositionEmbedding::Relative;
  GptAttentionInputs in = tinyInputs();
  const std::vector<float> table = pattern(2 * 4, 2);
  std::vector<float> full;
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 3; ++i)
      for (int64_t j = 0; j < 3; ++j)
        full.push_back(table[static_cast<size_t>(h * 4 + relativeBucket(i - j, 4, 8, true))]);
  in.relativeAttentionBias = floats(Dims{2, 3, 3}, full);
  const std::vector<float> given = resultOf(p, in, Kernel::Reference);
  EXPECT_GT(largestDifference(given, resultOf(tinyParams(), tinyInputs(), Kernel::Reference)), 0.1);
  EXPECT_LT(largestDifference(given, resultOf(p, in, Kernel::Fast)), 1e-6);
  p.maxDistance = 8;
  in.relativeAttentionBias = floats(Dims{2, 4}, table);
  EXPECT_LT(largestDifference(given, resultOf(p, in, Kernel::Fast)), 1e-6);
  EXPECT_LT(largestDifference(given, resultOf(p, in, Kernel::Reference)), 1e-6);
  // (qk + bias) * scale
  p.positionEmbedding = PositionEmbedding::AlibiWithScale;
  const std::vector<float> scaled = resultOf(p, in, Kernel::Fast);
  p.positionEmbedding = PositionEmbedding::Alibi;
  std::vector<float> slopes = alibiSlopes(2, 1, 0);
  for (float& s : slopes) s *= static_cast<float>(1 / std::sqrt(2.0));
  in.alibiSlopes = floats(Dims{2}, slopes);
  EXPECT_LT(largestDifference(scaled, resultOf(p, in, Kernel::Reference)), 1e-6);
}

TEST(GptAttention, RowsThatSeeNothingAreZeros) {
  GptAttentionParams p = tinyParams();
  p.mask = AttentionMask::Custom;
  GptAttentionInputs in = tinyInputs();
  in.attentionMask = Tensor::of<uint8_t>(Dims{3, 3}, std::vector<uint8_t>{1, 0, 0, 0, 0, 0, 0, 0, 1});
  expectResult(p, in, {1, 2, 1, 2, 0, 0, 0, 0, 5, 6, 5, 6});
  in.attentionMask = {};
  in.attentionPackedMask = ints(Dims{3, 1}, {1, 0, 4});
  expectResult(p, in, {1, 2, 1, 2, 0, 0, 0, 0, 5, 6, 5, 6});
  in.attentionSinks = floats(Dims{2}, {0, 1});
  EXPECT_EQ(resultOf(p, in, Kernel::Fast)[4], 0);
  in.attentionSinks = {};
  // A key that nobody may see does not matter, one that is seen does.
  std::vector<float> poisoned = kTiny;
  poisoned[8 + 4] = NAN;
  in.qkv = floats(Dims{3, 8}, poisoned);
  expectResult(p, in, {1, 2, 1, 2, 0, 0, 0, 0, 5, 6, 5, 6});
  in.attentionPackedMask = ints(Dims{3, 1}, {1, 2, 4});
  expectResult(p, in, {1, 2, 1, 2, NAN, NAN, NAN, NAN, 5, 6, 5, 6});
}

TEST(GptAttention, QuantisedAndSkippedResults) {
  GptAttentionParams p = tinyParams();
  GptAttentionInputs in = tinyInputs();
  in.attentionOutputQuantizationScale = floats(Dims{1}, {10});
  Tensor context = Tensor::zeros(DType::UInt8, Dims{3, 4});
  ASSERT_FALSE(gptAttention(p, in, context, 1));
  EXPECT_EQ(context.data<uint8_t>()[0], toFp8(10));
  EXPECT_EQ(context.data<uint8_t>()[8], toFp8(35.1047f));
  in = tinyInputs();
  p.skipAttention = true;
  in.skipAttention = Tensor::of<bool>(Dims{1}, std::array<bool, 1>{true});
  context = valuesAs(DType::Float32, Dims{3, 4}, std::vector<float>(12, 7));
  ASSERT_FALSE(gptAttention(p, in, context, 1));
  EXPECT_EQ(valuesOf(context), std::vector<float>(12, 0));
}

TEST(GptAttention, CrossAttentionReadsTheEncoder) {
  // The same products as a padding mask over three tokens, with the last of them queried again from the cache.
  const int64_t size = 4, tokens = 3;
  GptAttentionParams self;
  self.numHeads = 2;
  self.numKvHeads = 1;
  self.headSize = size;
  self.mask = AttentionMask::Padding;
  const std::vector<float> q = pattern(tokens * 2 * size, 1), kv = pattern(tokens * 2 * size, 4);
  std::vector<float> joint;
  for (int64_t t = 0; t < tokens; ++t) {
    joint.insert(joint.end(), q.begin() + t * 8, q.begin() + (t + 1) * 8);
    joint.insert(joint.end(), kv.begin() + t * 8, kv.begin() + (t + 1) * 8);
  }
  GptAttentionInputs in;
  in.qkv = floats(Dims{1, tokens, 16}, joint);
  const std::vector<float> want = resultOf(self, in, Kernel::Reference);
  for (Kernel kernel : {Kernel::Reference, Kernel::Fast})
    for (bool queriesOnly : {false, true}) {
      GptAttentionParams p = self;
      p.mask = AttentionMask::Causal;
      p.crossAttention = p.useCache = true;
      GptAttentionInputs cross;
      cross.qkv = queriesOnly ? floats(Dims{1, tokens, 8}, q) : in.qkv;
      cross.crossKv = floats(Dims{1, tokens + 1, 8}, [&] {
        std::vector<float> padded = kv;
        padded.resize(32, NAN);
        return padded;
      }());
      cross.encoderInputLengths = ints({3});
      cross.pastKeyValue = Tensor::zeros(DType::Float32, Dims{1, 2, 1, 5, size});
      EXPECT_LT(largestDifference(want, resultOf(p, cross, kernel)), 1e-6);
      cross.crossKv = {};
      cross.hostRequestTypes = ints({1});
      cross.qkv = floats(Dims{1, 1, 8}, rowsOf(q, 8, 2, 3));
      EXPECT_LT(largestDifference(rowsOf(want, 8, 2, 3), resultOf(p, cross, kernel)), 1e-6);
    }
}

TEST(GptAttention, SameBitsForAnyNumberOfThreads) {
  GptAttentionParams p;
  p.numHeads = 4;
  p.numKvHeads = 2;
  p.headSize = 20;
  const int64_t tokens = 700;
  GptAttentionInputs in;
  in.qkv = floats(Dims{1, tokens, p.qkvWidth()}, randomFloats(tokens * p.qkvWidth(), 1));
  std::vector<float> first;
  for (int threads : {1, 2, 5}) {
    Tensor context = Tensor::zeros(DType::Float32, Dims{1, tokens, 80});
    ASSERT_FALSE(gptAttention(p, in, context, threads));
    if (first.empty()) first = valuesOf(context);
    EXPECT_TRUE(sameBytes(first, valuesOf(context)));
  }
  EXPECT_LT(largestDifference(first, resultOf(p, in, Kernel::Reference)), 2e-5);
}

TEST(GptAttention, LongDecodingIsSplit) {
  GptAttentionParams p;
  p.numHeads = 6;
  p.numKvHeads = 2;
  p.headSize = 24;
  p.softcap = 4;
  const int64_t tokens = 901, width = p.qkvWidth();
  const std::vector<float> all = randomFloats(tokens * width, 1, -2, 2);
  for (bool paged : {false, true}) {
    std::vector<float> first;
    for (int threads : {0, 1, 2, 5}) {
      const CacheLayout layout{.paged = paged, .tokensPerBlock = 64, .capacity = 960, .threads = threads};
      AttentionSession session(p, layout, threads == 0 ? Kernel::Reference : Kernel::Fast);
      session.shared().attentionSinks = floats(Dims{6}, {0, 1, 2, 3, 4, 5});
      ASSERT_EQ(session.step({{0, true, rowsOf(all, width, 0, tokens - 1)}}).size(), 1u);
      const auto got = session.step({{0, false, rowsOf(all, width, tokens - 1, tokens)}});
      ASSERT_EQ(got.size(), 1u);
      // First the reference, then the same bits for every number of threads.
      EXPECT_LT(threads == 0 ? 0 : largestDifference(first, got[0]), 1e-5);
      EXPECT_TRUE(threads < 2 || sameBytes(first, got[0]));
      first = got[0];
    }
  }
}

TEST(GptAttentionProblems, Extents) {
  GptAttentionParams p;
  p.numHeads = 4;
  p.numKvHeads = 2;
  p.headSize = 3;
  GptAttentionInputs in;
  in.qkv = Tensor::zeros(DType::Float32, Dims{2, 5, 23});
  EXPECT_EQ(problemOf(p, in), "the last extent of qkv is 23, expected 24 = (4+2*2)*3");
  p.removeInputPadding = true;
  in.qkv = Tensor::zeros(DType::Float32, Dims{5, 24});
  EXPECT_EQ(problemOf(p, in), "none");
  in.contextLengths = ints({2, 2});
  EXPECT_EQ(problemOf(p, in), "qkv has 5 tokens, but the rows have 4");
  in.contextLengths = ints({2, 4});
  EXPECT_EQ(problemOf(p, in), "context_lengths[1] is 4, but there are 3 tokens");
  in.contextLengths = ints({2, -1});
  EXPECT_EQ(problemOf(p, in), "context_lengths[1] is -1, but there are 3 tokens");
  in.contextLengths = ints({2, 3});
  in.hostRequestTypes = ints({1, 0});
  EXPECT_EQ(problemOf(p, in), "row 0 is a generation request, which needs use_cache");
  p.useCache = true;
  EXPECT_EQ(problemOf(p, in), "host_past_key_value_lengths is missing");
  in.hostPastKeyValueLengths = ints({4, 0});
  EXPECT_EQ(problemOf(p, in), "row 1 is a context request after a generation request");
  in.hostRequestTypes = ints({2, 0});
  EXPECT_EQ(problemOf(p, in, ErrorKind::Unsupported), "a request of type none is not supported");
  in.hostRequestTypes = ints({0, 0});
  EXPECT_EQ(problemOf(p, in), "past_key_value is missing");
  in.pastKeyValue = Tensor::zeros(DType::Float32, Dims{2, 2, 2, 8, 3});
  EXPECT_EQ(problemOf(p, in), "none");
  in.sequenceLength = ints({2, 9});
  EXPECT_EQ(problemOf(p, in), "row 1 has 9 tokens and needs 9 slots, but the cache has 8");
  in.hostMaxAttentionWindowSizes = ints({6});
  EXPECT_EQ(problemOf(p, in), "none");
  in.hostSinkTokenLength = ints({6});
  EXPECT_EQ(problemOf(p, in), "host_sink_token_length is 6, expected less than the window 6");
  p.layerIdx = 1;
  EXPECT_EQ(problemOf(p, in), "host_max_attention_window_sizes has 1 values, but layer_idx is 1");
}

TEST(GptAttentionProblems, GenerationAndBeams) {
  GptAttentionParams p = tinyParams();
  p.useCache = true;
  GptAttentionInputs in;
  in.qkv = Tensor::zeros(DType::Float32, Dims{3, 8});
  in.hostRequestTypes = ints({1, 1, 1});
  in.contextLengths = ints({1, 1, 1});
  in.hostPastKeyValueLengths = ints({2, 2, 2});
  in.pastKeyValue = Tensor::zeros(DType::Float32, Dims{3, 2, 1, 4, 2});
  EXPECT_EQ(problemOf(p, in), "none");
  in.sequenceLength = ints({3, 3, 2});
  EXPECT_EQ(problemOf(p, in), "sequence_length[2] is 2, expected 3 = 2 in the cache and 1 new");
  in.sequenceLength = {};
  in.cacheIndirection = ints(Dims{1, 2, 4}, std::vector<int32_t>(8, 0));
  EXPECT_EQ(problemOf(p, in), "3 generation rows are not a multiple of 2 beams");
  in.cacheIndirection = ints(Dims{1, 3, 4}, {0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(problemOf(p, in), "cache_indirection[0, 1, 1] is 3, expected less than 3 beams");
  in.cacheIndirection = ints(Dims{1, 3, 1}, {0, 0, 0});
  EXPECT_EQ(problemOf(p, in), "cache_indirection is [1, 3, 1], but row 0 has 2 past tokens");
  in.cacheIndirection = ints(Dims{1, 3, 4}, std::vector<int32_t>(12, 0));
  EXPECT_EQ(problemOf(p, in), "none");
  in.hostPastKeyValueLengths = ints({2, 1, 2});
  EXPECT_EQ(problemOf(p, in),
            "row 1 has 1 past tokens and a prompt of 1, but the first beam of its request has 2 and 1");
  in.hostPastKeyValueLengths = ints({2, 2, 2});
  in.hostMaxAttentionWindowSizes = ints({2});
  EXPECT_EQ(problemOf(p, in, ErrorKind::Unsupported), "a cyclic cache that wraps with several beams is not supported");
  in.hostPastKeyValueLengths = ints({2, 2, -2});
  EXPECT_EQ(problemOf(p, in), "host_past_key_value_lengths[2] is -2");
}

TEST(GptAttentionProblems, Blocks) {
  GptAttentionParams p = tinyParams();
  p.useCache = p.pagedKvCache = true;
  p.tokensPerBlock = 2;
  GptAttentionInputs in = tinyInputs();
  EXPECT_EQ(problemOf(p, in), "the pool of cache blocks is missing");
  in.kvCachePool = Tensor::zeros(DType::Float32, Dims{6, 1, 2, 2});
  in.kvCacheBlockOffsets = ints(Dims{1, 2, 2}, {0, 1, 2, 5});
  EXPECT_EQ(problemOf(p, in), "none");
  p.layerIdxInCachePool = 1;
  EXPECT_EQ(problemOf(p, in), "kv_cache_block_offsets[0, 1, 1] is 5, but the pool has 4 blocks from layer 1 on");
  p.layerIdxInCachePool = 0;
  in.kvCacheBlockOffsets = ints(Dims{1, 2, 2}, {0, -1, 2, 5});
  EXPECT_EQ(problemOf(p, in), "kv_cache_block_offsets[0, 0, 1] is -1, but the pool has 6 blocks from layer 0 on");
  in.kvCacheBlockOffsets = ints(Dims{1, 2, 2}, {0, 1, 2, 1});
  EXPECT_EQ(problemOf(p, in), "block 1 of the pool is written for row 0 and used by row 0");
  in.kvCacheBlockOffsets = ints(Dims{1, 2, 1}, {0, 1});
  EXPECT_EQ(problemOf(p, in), "row 0 has 3 tokens and needs 3 slots, but the cache has 2");
  p.tokensPerBlock = 3;
  EXPECT_EQ(problemOf(p, in), "tokens_per_block is 3, expected a power of two");
  p.tokensPerBlock = 2;
  p.kvCacheQuantMode = kInt8KvCache;
  in.kvCacheBlockOffsets = ints(Dims{1, 2, 2}, {0, 1, 2, 5});
  EXPECT_EQ(problemOf(p, in), "kv_cache_quantization_scale is missing");
  for (float scale : {0.0f, INFINITY, NAN, -1.0f}) {
    in.kvCacheQuantizationScale = in.kvCacheDequantizationScale = floats(Dims{1}, {scale});
    EXPECT_NE(problemOf(p, in).find("expected a positive number"), std::string::npos) << scale;
  }
  in.kvCacheQuantizationScale = in.kvCacheDequantizationScale = floats(Dims{1}, {1});
  EXPECT_EQ(problemOf(p, in), "the pool of cache blocks is float32, expected int8");
}

TEST(GptAttentionProblems, FieldsAndFeatures) {
  auto messageOf = [](auto change, ErrorKind kind = ErrorKind::Input) {
    GptAttentionParams p = tinyParams();
    change(p);
    auto problem = gptAttentionProblem(p);
    if (!problem) return std::string("none");
    EXPECT_EQ(problem->kind, kind);
    return problem->message;
  };
  using P = GptAttentionParams;
  EXPECT_EQ(messageOf([](P&) {}), "none");
  EXPECT_EQ(messageOf([](P& p) { p.numHeads = 0; }), "num_heads is 0, expected 1 to 65536");
  EXPECT_EQ(messageOf([](P& p) { p.numHeads = 3, p.numKvHeads = 2; }),
            "num_heads is 3, expected a multiple of num_kv_heads 2");
  EXPECT_EQ(messageOf([](P& p) { p.qScaling = 0; }), "q_scaling is 0, expected a positive number");
  EXPECT_EQ(messageOf([](P& p) { p.positionEmbedding = PositionEmbedding::RopeGptJ; }),
            "rotary_embedding_dim is 0, expected 2 to 2");
  EXPECT_EQ(messageOf([](P& p) { p.mask = AttentionMask::BlockSparse, p.blockSparseVerticalStride = 0; }),
            "block_sparse_vertical_stride is 0, expected 1 to 1073741824");
  EXPECT_EQ(messageOf([](P& p) { p.pagedKvCache = true; }), "paged_kv_cache needs use_cache");
  const std::pair<std::function<void(P&)>, const char*> missing[] = {
      {[](P& p) { p.isMla = true; }, "multi-head latent attention (is_mla_enabled) is not supported"},
      {[](P& p) { p.fuseFp4Quant = true; }, "fp4 output (fuse_fp4_quant) is not supported"},
      {[](P& p) { p.kvCacheQuantMode = kFp4KvCache; }, "an nvfp4 cache (kv_cache_quant_mode) is not supported"},
      {[](P& p) { p.cpSize = 2; }, "context parallelism (cp_size) is not supported"},
      {[](P& p) { p.isMedusa = true; }, "medusa decoding (is_medusa_enabled) is not supported"},
      {[](P& p) { p.isSpecDecoding = true; }, "speculative decoding (is_spec_decoding_enabled) is not supported"},
      {[](P& p) { p.crossAttention = true, p.positionEmbedding = PositionEmbedding::Alibi; },
       "a position bias in cross attention is not supported"}};
  for (const auto& [change, text] : missing) EXPECT_EQ(messageOf(change, ErrorKind::Unsupported), text);
}

TEST(GptAttentionProblems, TablesAreLongEnough) {
  GptAttentionParams p = tinyParams();
  GptAttentionInputs in = tinyInputs();
  p.positionEmbedding = PositionEmbedding::RopeGptJ;
  p.rotaryDim = 2;
  in.rotaryCosSin = Tensor::zeros(DType::Float32, Dims{2, 2});
  EXPECT_EQ(problemOf(p, in), "rotary_cos_sin has 2 positions, but there is a token at 2");
  p.positionEmbedding = PositionEmbedding::Mrope;
  EXPECT_EQ(problemOf(p, in), "mrope_rotary_cos_sin is missing");
  p.positionEmbedding = PositionEmbedding::LongRope;
  EXPECT_EQ(problemOf(p, in), "long_rope_rotary_inv_freq is missing, which long_rope needs");
  p = tinyParams();
  p.useLognScaling = true;
  EXPECT_EQ(problemOf(p, in), "logn_scaling is missing");
  in.lognScaling = Tensor::zeros(DType::Float32, Dims{2});
  EXPECT_EQ(problemOf(p, in), "logn_scaling has 2 positions, but there is a token at 2");
  p = tinyParams();
  p.mask = AttentionMask::Custom;
  in.attentionMask = Tensor::zeros(DType::Bool, Dims{3, 2});
  EXPECT_EQ(problemOf(p, in), "attention_mask is [3, 2], expected [3, 3]");
  p = tinyParams();
  p.positionEmbedding = PositionEmbedding::Relative;
  in.relativeAttentionBias = Tensor::zeros(DType::Float32, Dims{2, 2, 3});
  EXPECT_EQ(problemOf(p, in), "relative_attention_bias is [2, 2, 3], but there are 3 tokens");
}

}  // namespace tscompile::test
