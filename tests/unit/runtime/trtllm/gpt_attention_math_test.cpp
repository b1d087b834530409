#include "runtime/trtllm/attention/kv_cache.h"
#include "runtime/trtllm/attention/masks.h"
#include "runtime/trtllm/attention/position_bias.h"
#include "runtime/trtllm/attention/rotary.h"
#include "tests/support/engine_reference.h"

#include <string>

namespace tscompile::test {
namespace {

void expectValues(const std::vector<float>& got, const std::vector<double>& want, double tolerance = 1e-6) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], tolerance * std::fabs(want[i])) << "at " << i;
}

std::vector<int64_t> slotsOf(const CacheSlots& slots, int64_t count) {
  std::vector<int64_t> at;
  for (int64_t t = 0; t < count; ++t) at.push_back(slots.at(t));
  return at;
}

std::string bitsOf(const MaskRule& rule, const MaskPass& pass, int64_t head, int64_t row) {
  std::string bits;
  for (int64_t c = 0; c < 8; ++c) bits += isVisible(rule, pass, head, row, c) ? '1' : '0';
  return bits;
}

MaskRule ruleOf(AttentionMask type) {
  MaskRule rule;
  rule.type = type;
  return rule;
}

}  // namespace

TEST(GptAttentionBias, AlibiSlopes) {
  expectValues(alibiSlopes(8, 1, 0), {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625});
  expectValues(alibiSlopes(6, 1, 0), {.25, .0625, .015625, .00390625, .5, .125});
  expectValues(alibiSlopes(3, 2, 1), {.00390625, .5, .125});
}

TEST(GptAttentionBias, RelativeBuckets) {
  const std::vector<int64_t> want = {0, 1, 2, 3, 4, 4, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7, 7};
  for (size_t d = 0; d < want.size(); ++d)
    EXPECT_EQ(relativeBucket(static_cast<int64_t>(d), 8, 16, true), want[d]) << d;
  EXPECT_EQ(relativeBucket(-5, 8, 16, true), 0);
  // T5's encoder: half of the buckets for keys ahead.
  EXPECT_EQ(relativeBucket(1, 8, 16, false), 1);
  EXPECT_EQ(relativeBucket(-1, 8, 16, false), 5);
  EXPECT_EQ(relativeBucket(-100, 8, 16, false), 7);
  EXPECT_EQ(relativeBucket(100, 8, 16, false), 3);
  for (int64_t buckets = 1; buckets < 9; ++buckets)
    for (int64_t most = 0; most < 6; ++most)
      for (int64_t d = -9; d < 9; ++d) {
        const int64_t bucket = relativeBucket(d, buckets, most, true);
        EXPECT_TRUE(bucket >= 0 && bucket < buckets) << d << ' ' << buckets << ' ' << most;
      }
}

TEST(GptAttentionBias, LognScaling) {
  std::vector<float> got;
  for (int64_t i = 1; i <= 8; ++i) got.push_back(static_cast<float>(lognScaling(i, 4)));
  expectValues(got, {1, 1, 1, 1, 1.160964, 1.292481, 1.403677, 1.5});
}

