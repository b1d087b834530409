// Masks, rotary tables and biases of a call.
#include "runtime/trtllm/attention/planner.h"
#include "runtime/trtllm/attention/rotary.h"

#include <algorithm>

namespace tscompile {

void AttentionPlanner::planMasks() {
  MaskRule rule;
  rule.type = params_.mask;
  rule.heads = plan_.heads;
  rule.window = window_;
  rule.sinks = sinks_;
  rule.blockSize = params_.blockSparseBlockSize;
  rule.localBlocks = params_.blockSparseLocalBlocks;
  rule.verticalStride = params_.blockSparseVerticalStride;
  rule.homoHeads = params_.blockSparseHomoHeads;
  if (plan_.cross && rule.type != AttentionMask::Custom) rule.type = AttentionMask::Padding;
  plan_.generationMask = plan_.contextMask = rule;
  plan_.generationMask.windowed = window_ != kNoWindow;
  const bool dense = params_.denseContext || params_.posShift;
  const bool sliding = rule.type == AttentionMask::SlidingWindowCausal;
  if (sliding && window_ == kNoWindow)
    fail("host_max_attention_window_sizes is missing, which sliding_window_causal needs");
  const bool causal = rule.type == AttentionMask::Causal || rule.type == AttentionMask::BlockSparse;
  // What a cyclic cache loses is not seen; without one, windows are a matter of causal masks.
  plan_.contextMask.windowed = window_ != kNoWindow && (sliding || (!dense && (causal || plan_.cache.data)));
  const bool loses = plan_.contextMask.windowed;
  if (params_.attentionWindow > 0) narrowMasks(params_.attentionWindow);
  for (AttentionRow& row : plan_.rows) {
    row.mask = {row.tokens, row.keys, row.firstToken};
    if (row.context && !loses && plan_.cache.slots.wraps(row.past))
      refuse("dense context attention after a cyclic cache that has wrapped");
  }
  if (rule.type == AttentionMask::Custom) planCustomMask();
}

// Of what the cache keeps, the last tokens alone are seen.
void AttentionPlanner::narrowMasks(int64_t window) {
  for (MaskRule* rule : {&plan_.contextMask, &plan_.generationMask}) {
    if (rule->windowed && rule->window <= window) continue;
    rule->windowed = true;
    rule->window = window;
    rule->sinks = 0;
  }
}

void AttentionPlanner::planCustomMask() {
  const bool packed = inputs_.attentionPackedMask.defined();
  const Tensor& t = packed ? inputs_.attentionPackedMask : inputs_.attentionMask;
  const char* name = packed ? "attention_packed_mask" : "attention_mask";
  Dims shape = expectShape(name, t, 2);
  const bool known = packed ? t.dtype() == DType::Int32 : t.dtype() == DType::Bool || t.dtype() == DType::UInt8;
  if (!known || !t.isContiguous())
    fail("{} is {}, expected contiguous {}", name, pythonName(t.dtype()), packed ? "int32" : "bool");
  int64_t columns = 0;
  for (const AttentionRow& row : plan_.rows) columns = std::max(columns, row.keys);
  const int64_t extent = packed ? (columns + 31) / 32 : columns;
  if (shape[0] != plan_.tokens || shape[1] < extent)
    fail("{} is {}, expected [{}, {}]", name, dimsText(shape), plan_.tokens, extent);
  CustomMask mask;
  mask.rowStride = shape[1];
  if (packed)
    mask.words = t.data<uint32_t>();
  else
    mask.bytes = t.data<uint8_t>();
  plan_.contextMask.custom = plan_.generationMask.custom = mask;
}

namespace {

// Angles that are computed once for each length that matters.
class ComputedAngles {
 public:
  ComputedAngles(const GptAttentionParams& params, std::vector<float> given, std::vector<float> givenLong)
      : params_(params), given_(std::move(given)), givenLong_(std::move(givenLong)) {}

  void add(int64_t length, int64_t position, float* to) {
    if (length != length_) {
      length_ = length;
      const bool isLong =
          params_.effectiveScaling() == RotaryScaling::LongRope && length > params_.rotaryOriginalMaxPositions;
      const std::vector<float>& given = isLong ? givenLong_ : given_;
      if (given.empty())
        frequencies_ = rotaryFrequencies(params_, length);
      else
        frequencies_.assign(given.begin(), given.end());
      magnitude_ = rotaryMagnitude(params_, length);
    }
    rotaryAngles(frequencies_, magnitude_, position, to);
  }

