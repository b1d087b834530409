// The fast kernel. Many queries of a sequence go tile by tile over tiles of packed keys, with a softmax that is mended
// as larger logits come (online). A single query reads keys and values where they lie; long ones are split into chunks
// whose parts are merged in order.
#include "runtime/engine/product.h"
#include "runtime/engine/scratch.h"
#include "runtime/engine/simd.h"
#include "runtime/engine/thread_pool.h"
#include "runtime/plugin/attention/plan.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace tscompile {
namespace {

#ifndef TSCOMPILE_BLOCKED_ATTENTION
#define TSCOMPILE_BLOCKED_ATTENTION
constexpr int64_t kKeyTile = 512;    // keys and values of 64 floats fill a quarter of a megabyte
constexpr int64_t kDecodeTile = 64;  // keys that the heads of a group share while they are in cache
constexpr float kNothing = -std::numeric_limits<float>::infinity();

// Work of one thread: query rows [begin, end) of a sequence on one head of keys, or keys [begin, end) in order of
// sight.
struct AttentionTask {
  const AttentionRow* row;
  int64_t head;
  int64_t begin, end;
  bool single;     // one query
  bool last;       // writes new keys and values to the cache
  float* partial;  // of each head of the group: the largest logit, the sum of weights, the weighted values; or null
};

// Where one head of the group, one query stands.
struct RowState {
  float largest, sum;
};
#endif

}  // namespace
}  // namespace tscompile

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/plugin/attention/blocked.cpp"
#include <hwy/foreach_target.h>
#include "runtime/engine/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

HWY_INLINE int64_t wholeBlocks(int64_t v) { return (v + kBlock - 1) / kBlock * kBlock; }