TEST(GptAttentionCache, SlotsOfTheRing) {
  EXPECT_EQ(slotsOf(CacheSlots::of(8, 2, 0, false), 14),
            (std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(slotsOf(CacheSlots::of(8, 2, 4, false), 14),
            (std::vector<int64_t>{0, 1, 4, 5, 6, 7, 8, 9, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(slotsOf(CacheSlots::of(8, 2, 4, true), 18),
            (std::vector<int64_t>{0, 1, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(CacheSlots::of(8, 2, 4, false).used(100), 10);
  EXPECT_EQ(CacheSlots::of(8, 2, 4, false).used(2), 2);
  EXPECT_FALSE(CacheSlots::of(8, 2, 0, false).wraps(8));
  EXPECT_TRUE(CacheSlots::of(8, 2, 0, false).wraps(9));
  EXPECT_FALSE(CacheSlots::of(kNoWindow, 0, 0, false).wraps(1 << 30));
}

TEST(GptAttentionCache, Int8) {
  const double values[] = {.25, .35, .05, .15, -.25, 20, -20};
  const int want[] = {2, 4, 0, 2, -2, 127, -128};
  for (size_t i = 0; i < std::size(values); ++i) EXPECT_EQ(toInt8(values[i] * 10), want[i]) << values[i];
  EXPECT_EQ(toInt8(INFINITY), 127);
}

TEST(GptAttentionCache, Fp8) {
  for (int bits = 0; bits < 256; ++bits) {
    const uint8_t b = static_cast<uint8_t>(bits);
    if ((b & 0x7f) == 0x7f) continue;
    EXPECT_EQ(toFp8(fromFp8(b)), b);
    // Halfway to the next one up goes to the even of both, anything more or less to the nearer.
    if ((b & 0x7f) >= 0x7e || b >= 0x80) continue;
    const float low = fromFp8(b), high = fromFp8(static_cast<uint8_t>(b + 1)), middle = (low + high) / 2;
    EXPECT_EQ(toFp8(middle), b % 2 == 0 ? b : b + 1);
    EXPECT_EQ(toFp8(std::nextafter(middle, 0.0f)), b);
    EXPECT_EQ(toFp8(std::nextafter(middle, high)), b + 1);
  }
  EXPECT_EQ(fromFp8(0x7e), 448);
  EXPECT_EQ(fromFp8(0x01), 0.001953125f);
  EXPECT_EQ(toFp8(1e9f), 0x7e);
  EXPECT_EQ(toFp8(-INFINITY), 0xfe);
  EXPECT_TRUE(std::isnan(fromFp8(toFp8(NAN))));
}

TEST(GptAttentionCache, StoredValuesOfEveryFormat) {
  atEachSimdLevel([] {
    for (int64_t count : {1, 7, 16, 37}) {
      std::vector<float> values = randomFloats(count, 3, -4, 4), got(static_cast<size_t>(count));
      std::vector<std::byte> stored(static_cast<size_t>(count) * 4);
      auto check = [&](const ValueFormat& format, auto&& want) {
        storeValues(format, values.data(), count, stored.data());
        loadValues(format, stored.data(), count, got.data());
        for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], want(values[i])) << i;
      };
      check({}, [](float x) { return x; });
      check({DType::Float16}, [](float x) { return static_cast<float>(Half(x)); });
      check({DType::BFloat16}, [](float x) { return static_cast<float>(BFloat16(x)); });
      check({DType::Int8, 40, 0.025f}, [](float x) { return static_cast<float>(toInt8(x * 40.0f)) * 0.025f; });
      check({DType::Float8E4M3FN, 3, 0.3f}, [](float x) { return fromFp8(toFp8(x * 3)) * 0.3f; });
    }
    const float edges[] = {NAN, INFINITY, -INFINITY, 127.5f, -128.5f, 0.5f, 1.5f};
    const float wanted[] = {0, 127, -128, 127, -128, 0, 2};
    std::byte stored[7];
    float got[7];
    storeValues({DType::Int8}, edges, 7, stored);
    loadValues({DType::Int8}, stored, 7, got);
    for (size_t i = 0; i < 7; ++i) EXPECT_EQ(got[i], wanted[i]) << i;
    std::vector<float> all(256);
    std::vector<std::byte> bits(256);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<std::byte>(i);
    loadValues({DType::Float8E4M3FN}, bits.data(), 256, all.data());
    for (size_t i = 0; i < all.size(); ++i) {
      const float want = fromFp8(static_cast<uint8_t>(i));
      EXPECT_TRUE(all[i] == want || (std::isnan(all[i]) && std::isnan(want))) << i;
    }
  });
}

TEST(GptAttentionRotary, Frequencies) {
  GptAttentionParams p;
  p.positionEmbedding = PositionEmbedding::RopeGptNeox;
  p.rotaryDim = 4;
  p.rotaryScaling = RotaryScaling::Dynamic;
  p.rotaryScale = 2;
  p.rotaryMaxPositions = 8;
  EXPECT_NEAR(rotaryFrequencies(p, 12)[1], std::pow(40000, -0.5), 1e-12);
  EXPECT_NEAR(rotaryFrequencies(p, 8)[1], std::pow(10000, -0.5), 1e-12);

  p = {};
  p.positionEmbedding = PositionEmbedding::Yarn;
  p.rotaryDim = 8;
  p.rotaryScale = 4;
  p.rotaryOriginalMaxPositions = 64;
  const YarnRange range = yarnRange(8, 1e4, 64);
  EXPECT_EQ(range.low, 0);
  EXPECT_EQ(range.high, 2);
  const std::vector<double> yarn = rotaryFrequencies(p, 10);
  const double wantYarn[] = {1, .0625, .0025, .00025};
  for (size_t i = 0; i < yarn.size(); ++i) EXPECT_NEAR(yarn[i], wantYarn[i], 1e-12);
  EXPECT_NEAR(rotaryMagnitude(p, 10), 1.138629, 1e-6);

  p = {};
  p.positionEmbedding = PositionEmbedding::RopeGptNeox;
  p.rotaryScaling = RotaryScaling::Llama3;
  p.rotaryDim = 16;
  p.rotaryBase = 5e5;
  p.rotaryScale = 8;
  p.rotaryOriginalMaxPositions = 8192;
  const std::vector<double> llama = rotaryFrequencies(p, 10);
  const double wantLlama[] = {1,           .19392274, .03760603, .00729266, 5.2484616e-4, 3.4281022e-5, 6.6478699e-6,
                              1.2891732e-6};
  for (size_t i = 0; i < llama.size(); ++i) EXPECT_NEAR(llama[i] / wantLlama[i], 1, 1e-6) << i;

  EXPECT_NEAR(longRopeMagnitude(131072, 4096), 1.19023807, 1e-8);
  EXPECT_EQ(longRopeMagnitude(4096, 4096), 1);
  const int64_t vision[] = {0, 1, 2, 2, 2, 3, 4, 5};
  for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(visionPosition(i, 1, 3), vision[i]) << i;
  EXPECT_EQ(visionPosition(7, -1, -1), 7);
}

TEST(GptAttentionRotary, LinearScalingDividesPositions) {
  GptAttentionParams p;
  p.positionEmbedding = PositionEmbedding::RopeGptJ;
  p.rotaryDim = 6;
  std::vector<float> plain = rotaryTable(p, 9);
  p.rotaryScaling = RotaryScaling::Linear;
  p.rotaryScale = 2;
  std::vector<float> scaled = rotaryTable(p, 9);
  for (size_t i = 0; i < 6; ++i) EXPECT_FLOAT_EQ(scaled[8 * 6 + i], plain[4 * 6 + i]);
}

TEST(GptAttentionRotary, ProductsDependOnDistanceAlone) {
  GptAttentionParams p;
  p.positionEmbedding = PositionEmbedding::RopeGptNeox;
  p.rotaryDim = 8;
  const std::vector<float> table = rotaryTable(p, 40), q = randomFloats(10, 1), k = randomFloats(10, 2);
  for (bool neox : {false, true}) {
    auto product = [&](int64_t i, int64_t j) {
      std::vector<float> a = q, b = k;
      rotate(a.data(), table.data() + i * 8, 8, neox);
      rotate(b.data(), table.data() + j * 8, 8, neox);
      EXPECT_EQ(a[8], q[8]) << "passes through";
      double sum = 0;
      for (size_t d = 0; d < 8; ++d) sum += static_cast<double>(a[d]) * b[d];
      return sum;
    };
    for (int64_t d = 0; d < 12; ++d) EXPECT_NEAR(product(d + 20, 20), product(d, 0), 1e-5);
    EXPECT_GT(std::fabs(product(5, 0) - product(0, 5)), 1e-3);
  }
}

TEST(GptAttentionRotary, GptJIsNeoxPermuted) {
  GptAttentionParams p;
  p.positionEmbedding = PositionEmbedding::RopeGptJ;
  p.rotaryDim = 8;
  const std::vector<float> table = rotaryTable(p, 6), x = randomFloats(8, 1);
  std::vector<float> pairs = x, halves(8);
  for (size_t i = 0; i < 4; ++i) {
    halves[i] = x[2 * i];
    halves[i + 4] = x[2 * i + 1];
  }
  rotate(pairs.data(), table.data() + 5 * 8, 8, false);
  rotate(halves.data(), table.data() + 5 * 8, 8, true);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(pairs[2 * i], halves[i]);
    EXPECT_EQ(pairs[2 * i + 1], halves[i + 4]);
    const double angle = 5 * std::pow(10000.0, -2.0 * static_cast<double>(i) / 8);
    EXPECT_NEAR(pairs[2 * i], x[2 * i] * std::cos(angle) - x[2 * i + 1] * std::sin(angle), 1e-6);
    EXPECT_NEAR(pairs[2 * i + 1], x[2 * i + 1] * std::cos(angle) + x[2 * i] * std::sin(angle), 1e-6);
  }
}

TEST(GptAttentionMasks, TypesOnEightTokens) {
  const MaskPass all{8, 8, 0};
  struct Row {
    AttentionMask type;
    int64_t row;
    const char* bits;
  };
  const Row rows[] = {
      {AttentionMask::Padding, 0, "11111111"},          {AttentionMask::Causal, 0, "10000000"},
      {AttentionMask::Causal, 5, "11111100"},           {AttentionMask::Bidirectional, 0, "11111110"},
      {AttentionMask::Bidirectional, 7, "11111111"},    {AttentionMask::BidirectionalGlm, 3, "11111110"},
      {AttentionMask::BidirectionalGlm, 7, "11111111"},
  };
  for (const Row& t : rows)
    EXPECT_EQ(bitsOf(ruleOf(t.type), all, 0, t.row), t.bits) << static_cast<int>(t.type) << " " << t.row;

  MaskRule sliding = ruleOf(AttentionMask::SlidingWindowCausal);
  sliding.windowed = true;
  sliding.window = 3;
  EXPECT_EQ(bitsOf(sliding, all, 0, 1), "11000000");
  EXPECT_EQ(bitsOf(sliding, all, 0, 6), "00001110");
  EXPECT_EQ(bitsOf(sliding, {2, 8, 0}, 0, 0), "00001110");
  sliding.sinks = 1;
  EXPECT_EQ(bitsOf(sliding, all, 0, 6), "10000110");

  MaskRule sparse = ruleOf(AttentionMask::BlockSparse);
  sparse.blockSize = 2;
  sparse.localBlocks = 1;
  sparse.verticalStride = 2;
  sparse.homoHeads = true;
  EXPECT_EQ(bitsOf(sparse, all, 0, 6), "00110010");
  sparse.homoHeads = false;
  sparse.heads = 2;
  EXPECT_EQ(bitsOf(sparse, all, 1, 4), "11001000");

  MaskRule custom = ruleOf(AttentionMask::Custom);
  const uint32_t words[] = {0x25, 0x80};
  custom.custom.words = words;
  custom.custom.rowStride = 1;
  EXPECT_EQ(bitsOf(custom, all, 0, 0), "10100100");
  EXPECT_EQ(bitsOf(custom, {8, 8, 1}, 0, 0), "00000001");
  EXPECT_EQ(bitsOf(ruleOf(AttentionMask::Padding), {3, 5, 0}, 0, 2), "11111000");
  EXPECT_EQ(bitsOf(ruleOf(AttentionMask::Padding), {3, 5, 0}, 0, 3), "00000000");
}

TEST(GptAttentionMasks, RangesHoldExactlyWhatIsVisible) {
  const std::vector<uint8_t> bits(20 * 20, 1);
  for (int type = 0; type < 7; ++type)
    for (int64_t window : {kNoWindow, int64_t{1}, int64_t{4}, int64_t{9}})
      for (int64_t sinks = 0; sinks < std::min<int64_t>(window, 4); ++sinks)
        for (int64_t keys = 1; keys < 18; ++keys)
          for (int64_t queries = 1; queries <= keys; ++queries) {
            MaskRule rule = ruleOf(static_cast<AttentionMask>(type));
            rule.window = window;
            rule.sinks = sinks;
            rule.windowed = window != kNoWindow;
            rule.blockSize = rule.verticalStride = 2;
            rule.localBlocks = 1;
            rule.custom.bytes = bits.data();
            rule.custom.rowStride = 20;
            const MaskPass pass{queries, keys, 0};
            for (int64_t row = 0; row < queries; ++row) {
              const VisibleKeys seen = visibleKeys(rule, pass, row);
              for (int64_t c = 0; c < keys; ++c) {
                const bool inside = c < seen.sinks || (c >= seen.begin && c < seen.end);
                const bool visible = isVisible(rule, pass, 0, row, c);
                ASSERT_TRUE(inside || !visible) << type << ' ' << keys << ' ' << row << ' ' << c;
                ASSERT_TRUE(!seen.exact || inside == visible) << type << ' ' << keys << ' ' << row << ' ' << c;
              }
            }
          }
}

}  // namespace tscompile::test
