// One query of a sequence reads keys and values where they lie in the cache. Included once per instruction set.
#if defined(TSCOMPILE_SINGLE_QUERY_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_SINGLE_QUERY_INL_H_
#undef TSCOMPILE_SINGLE_QUERY_INL_H_
#else
#define TSCOMPILE_SINGLE_QUERY_INL_H_
#endif

#include "runtime/call/scratch.h"
#include "runtime/trtllm/attention/weights-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// scores[j] = q . rows[j]; up to 16 scores past the last are written.
inline void dotRows(const float* q, const float* rows, int64_t stride, int64_t count, int64_t size, float* scores) {
  const hn::CappedTag<float, kBlock> d;
  constexpr int kRows = static_cast<int>(HWY_LANES(float)) < kBlock ? static_cast<int>(HWY_LANES(float)) : kBlock;
  using V = hn::Vec<decltype(d)>;
  for (int64_t j = 0; j < count; j += kRows) {
    const float* row[kRows];
    V sum[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      row[r] = rows + std::min(j + r, count - 1) * stride;
      sum[r] = hn::Zero(d);
    }
    int64_t i = 0;
    for (; i + kRows <= size; i += kRows) {
      const V x = hn::LoadU(d, q + i);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::LoadU(d, row[r] + i), x, sum[r]);
    }
    if (i < size) {
      const auto mask = hn::FirstN(d, static_cast<size_t>(size - i));
      const V x = hn::MaskedLoad(mask, d, q + i);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::MaskedLoad(mask, d, row[r] + i), x, sum[r]);
    }
    // Sums of neighbours, until lane r is the sum of row r.
#pragma GCC unroll 16
    for (int half = kRows / 2; half > 0; half /= 2)
#pragma GCC unroll 16
      for (int r = 0; r < half; ++r) {
        const V a = sum[2 * r], b = sum[2 * r + 1];
        sum[r] = hn::Add(hn::ConcatEven(d, b, a), hn::ConcatOdd(d, b, a));
      }
    hn::StoreU(sum[0], d, scores + j);
  }
}

// out += weights * rows on kVectors vectors.
template <int kVectors, class D>
HWY_INLINE void addRows(D d, const float* weights, const float* rows, int64_t stride, int64_t count, float* out) {
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(D()));
  hn::Vec<D> sum[kVectors];
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) sum[v] = hn::LoadU(d, out + v * kLanes);
  for (int64_t j = 0; j < count; ++j, rows += stride) {
    const auto weight = hn::Set(d, weights[j]);
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] = hn::MulAdd(weight, hn::LoadU(d, rows + v * kLanes), sum[v]);
  }
#pragma GCC unroll 16
  for (int v = 0; v < kVectors; ++v) hn::StoreU(sum[v], d, out + v * kLanes);
}

inline void weightRows(const float* weights, const float* rows, int64_t stride, int64_t count, int64_t size,
                       float* out) {
  const hn::CappedTag<float, kBlock> d;
  constexpr int64_t kLanes = static_cast<int64_t>(hn::MaxLanes(hn::CappedTag<float, kBlock>()));
  constexpr int kVectors = kLanes == 16 ? 4 : 8;
  int64_t i = 0;
  for (; i + kVectors * kLanes <= size; i += kVectors * kLanes)
    addRows<kVectors>(d, weights, rows + i, stride, count, out + i);
  for (; i + kLanes <= size; i += kLanes) addRows<1>(d, weights, rows + i, stride, count, out + i);
  if (i < size) addRows<1>(hn::CappedTag<float, 1>(), weights, rows + i, stride, count, out + i), ++i;
  for (; i < size; ++i) addRows<1>(hn::CappedTag<float, 1>(), weights, rows + i, stride, count, out + i);
}

class SingleQuery {
 public:
  SingleQuery(const AttentionPlan& plan, const AttentionTask& task)
      : plan_(plan), row_(*task.row), task_(task), rule_(plan.maskOf(row_)), seen_(visibleKeys(rule_, row_.mask, 0)) {
    sinks_ = std::min(seen_.sinks, seen_.begin);
  }

  void run();

