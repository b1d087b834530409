// Logits -> weights with a softmax that is mended as larger logits come (online), and the result of a row.
// Included once per instruction set.
#if defined(TSCOMPILE_ATTENTION_WEIGHTS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_ATTENTION_WEIGHTS_INL_H_
#undef TSCOMPILE_ATTENTION_WEIGHTS_INL_H_
#else
#define TSCOMPILE_ATTENTION_WEIGHTS_INL_H_
#endif

#include "runtime/kernels/rows-inl.h"
#include "runtime/trtllm/attention/task.h"

#include <algorithm>
#include <cmath>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

HWY_INLINE int64_t wholeBlocks(int64_t v) { return (v + kBlock - 1) / kBlock * kBlock; }

// Products of a query and `count` keys -> logits, all but for the scale that is returned.
inline float finishLogits(const AttentionPlan& plan, int64_t head, int64_t position, int64_t firstKey, int64_t count,
                          float* scores) {
  if (plan.softcap == 0 && plan.positions.kind == PositionBias::Kind::None) return plan.scale;
  const hn::ScalableTag<float> d0;
  if (plan.softcap > 0) {
    const auto inner = hn::Set(d0, plan.scale / plan.softcap), cap = hn::Set(d0, plan.softcap);
    mapRow(scores, scores, count,
           [&](auto d, auto x, auto&&) HWY_ATTR { return hn::Mul(tanh(d, hn::Mul(x, inner)), cap); });
  } else {
    const auto scale = hn::Set(d0, plan.scale);
    mapRow(scores, scores, count, [&](auto, auto x, auto&&) HWY_ATTR { return hn::Mul(x, scale); });
  }
  if (plan.positions.kind != PositionBias::Kind::None)
    for (int64_t j = 0; j < count; ++j) scores[j] += plan.biasFactor * plan.positions.at(head, position, firstKey + j);
  return 1;
}

inline bool hasNan(const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (std::isnan(values[i])) return true;
  return false;
}

// Logits -> weights in place, the state takes them in; returns what earlier sums are to be multiplied by.
inline float takeIn(float* scores, int64_t count, float scale, RowState& state) {
  float largest = std::max(state.largest, maxOver(scores, count) * scale);
  if (largest == kNothing) {
    if (!hasNan(scores, count)) {
      std::fill_n(scores, count, 0.0f);
      return 1;
    }
    largest = 0;
  }
  const hn::ScalableTag<float> d;
  const auto factor = hn::Set(d, scale), shift = hn::Set(d, largest);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d), more = hn::Zero(d);
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    auto a = exp(d, hn::MulSub(hn::LoadU(d, scores + i), factor, shift));
    auto b = exp(d, hn::MulSub(hn::LoadU(d, scores + i + lanes), factor, shift));
    hn::StoreU(a, d, scores + i);
    hn::StoreU(b, d, scores + i + lanes);
    sum = hn::Add(sum, a);
    more = hn::Add(more, b);
  }
  for (; i < count; i += lanes) {
    auto mask = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - i)));
    auto a = hn::IfThenElseZero(mask, exp(d, hn::MulSub(hn::MaskedLoad(mask, d, scores + i), factor, shift)));
    hn::BlendedStore(a, mask, d, scores + i);
    sum = hn::Add(sum, a);
  }
  const float earlier = state.largest == kNothing ? 0 : std::exp(state.largest - largest);
  state.sum = state.sum * earlier + hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, more)));
  state.largest = largest;
  return earlier;
}

HWY_INLINE void scaleRow(const float* from, int64_t count, float factor, float* to) {
  const hn::ScalableTag<float> d0;
  const auto f = hn::Set(d0, factor);
  mapRow(from, to, count, [&](auto, auto x, auto&&) HWY_ATTR { return hn::Mul(x, f); });
}

// What the sum of weighted values is to be multiplied by.
inline float finalFactor(const AttentionPlan& plan, int64_t head, const RowState& state) {
  if (plan.attentionSinks.empty()) return 1 / state.sum;
  const float sink = plan.attentionSinks[static_cast<size_t>(head)];
  const float largest = std::max(state.largest, sink), mended = std::exp(state.largest - largest);
  return mended / (state.sum * mended + std::exp(sink - largest));
}

// The sum of weighted values -> the result. Rows that saw nothing are zeros.
inline void finishRow(const AttentionPlan& plan, const AttentionRow& row, int64_t i, int64_t head,
                      const RowState& state, float* values) {
  std::byte* to = plan.context.at(row.firstToken + i, head);
  const bool plain = plan.output.storage == DType::Float32;
  float* result = plain ? reinterpret_cast<float*>(to) : values;
  if (state.largest == kNothing)
    std::fill_n(result, plan.size, 0.0f);
  else
    scaleRow(values, plan.size, finalFactor(plan, head, state), result);
  if (!plain) storeValues(plan.output, values, plan.size, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