 private:
  const GptAttentionParams& params_;
  std::vector<float> given_, givenLong_;
  std::vector<double> frequencies_;
  double magnitude_ = 1;
  int64_t length_ = -1;
};

}  // namespace

// A row of one of the tables, or null if there is none for this token.
const float* AttentionPlanner::givenAngles(const AttentionRow& row, int64_t index, int64_t position) const {
  const int64_t dim = plan_.rotaryDim;
  const bool isLong =
      params_.effectiveScaling() == RotaryScaling::LongRope && row.keys > params_.rotaryOriginalMaxPositions;
  const Tensor* t = isLong ? &inputs_.longRopeRotaryCosSin : &inputs_.rotaryCosSin;
  const char* name = isLong ? "long_rope_rotary_cos_sin" : "rotary_cos_sin";
  int64_t tables = 1, table = 0;
  if (params_.positionEmbedding == PositionEmbedding::Mrope && row.context) {
    t = &inputs_.mropeRotaryCosSin;
    name = "mrope_rotary_cos_sin";
    if (!t->defined()) fail("{} is missing", name);
    tables = static_cast<int64_t>(plan_.rows.size());
    if (t->rank() > 0 && t->size(0) == contexts_) tables = contexts_;
    table = index;
  }
  if (!t->defined()) return nullptr;
  const float* data = floatTable(name, *t);
  const int64_t positions = t->numel() / (dim * tables);
  if (t->numel() % (dim * tables) != 0) fail("{} is {}, expected rows of {}", name, dimsText(t->sizes()), dim);
  if (position >= positions) fail("{} has {} positions, but there is a token at {}", name, positions, position);
  return data + (table * positions + position) * dim;
}

void AttentionPlanner::planRotary() {
  if (!params_.usesRotary()) return;
  const int64_t dim = plan_.rotaryDim = params_.rotaryDim;
  plan_.neox = params_.positionEmbedding != PositionEmbedding::RopeGptJ;
  plan_.shift = params_.posShift;
  auto frequencies = [&](const char* name, const Tensor& t) {
    return t.defined() ? floats(name, t, dim / 2) : std::vector<float>();
  };
  const bool longRope = params_.effectiveScaling() == RotaryScaling::LongRope;
  if (longRope && !inputs_.rotaryCosSin.defined() && !inputs_.rotaryInvFreq.defined())
    fail("rotary_inv_freq is missing, which long_rope needs");
  if (longRope && !inputs_.longRopeRotaryCosSin.defined() && !inputs_.longRopeRotaryInvFreq.defined())
    fail("long_rope_rotary_inv_freq is missing, which long_rope needs");
  ComputedAngles computed(params_, frequencies("rotary_inv_freq", inputs_.rotaryInvFreq),
                          frequencies("long_rope_rotary_inv_freq", inputs_.longRopeRotaryInvFreq));
  std::vector<int64_t> deltas;
  const int64_t count = static_cast<int64_t>(plan_.rows.size());
  if (params_.positionEmbedding == PositionEmbedding::Mrope && contexts_ < count)
    deltas = integers("mrope_position_deltas", inputs_.mropePositionDeltas, count);
  plan_.angles.assign(static_cast<size_t>(plan_.tokens), nullptr);
  plan_.computedAngles.resize(static_cast<size_t>(plan_.tokens * dim));
  if (plan_.shift) planShift();
  for (int64_t r = 0; r < count; ++r) {
    const AttentionRow& row = plan_.rows[static_cast<size_t>(r)];
    for (int64_t i = 0; i < row.tokens; ++i) {
      const size_t token = static_cast<size_t>(row.firstToken + i);
      if (plan_.shift) {
        const int64_t rank = row.context ? row.past + i : std::min(row.past, window_ - 1);
        plan_.angles[token] = plan_.shiftAngles + rank * dim;
        continue;
      }
      int64_t position = visionPosition(row.past + i, params_.visionStart, params_.visionLength);
      if (!row.context && !deltas.empty()) position += deltas[static_cast<size_t>(r)];
      if (position < 0)
        fail("mrope_position_deltas[{}] is {}, which leads to position {}", r, deltas[static_cast<size_t>(r)],
             position);
      plan_.angles[token] = givenAngles(row, r, position);
      if (plan_.angles[token]) continue;
      float* to = plan_.computedAngles.data() + row.firstToken * dim + i * dim;
      computed.add(row.keys, position, to);
      plan_.angles[token] = to;
    }
  }
}

// Angles of all positions in the cache, as keys are rotated when they are read.
void AttentionPlanner::planShift() {
  int64_t positions = 0;
  for (const AttentionRow& row : plan_.rows)
    positions = std::max(positions, row.context ? row.keys : std::min(row.keys, window_));
  if (positions > 0 && inputs_.rotaryCosSin.defined()) {
    plan_.shiftAngles = givenAngles(plan_.rows.front(), 0, positions - 1) - (positions - 1) * plan_.rotaryDim;
    return;
  }
  std::vector<double> frequencies = rotaryFrequencies(params_, positions);
  if (inputs_.rotaryInvFreq.defined()) {
    std::vector<float> given = floats("rotary_inv_freq", inputs_.rotaryInvFreq, plan_.rotaryDim / 2);
    frequencies.assign(given.begin(), given.end());
  }
  const auto count = static_cast<size_t>(positions * plan_.rotaryDim);
  plan_.computedBytes = std::make_unique<MemoryCharge>();
  plan_.computedBytes->raise(count * sizeof(float));
  plan_.computedShiftAngles.resize(count);
  for (int64_t p = 0; p < positions; ++p)
    rotaryAngles(frequencies, rotaryMagnitude(params_, positions), p,
                 plan_.computedShiftAngles.data() + p * plan_.rotaryDim);
  plan_.shiftAngles = plan_.computedShiftAngles.data();
}

void AttentionPlanner::planPositionBias() {
  PositionBias& bias = plan_.positions;
  if (params_.isAlibi()) {
    bias.kind = PositionBias::Kind::Alibi;
    bias.slopes = inputs_.alibiSlopes.defined() ? floats("alibi_slopes", inputs_.alibiSlopes, plan_.heads)
                                                : alibiSlopes(plan_.heads, params_.tpSize, params_.tpRank);
    if (params_.positionEmbedding == PositionEmbedding::AlibiWithScale) plan_.biasFactor = plan_.scale;
    return;
  }
  if (params_.positionEmbedding != PositionEmbedding::Relative) return;
  const Tensor& t = inputs_.relativeAttentionBias;
  if (!t.defined()) fail("relative_attention_bias is missing");
  const bool isExplicit = params_.maxDistance == 0;
  Dims shape = expectShape("relative_attention_bias", t, isExplicit ? 3 : 2);
  int64_t longest = 0;
  for (const AttentionRow& row : plan_.rows) longest = std::max(longest, row.keys);
  if (shape[0] != plan_.heads) fail("relative_attention_bias is {}, expected {} heads", dimsText(shape), plan_.heads);
  bias.table = floats("relative_attention_bias", t, -1);
  bias.columns = shape[shape.size() - 1];
  if (isExplicit) {
    bias.kind = PositionBias::Kind::Explicit;
    bias.rows = shape[1];
    if (shape[1] < longest || shape[2] < longest)
      fail("relative_attention_bias is {}, but there are {} tokens", dimsText(shape), longest);
    return;
  }
  bias.kind = PositionBias::Kind::Buckets;
  if (bias.columns < (params_.unidirectional ? 1 : 2))
    fail("relative_attention_bias is {}, which has too few buckets", dimsText(shape));
  // Further away it is the last bucket that counts.
  bias.longest = std::min(longest, std::max(params_.maxDistance, bias.columns));
  for (int64_t d = -bias.longest; d <= bias.longest; ++d)
    bias.buckets.push_back(
        static_cast<int32_t>(relativeBucket(d, bias.columns, params_.maxDistance, params_.unidirectional)));
}

void AttentionPlanner::planLogn() {
  if (!params_.useLognScaling) return;
  if (!inputs_.lognScaling.defined()) fail("logn_scaling is missing");
  std::vector<float> table = floats("logn_scaling", inputs_.lognScaling, -1);
  plan_.logn.assign(static_cast<size_t>(plan_.tokens), 1.0f);
  for (const AttentionRow& row : plan_.rows)
    for (int64_t i = 0; i < row.tokens; ++i) {
      if (row.past + i >= static_cast<int64_t>(table.size()))
        fail("logn_scaling has {} positions, but there is a token at {}", table.size(), row.past + i);
      plan_.logn[static_cast<size_t>(row.firstToken + i)] = table[static_cast<size_t>(row.past + i)];
    }
}

}  // namespace tscompile