 private:
  int64_t keyAt(int64_t ordinal) const { return ordinal < sinks_ ? ordinal : seen_.begin + ordinal - sinks_; }
  template <class Body>
  void forRuns(bool values, Body&& body);
  void weigh(int64_t group, float* scores, RowState& state) const;

  const AttentionPlan& plan_;
  const AttentionRow& row_;
  const AttentionTask& task_;
  const MaskRule& rule_;
  const VisibleKeys seen_;
  int64_t sinks_;
  float* tile_ = nullptr;
};

// Calls body(rows, first ordinal, count) for runs of keys or values that are floats in memory.
template <class Body>
inline void SingleQuery::forRuns(bool values, Body&& body) {
  const KvCache& cache = plan_.cache;
  const bool rotated = plan_.shift && !values;
  const bool plain = cache.format.storage == DType::Float32 && !rotated;
  for (int64_t at = task_.begin; at < task_.end;) {
    const int64_t key = keyAt(at), most = at < sinks_ ? std::min(sinks_, task_.end) - at : task_.end - at;
    const int64_t count =
        row_.source.run(cache, key, key + (plain && plan_.group == 1 ? most : std::min(most, kDecodeTile)));
    const std::byte* stored = cache.at(row_.source.rowOf(key), values, task_.head, cache.slots.at(key));
    if (plain) {
      body(reinterpret_cast<const float*>(stored), at, count);
    } else {
      loadValues(cache.format, stored, count * plan_.size, tile_);
      for (int64_t r = 0; r < count && rotated; ++r)
        plan_.rotateKey(tile_ + r * plan_.size, plan_.shiftAngles + (at + r) * plan_.rotaryDim);
      body(tile_, at, count);
    }
    at += count;
  }
}

inline void SingleQuery::run() {
  const int64_t size = plan_.size, count = task_.end - task_.begin, stride = count + kBlock;
  const int64_t width = wholeBlocks(size);
  tile_ = threadScratch(kDecodeTile * size + plan_.group * (2 * width + stride));
  float* queries = tile_ + kDecodeTile * size;
  float* sums = queries + plan_.group * width;
  float* scores = sums + plan_.group * width;
  if (task_.last) plan_.store(row_, task_.head, tile_);
  for (int64_t g = 0; g < plan_.group; ++g) plan_.query(row_, 0, task_.head * plan_.group + g, queries + g * width);
  forRuns(false, [&](const float* rows, int64_t at, int64_t some) {
    for (int64_t g = 0; g < plan_.group; ++g)
      dotRows(queries + g * width, rows, size, some, size, scores + g * stride + at - task_.begin);
  });
  std::fill_n(sums, plan_.group * width, 0.0f);
  RowState* states = reinterpret_cast<RowState*>(queries);  // which are done with
  for (int64_t g = 0; g < plan_.group; ++g) {
    RowState state{kNothing, 0};
    weigh(g, scores + g * stride, state);
    states[g] = state;
  }
  forRuns(true, [&](const float* rows, int64_t at, int64_t some) {
    for (int64_t g = 0; g < plan_.group; ++g)
      weightRows(scores + g * stride + at - task_.begin, rows, size, some, size, sums + g * width);
  });
  for (int64_t g = 0; g < plan_.group; ++g) {
    if (!task_.partial) {
      finishRow(plan_, row_, 0, task_.head * plan_.group + g, states[g], sums + g * width);
      continue;
    }
    float* partial = task_.partial + g * (size + 2);
    partial[0] = states[g].largest;
    partial[1] = states[g].sum;
    std::copy_n(sums + g * width, size, partial + 2);
  }
}

inline void SingleQuery::weigh(int64_t group, float* scores, RowState& state) const {
  const int64_t head = task_.head * plan_.group + group, position = row_.position(0);
  float scale = 1;
  // Sinks and window lie apart.
  for (int64_t at = task_.begin; at < task_.end;) {
    const int64_t end = at < sinks_ ? std::min(sinks_, task_.end) : task_.end;
    float* part = scores + at - task_.begin;
    scale = finishLogits(plan_, head, position, keyAt(at), end - at, part);
    for (int64_t j = at; j < end && !seen_.exact; ++j)
      if (!isVisible(rule_, row_.mask, head, 0, keyAt(j))) part[j - at] = kNothing;
    at = end;
  }
  takeIn(scores, task_.end - task_.begin, scale, state);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
