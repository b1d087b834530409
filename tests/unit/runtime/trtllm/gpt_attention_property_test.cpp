// The fast kernel against the reference over random layers, layouts and steps; thousands of them under `./dev soak`.
#include "runtime/trtllm/attention/rotary.h"
#include "tests/support/attention_session.h"
#include "tests/support/property.h"

namespace tscompile::test {
namespace {

class RandomLayer {
 public:
  explicit RandomLayer(uint64_t seed) : engine_(static_cast<uint32_t>(seed)) {}

  int64_t from(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  bool oneIn(int64_t n) { return from(1, n) == 1; }
  std::vector<float> values(int64_t count, float range) { return randomFloats(count, engine_(), -range, range); }

  void make();

  GptAttentionParams params;
  CacheLayout layout;
  GptAttentionInputs inputs;
  static constexpr int64_t kLongest = 160;

 private:
  void makePositions();
  void makeCache();

  std::mt19937 engine_;
};

void RandomLayer::makePositions() {
  GptAttentionParams& p = params;
  p.positionEmbedding = static_cast<PositionEmbedding>(from(0, 9));
  if (p.positionEmbedding == PositionEmbedding::Mrope) p.positionEmbedding = PositionEmbedding::ChatGlm;
  if (p.usesRotary()) {
    p.rotaryDim = 2 * from(1, std::max<int64_t>(1, p.headSize / 2));
    p.rotaryScaling = static_cast<RotaryScaling>(from(0, 2));
    if (oneIn(3)) p.rotaryScaling = RotaryScaling::Llama3;
    p.rotaryScale = static_cast<double>(from(1, 4));
    p.rotaryOriginalMaxPositions = from(2, 64);
    p.rotaryMaxPositions = from(2, 64);
    if (p.positionEmbedding == PositionEmbedding::LongRope) {
      inputs.rotaryInvFreq = floats(Dims{p.rotaryDim / 2}, values(p.rotaryDim / 2, 1));
      inputs.longRopeRotaryInvFreq = floats(Dims{p.rotaryDim / 2}, values(p.rotaryDim / 2, 1));
    } else if (oneIn(2)) {
      inputs.rotaryCosSin = floats(Dims{kLongest, p.rotaryDim}, rotaryTable(p, kLongest));
    }
  }
  if (p.positionEmbedding == PositionEmbedding::Relative) {
    p.maxDistance = oneIn(2) ? 0 : from(1, 40);
    p.unidirectional = oneIn(2);
    const int64_t buckets = from(2, 12);
    const Dims sizes = p.maxDistance == 0 ? Dims{p.numHeads, kLongest, kLongest} : Dims{p.numHeads, buckets};
    inputs.relativeAttentionBias = floats(sizes, values(*checkedNumel(sizes), 1));
  }
  p.useLognScaling = oneIn(5);
  if (p.useLognScaling) inputs.lognScaling = floats(Dims{kLongest}, values(kLongest, 1.5));
  if (oneIn(4)) p.softcap = 2;
  if (oneIn(4)) inputs.attentionSinks = floats(Dims{p.numHeads}, values(p.numHeads, 2));
  if (oneIn(8)) p.visionStart = 3, p.visionLength = 5;
}

void RandomLayer::makeCache() {
  layout.packed = oneIn(2);
  layout.paged = oneIn(2);
  layout.tokensPerBlock = int64_t{1} << from(0, 6);
  layout.capacity = kLongest;
  layout.threads = static_cast<int>(from(1, 3));
  if (oneIn(2)) {
    layout.window = from(1, 40);
    layout.sinks = from(0, std::min<int64_t>(4, layout.window - 1));
    layout.capacity = layout.window + from(0, 3);
    params.oneMoreBlock = layout.paged && oneIn(3);
    if (params.oneMoreBlock) layout.capacity += layout.tokensPerBlock;
  }
  if (oneIn(4)) params.kvCacheQuantMode = oneIn(2) ? kInt8KvCache : kFp8KvCache;
  layout.scale = 0.02f;
  const RotaryScaling scaling = params.effectiveScaling();
  params.posShift = params.usesRotary() && oneIn(3) && params.visionLength < 0 && scaling != RotaryScaling::Dynamic &&
                    scaling != RotaryScaling::LongRope;
  params.denseContext = oneIn(6);
}

void RandomLayer::make() {
  GptAttentionParams& p = params;
  p.numKvHeads = from(1, 4);
  p.numHeads = p.numKvHeads * (oneIn(2) ? 1 : from(2, 5));
  p.headSize = oneIn(3) ? from(2, 40) : 8 * from(1, 12);
  p.qScaling = oneIn(4) ? 1.7 : 1;
  const AttentionMask masks[] = {AttentionMask::Causal,           AttentionMask::Causal,
                                 AttentionMask::Padding,          AttentionMask::Bidirectional,
                                 AttentionMask::BidirectionalGlm, AttentionMask::BlockSparse};
  p.mask = masks[from(0, 5)];
  p.blockSparseBlockSize = from(1, 9);
  p.blockSparseLocalBlocks = from(0, 3);
  p.blockSparseVerticalStride = from(1, 4);
  p.blockSparseHomoHeads = oneIn(2);
  makePositions();
  makeCache();
  if (oneIn(4)) {
    p.qkvBiasEnabled = true;
    inputs.qkvBias = floats(Dims{p.qkvWidth()}, values(p.qkvWidth(), 0.5));
  }
  if (oneIn(5)) p.type = oneIn(2) ? DType::Float16 : DType::BFloat16;
}

double toleranceOf(DType type) { return type == DType::Float32 ? 1e-5 : type == DType::Float16 ? 2e-3 : 1.6e-2; }

void checkLayer(uint64_t seed) {
  RandomLayer layer(seed);
  layer.make();
  // Each instruction set in turn.
  limitSimdLevel(static_cast<SimdLevel>(seed % 3));
  const int64_t sequences = layer.from(1, 3), width = layer.params.qkvWidth();
  AttentionSession slow(layer.params, layer.layout, Kernel::Reference, sequences);
  AttentionSession fast(layer.params, layer.layout, Kernel::Fast, sequences);
  slow.shared() = fast.shared() = layer.inputs;
  const int64_t steps = layer.from(1, 6);
  const bool dense = layer.params.denseContext || layer.params.posShift;
  for (int64_t s = 0; s < steps; ++s) {
    std::vector<AttentionRequest> contexts, generations;
    for (int64_t i = 0; i < sequences; ++i) {
      const bool wraps = layer.layout.window > 0 && slow.length(i) > layer.layout.window;
      const bool context = slow.length(i) == 0 || (layer.oneIn(4) && !(dense && wraps));
      const int64_t count = !context ? 1 : layer.oneIn(4) ? layer.from(20, 70) : layer.from(1, 20);
      if (slow.length(i) + count > RandomLayer::kLongest) continue;
      (context ? contexts : generations).push_back({i, context, layer.values(count * width, 2)});
    }
    // A padded batch is of one kind.
    if (layer.layout.packed) contexts.insert(contexts.end(), generations.begin(), generations.end());
    const std::vector<AttentionRequest>& requests = contexts.empty() ? generations : contexts;
    if (requests.empty()) return;
    auto want = slow.step(requests), got = fast.step(requests);
    ASSERT_EQ(want.size(), requests.size());
    ASSERT_EQ(got.size(), requests.size());
    for (size_t i = 0; i < requests.size(); ++i)
      ASSERT_LT(largestDifference(want[i], got[i]), toleranceOf(layer.params.type))
          << "step " << s << ", request " << i << ", " << static_cast<int>(layer.params.mask) << ", "
          << static_cast<int>(layer.params.positionEmbedding);
  }
}

// Whatever numbers a call brings, it is refused or stays inside of its tensors: sanitizers look on.
void checkHostileNumbers(uint64_t seed) {
  RandomLayer random(seed);
  auto number = [&](int64_t usual) {
    const int64_t odd[] = {-1, 0, 1, 2, 7, 8, 9, 100, -2147483648LL, 2147483647LL};
    return static_cast<int32_t>(random.oneIn(6) ? odd[random.from(0, 9)] : usual);
  };
  GptAttentionParams p;
  p.numHeads = 2;
  p.numKvHeads = 1;
  p.headSize = 4;
  p.useCache = p.removeInputPadding = true;
  p.pagedKvCache = random.oneIn(2);
  p.tokensPerBlock = 2;
  p.crossAttention = random.oneIn(5);
  p.layerIdxInCachePool = random.from(0, 1);
  const PositionEmbedding positions[] = {PositionEmbedding::LearnedAbsolute, PositionEmbedding::RopeGptNeox,
                                         PositionEmbedding::Alibi};
  p.positionEmbedding = positions[random.from(0, 2)];
  p.rotaryDim = 4;
  p.posShift = p.usesRotary() && random.oneIn(2);
  if (random.oneIn(3)) p.mask = AttentionMask::Padding;
  const int64_t rows = 4, contexts = 2, blocks = 4;
  std::vector<int32_t> types, lengths, total, past, offsets, indirection, encoder;
  int64_t tokens = 0;
  for (int64_t i = 0; i < rows; ++i) {
    const bool context = i < contexts;
    const int64_t before = context ? random.from(0, 1) * 2 : random.from(1, 6), fresh = context ? random.from(1, 4) : 1;
    types.push_back(random.oneIn(20) ? number(0) : context ? 0 : 1);
    lengths.push_back(number(context ? fresh : 1));
    total.push_back(number(before + fresh));
    past.push_back(number(before));
    encoder.push_back(number(3));
    tokens += fresh;
  }
  for (int64_t i = 0; i < rows * 2 * blocks; ++i) offsets.push_back(number(i));
  for (int64_t i = 0; i < 16; ++i) indirection.push_back(number(i % 2));
  GptAttentionInputs in;
  in.qkv = floats(Dims{tokens, 16}, random.values(tokens * 16, 1));
  in.hostRequestTypes = ints(types);
  in.contextLengths = ints(lengths);
  if (random.oneIn(2)) in.sequenceLength = ints(total);
  if (random.oneIn(2)) in.hostPastKeyValueLengths = ints(past);
  if (random.oneIn(2)) in.hostMaxAttentionWindowSizes = ints({number(5)});
  if (random.oneIn(2)) in.hostSinkTokenLength = ints({number(1)});
  if (random.oneIn(3)) in.cacheIndirection = ints(Dims{1, 2, 8}, indirection);
  in.crossKv = floats(Dims{7, 8}, random.values(56, 1));
  in.encoderInputLengths = ints(encoder);
  in.pastKeyValue = floats(Dims{rows, 2, 1, 8, 4}, random.values(rows * 64, 1));
  in.kvCachePool = floats(Dims{36, 2, 4}, random.values(36 * 8, 1));
  in.kvCacheBlockOffsets = ints(Dims{rows, 2, blocks}, offsets);
  if (random.oneIn(3)) in.hostKvCachePoolMapping = ints(Dims{1, 2}, {number(0), number(1)});
  if (random.oneIn(3)) in.rotaryCosSin = floats(Dims{9, 4}, random.values(36, 1));
  Tensor slow = Tensor::zeros(DType::Float32, Dims{tokens, 8}), fast = Tensor::zeros(DType::Float32, Dims{tokens, 8});
  auto copy = [](const Tensor& t) { return floats(t.sizes(), valuesOf(t)); };
  GptAttentionInputs again = in;
  again.pastKeyValue = copy(in.pastKeyValue);
  again.kvCachePool = copy(in.kvCachePool);
  const auto problem = gptAttentionReference(p, in, slow), other = gptAttention(p, again, fast, 2);
  ASSERT_EQ(problem.has_value(), other.has_value());
  if (problem) return;
  ASSERT_LT(largestDifference(valuesOf(slow), valuesOf(fast)), 1e-5);
  ASSERT_TRUE(sameBytes(valuesOf(in.pastKeyValue), valuesOf(again.pastKeyValue)));
  ASSERT_TRUE(sameBytes(valuesOf(in.kvCachePool), valuesOf(again.kvCachePool)));
}

}  // namespace

TEST(GptAttentionProperty, HostileNumbersStayInside) { forEachSeed(3000, checkHostileNumbers); }
TEST(GptAttentionProperty, FastIsReference) {
  forEachSeed(400, checkLayer);
  limitSimdLevel(SimdLevel::Amx);
}

}  // namespace tscompile::test