// Logits [from, to) of a row, but for the scale that is returned if nothing else is to be done with them.
float finishLogits(const AttentionPlan& plan, int64_t head, int64_t position, int64_t firstKey, int64_t count,
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

bool hasNan(const float* values, int64_t count) {
  for (int64_t i = 0; i < count; ++i)
    if (std::isnan(values[i])) return true;
  return false;
}

// Logits -> weights in place, the state takes them in; returns what earlier sums are to be multiplied by.
float takeIn(float* scores, int64_t count, float scale, RowState& state) {
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
float finalFactor(const AttentionPlan& plan, int64_t head, const RowState& state) {
  if (plan.attentionSinks.empty()) return 1 / state.sum;
  const float sink = plan.attentionSinks[static_cast<size_t>(head)];
  const float largest = std::max(state.largest, sink), mended = std::exp(state.largest - largest);
  return mended / (state.sum * mended + std::exp(sink - largest));
}

// The sum of weighted values -> the result. Rows that saw nothing are zeros.
void finishRow(const AttentionPlan& plan, const AttentionRow& row, int64_t i, int64_t head, const RowState& state,
               float* values) {
  std::byte* to = plan.context.at(row.firstToken + i, head);
  const bool plain = plan.output.storage == ValueStorage::F32;
  float* result = plain ? reinterpret_cast<float*>(to) : values;
  if (state.largest == kNothing)
    std::fill_n(result, plan.size, 0.0f);
  else
    scaleRow(values, plan.size, finalFactor(plan, head, state), result);
  if (!plain) storeValues(plan.output, values, plan.size, to);
}

// ---- many queries

// Rows of 16 keys -> a panel [size][16].
void packKeys(const float* const* rows, int64_t size, float* to) {
  const hn::Full128<float> d;
  int64_t i = 0;
  for (; i + 4 <= size; i += 4)
    for (int64_t r = 0; r < kBlock; r += 4) {
      auto a = hn::LoadU(d, rows[r] + i), b = hn::LoadU(d, rows[r + 1] + i);
      auto c = hn::LoadU(d, rows[r + 2] + i), e = hn::LoadU(d, rows[r + 3] + i);
      auto ac = hn::InterleaveLower(d, a, c), be = hn::InterleaveLower(d, b, e);
      auto acHigh = hn::InterleaveUpper(d, a, c), beHigh = hn::InterleaveUpper(d, b, e);
      hn::StoreU(hn::InterleaveLower(d, ac, be), d, to + i * kBlock + r);
      hn::StoreU(hn::InterleaveUpper(d, ac, be), d, to + (i + 1) * kBlock + r);
      hn::StoreU(hn::InterleaveLower(d, acHigh, beHigh), d, to + (i + 2) * kBlock + r);
      hn::StoreU(hn::InterleaveUpper(d, acHigh, beHigh), d, to + (i + 3) * kBlock + r);
    }
  for (; i < size; ++i)
    for (int64_t r = 0; r < kBlock; ++r) to[i * kBlock + r] = rows[r][i];
}

// A row of values -> row `key` of the panels [size / 16][keys][16].
HWY_INLINE void packValue(const float* row, int64_t size, int64_t keys, int64_t key, float* to) {
  to += key * kBlock;
  for (int64_t i = 0; i < size; i += kBlock, to += keys * kBlock) {
    if (i + kBlock <= size) {
      std::memcpy(to, row + i, kBlock * sizeof(float));
    } else {
      std::memcpy(to, row + i, static_cast<size_t>(size - i) * sizeof(float));
      std::fill(to + (size - i), to + kBlock, 0.0f);
    }
  }
}

class BlockedQueries {
 public:
  BlockedQueries(const AttentionPlan& plan, const AttentionTask& task, int64_t tileRows)
      : plan_(plan),
        row_(*task.row),
        rule_(plan.maskOf(row_)),
        head_(task.head),
        begin_(task.begin),
        end_(task.end),
        rows_(task.end - task.begin),
        tileRows_(tileRows) {}

  void run(bool store);

 private:
  void reserve();
  void packTile(int64_t first, int64_t last);
  const float* keyRow(int64_t key, float* room) const;
  const float* valueRow(int64_t key, float* room) const;
  void attendTile(int64_t first, int64_t last);
  void attendQueries(int64_t group, int64_t at, int64_t first, int64_t last);
  void weigh(int64_t group, int64_t at, int64_t first, int64_t count, int64_t from, int64_t to, float* scores);
  float* sumsOf(int64_t group, int64_t at) { return sums_ + (group * rows_ + at) * width_; }
  RowState& stateOf(int64_t group, int64_t at) { return states_[group * rows_ + at]; }

  const AttentionPlan& plan_;
  const AttentionRow& row_;
  const MaskRule& rule_;
  const int64_t head_, begin_, end_, rows_, tileRows_;
  int64_t width_ = 0, tileKeys_ = 0, stride_ = 0;
  bool plainPast_ = false, plainQueries_ = false;
  const float *newKeys_ = nullptr,
              *newValues_ = nullptr;  // of the first new token, if they are as the formulas have them
  float *keys_ = nullptr, *values_ = nullptr, *queries_ = nullptr, *scores_ = nullptr, *sums_ = nullptr,
        *room_ = nullptr;
  RowState* states_ = nullptr;
};

void BlockedQueries::reserve() {
  const int64_t size = plan_.size;
  width_ = wholeBlocks(size);
  tileKeys_ = std::min(kKeyTile, wholeBlocks(row_.keys));
  stride_ = tileKeys_ + kBlock;  // not a power of two: rows of a tile would share a set of the cache
  const int64_t parts[] = {tileKeys_ * size,    width_ * tileKeys_,           tileRows_ * wholeBlocks(size),
                           tileRows_ * stride_, plan_.group * rows_ * width_, kBlock * wholeBlocks(size)};
  int64_t total = 2 * plan_.group * rows_;
  for (int64_t part : parts) total += part;
  float* at = threadScratch(total);
  float** to[] = {&keys_, &values_, &queries_, &scores_, &sums_, &room_};
  for (size_t i = 0; i < std::size(parts); ++i) {
    *to[i] = at;
    at += parts[i];
  }
  states_ = reinterpret_cast<RowState*>(at);
  std::fill_n(states_, plan_.group * rows_, RowState{kNothing, 0});
  std::fill_n(sums_, plan_.group * rows_ * width_, 0.0f);
  const bool plainCache = !plan_.cache.data || plan_.cache.format.storage == ValueStorage::F32;
  const bool floats = plan_.k.storage == ValueStorage::F32;
  plainPast_ = plainCache && !plan_.shift;
  const int64_t first = plan_.newToken(row_, row_.past);
  if (floats && plainCache && !plan_.kBias && plan_.rotaryDim == 0)
    newKeys_ = reinterpret_cast<const float*>(plan_.k.at(first, head_));
  if (floats && plainCache && !plan_.vBias) newValues_ = reinterpret_cast<const float*>(plan_.v.at(first, head_));
  plainQueries_ = plan_.q.storage == ValueStorage::F32 && !plan_.qBias && plan_.rotaryDim == 0 && plan_.logn.empty();
}

const float* BlockedQueries::keyRow(int64_t key, float* room) const {
  if (plan_.readsCache(row_, key)) {
    if (plainPast_)
      return reinterpret_cast<const float*>(
          plan_.cache.at(row_.source.rowOf(key), false, head_, plan_.cache.slots.at(key)));
    plan_.pastKey(row_, key, head_, plan_.shift ? plan_.shiftAngles + key * plan_.rotaryDim : nullptr, room);
    return room;
  }
  if (newKeys_) return newKeys_ + (key - row_.past) * plan_.k.tokenStride;
  plan_.newKey(row_, key, head_, room);
  return room;
}

const float* BlockedQueries::valueRow(int64_t key, float* room) const {
  if (plan_.readsCache(row_, key)) {
    if (plan_.cache.format.storage == ValueStorage::F32)
      return reinterpret_cast<const float*>(
          plan_.cache.at(row_.source.rowOf(key), true, head_, plan_.cache.slots.at(key)));
    plan_.pastValue(row_, key, head_, room);
    return room;
  }
  if (newValues_) return newValues_ + (key - row_.past) * plan_.v.tokenStride;
  plan_.newValue(row_, key, head_, room);
  return room;
}

void BlockedQueries::packTile(int64_t first, int64_t last) {
  const int64_t size = plan_.size, count = last - first;
  for (int64_t key = 0; key < count; key += kBlock) {
    const float* rows[kBlock] = {};
    for (int64_t r = 0; r < kBlock; ++r)
      rows[r] = key + r < count ? keyRow(first + key + r, room_ + r * wholeBlocks(size)) : rows[0];
    packKeys(rows, size, keys_ + key * size);
    for (int64_t r = 0; r < std::min<int64_t>(kBlock, count - key); ++r)
      packValue(valueRow(first + key + r, room_), size, tileKeys_, key + r, values_);
  }
}

// The logits of query `at` on keys first + [from, to), of which there are `count`, become weights.
void BlockedQueries::weigh(int64_t group, int64_t at, int64_t first, int64_t count, int64_t from, int64_t to,
                           float* scores) {
  const int64_t i = begin_ + at, head = head_ * plan_.group + group;
  const VisibleKeys seen = visibleKeys(rule_, row_.mask, i);
  const int64_t begin = std::clamp(seen.sinks > first ? from : seen.begin - first, from, to);
  const int64_t end = std::clamp(std::max(seen.end, seen.sinks) - first, begin, std::max(begin, count));
  std::fill(scores + from, scores + begin, 0.0f);
  std::fill(scores + end, scores + to, 0.0f);
  const float scale = finishLogits(plan_, head, row_.position(i), first + begin, end - begin, scores + begin);
  if (seen.sinks > first && seen.sinks < seen.begin)
    std::fill(scores + std::min(end, seen.sinks - first), scores + std::min(end, seen.begin - first), kNothing);
  for (int64_t j = begin; j < end && !seen.exact; ++j)
    if (!isVisible(rule_, row_.mask, head, i, first + j)) scores[j] = kNothing;
  const float earlier = takeIn(scores + begin, end - begin, scale, stateOf(group, at));
  if (earlier != 1) scaleRow(sumsOf(group, at), width_, earlier, sumsOf(group, at));
}

void BlockedQueries::attendQueries(int64_t group, int64_t at, int64_t first, int64_t last) {
  const int64_t rows = std::min(tileRows_, rows_ - at), head = head_ * plan_.group + group;
  const VisibleKeys low = visibleKeys(rule_, row_.mask, begin_ + at);
  const VisibleKeys high = visibleKeys(rule_, row_.mask, begin_ + at + rows - 1);
  const int64_t from = low.sinks > first || low.begin <= first ? 0 : (low.begin - first) / kBlock * kBlock;
  const int64_t seen = std::min(last, std::max({high.end, high.sinks, low.end})) - first, to = wholeBlocks(seen);
  if (from >= to) return;
  const int64_t step = 0;
  const RowTile tile{0, 0, static_cast<int>(rows)};
  Product p{};
  p.steps = &step;
  p.stepCount = 1;
  p.cPanel = kBlock;
  p.paddedColumns = true;
  p.depth = plan_.size;
  if (plainQueries_) {
    p.a = reinterpret_cast<const float*>(plan_.q.at(row_.firstToken + begin_ + at, head));
    p.rowStride = plan_.q.tokenStride;
  } else {
    for (int64_t r = 0; r < rows; ++r) plan_.query(row_, begin_ + at + r, head, queries_ + r * plan_.size);
    p.a = queries_;
    p.rowStride = plan_.size;
  }
  p.b = keys_;
  p.columns = to;
  p.c = scores_;
  p.cRow = stride_;
  runTiles(p, &tile, 1, from / kBlock, to / kBlock);
  for (int64_t r = 0; r < rows; ++r) weigh(group, at + r, first, last - first, from, to, scores_ + r * stride_);
  p.a = scores_ + from;
  p.rowStride = stride_;
  p.depth = seen - from;
  p.columns = kBlock;
  p.cRow = width_;
  // The panels are as deep as the tile: each is entered at the first key seen.
  for (int64_t panel = 0; panel < width_; panel += kBlock) {
    p.b = values_ + panel * tileKeys_ + from * kBlock;
    p.c = sumsOf(group, at) + panel;
    p.epilogue.residual = p.c;
    runTiles(p, &tile, 1, 0, 1);
  }
}

void BlockedQueries::attendTile(int64_t first, int64_t last) {
  packTile(first, last);
  for (int64_t g = 0; g < plan_.group; ++g)
    for (int64_t at = 0; at < rows_; at += tileRows_) attendQueries(g, at, first, last);
}

void BlockedQueries::run(bool store) {
  if (rows_ == 0) return;
  reserve();
  const VisibleKeys low = visibleKeys(rule_, row_.mask, begin_), high = visibleKeys(rule_, row_.mask, end_ - 1);
  // Between the sinks and the first key of the window there may be tokens that the cache has lost.
  for (int64_t key = 0; key < std::min(low.sinks, low.begin); key += kKeyTile)
    attendTile(key, std::min({key + kKeyTile, low.sinks, low.begin}));
  for (int64_t key = low.begin; key < high.end; key += kKeyTile) attendTile(key, std::min(key + kKeyTile, high.end));
  for (int64_t g = 0; g < plan_.group; ++g)
    for (int64_t at = 0; at < rows_; ++at)
      finishRow(plan_, row_, begin_ + at, head_ * plan_.group + g, stateOf(g, at), sumsOf(g, at));
  if (store) plan_.store(row_, head_, room_);
}

void attendBlocked(const AttentionPlan& plan, const AttentionTask& task, int64_t tileRows, bool store) {
  BlockedQueries(plan, task, tileRows).run(store);
}

// ---- one query

// scores[j] = q . rows[j]; up to 16 scores past the last are written.
void dotRows(const float* q, const float* rows, int64_t stride, int64_t count, int64_t size, float* scores) {
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

void weightRows(const float* weights, const float* rows, int64_t stride, int64_t count, int64_t size, float* out) {
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
void SingleQuery::forRuns(bool values, Body&& body) {
  const KvCache& cache = plan_.cache;
  const bool rotated = plan_.shift && !values;
  const bool plain = cache.format.storage == ValueStorage::F32 && !rotated;
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

void SingleQuery::run() {
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

void SingleQuery::weigh(int64_t group, float* scores, RowState& state) const {
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

void attendSingle(const AttentionPlan& plan, const AttentionTask& task) { SingleQuery(plan, task).run(); }

// Parts of a split row, in order -> its result.
void mergeParts(const AttentionPlan& plan, const AttentionTask* tasks, int64_t count) {
  const int64_t size = plan.size;
  float* sums = threadScratch(size);
  for (int64_t g = 0; g < plan.group; ++g) {
    RowState state{kNothing, 0};
    std::fill_n(sums, size, 0.0f);
    for (int64_t t = 0; t < count; ++t) {
      const float* partial = tasks[t].partial + g * (size + 2);
      if (partial[0] == kNothing) continue;
      const float largest = std::max(state.largest, partial[0]);
      const float before = state.largest == kNothing ? 0 : std::exp(state.largest - largest);
      const float now = std::exp(partial[0] - largest);
      state.sum = state.sum * before + partial[1] * now;
      for (int64_t i = 0; i < size; ++i) sums[i] = sums[i] * before + partial[2 + i] * now;
      state.largest = largest;
    }
    finishRow(plan, *tasks[0].row, 0, tasks[0].head * plan.group + g, state, sums);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

bool isSingle(const AttentionPlan& plan, const AttentionRow& row) {
  if (row.tokens != 1 || !plan.cache.data) return false;
  // What a context row sees may be lost once its own token is stored, or lies elsewhere.
  return !row.context || (!plan.shift && !plan.cross && !plan.cache.slots.wraps(row.keys));
}

struct Work {
  std::vector<AttentionTask> tasks;
  std::vector<float> partials;
  double cost = 0;  // microseconds, about
};

int64_t keysSeen(const AttentionPlan& plan, const AttentionRow& row) {
  const VisibleKeys seen = visibleKeys(plan.maskOf(row), row.mask, 0);
  return std::min(seen.sinks, seen.begin) + std::max<int64_t>(0, seen.end - seen.begin);
}

// By shapes alone, so that results do not depend on the number of threads.
Work divide(const AttentionPlan& plan) {
  Work work;
  const int64_t pairs = static_cast<int64_t>(plan.rows.size()) * plan.kvHeads;
  const int64_t chunk = pairs >= 8 ? 4096 : 256;
  int64_t parts = 0;
  for (const AttentionRow& row : plan.rows)
    for (int64_t head = 0; head < plan.kvHeads; ++head) {
      const double width = 4e-5 * static_cast<double>(plan.group * plan.size);
      if (isSingle(plan, row)) {
        const int64_t keys = keysSeen(plan, row), pieces = std::max<int64_t>(1, (keys + chunk - 1) / chunk);
        work.cost += width * static_cast<double>(keys);
        for (int64_t i = 0; i < pieces; ++i) {
          const Piece piece = pieceOf(keys, pieces, i);
          work.tasks.push_back({&row, head, piece.begin, piece.end, true, i == pieces - 1, nullptr});
        }
        if (pieces > 1) parts += pieces;
      } else {
        const int64_t pieces =
            pairs >= 8 ? 1 : std::clamp<int64_t>(row.tokens * plan.group / 112, 1, std::max<int64_t>(1, row.tokens));
        work.cost += width * static_cast<double>(row.tokens) * static_cast<double>(row.keys);
        for (int64_t i = 0; i < pieces; ++i) {
          const Piece piece = pieceOf(row.tokens, pieces, i);
          work.tasks.push_back({&row, head, piece.begin, piece.end, false, i == 0, nullptr});
        }
      }
    }
  if (parts == 0) return work;
  const int64_t floats = plan.group * (plan.size + 2);
  work.partials.resize(static_cast<size_t>(parts * floats));
  float* at = work.partials.data();
  for (AttentionTask& task : work.tasks)
    if (task.single && !(task.begin == 0 && task.last)) {
      task.partial = at;
      at += floats;
    }
  return work;
}

}  // namespace

void runAttention(const AttentionPlan& plan, int threads) {
  for (const AttentionRow& row : plan.rows)
    for (int64_t t = plan.skip ? 0 : row.tokens; t < (plan.packed ? row.tokens : plan.q.perBatch); ++t)
      plan.clear(row.firstToken + t);
  if (plan.skip) return;
  const Work work = divide(plan);
  const int64_t count = static_cast<int64_t>(work.tasks.size());
  const int64_t tileRows = maxTileRows();
  auto blocked = TS_SIMD(attendBlocked);
  auto single = TS_SIMD(attendSingle);
  // What is in the ring may be read by another piece of the row: it is overwritten when all are done.
  auto isLate = [&](const AttentionRow& row) { return row.past > 0 && plan.cache.slots.wraps(row.keys); };
  bool late = false;
  for (const AttentionTask& task : work.tasks) late |= !task.single && isLate(*task.row);
  const int most = work.cost < 20 ? 1 : threads;
  parallelFor(count, most, [&](int64_t i) {
    const AttentionTask& task = work.tasks[static_cast<size_t>(i)];
    task.single ? single(plan, task) : blocked(plan, task, tileRows, task.last && !isLate(*task.row));
  });
  if (late)
    parallelFor(count, most, [&](int64_t i) {
      const AttentionTask& task = work.tasks[static_cast<size_t>(i)];
      if (!task.single && task.last && isLate(*task.row)) plan.store(*task.row, task.head, threadScratch(plan.size));
    });
  if (work.partials.empty()) return;
  auto merge = TS_SIMD(mergeParts);
  for (int64_t i = 0; i < count;) {
    int64_t end = i + 1;
    while (end < count && work.tasks[static_cast<size_t>(end)].row == work.tasks[static_cast<size_t>(i)].row &&
           work.tasks[static_cast<size_t>(end)].head == work.tasks[static_cast<size_t>(i)].head)
      ++end;
    if (work.tasks[static_cast<size_t>(i)].partial) merge(plan, &work.tasks[static_cast<size_t>(i)], end - i);
    i = end;
  }
}

}  // namespace tscompile
#endif
