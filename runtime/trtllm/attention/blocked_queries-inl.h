// Many queries of a sequence: tiles of queries go over tiles of packed keys and values. Included once per instruction
// set.
#if defined(TSCOMPILE_BLOCKED_QUERIES_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_BLOCKED_QUERIES_INL_H_
#undef TSCOMPILE_BLOCKED_QUERIES_INL_H_
#else
#define TSCOMPILE_BLOCKED_QUERIES_INL_H_
#endif

#include "runtime/call/scratch.h"
#include "runtime/kernels/product.h"
#include "runtime/trtllm/attention/weights-inl.h"

#include <cstring>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// Rows of 16 keys -> a panel [size][16].
inline void packKeys(const float* const* rows, int64_t size, float* to) {
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
  void addValues(int64_t group, int64_t at, const RowTile& tile, int64_t from, int64_t seen);
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

inline void BlockedQueries::reserve() {
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
  const bool plainCache = !plan_.cache.data || plan_.cache.format.storage == DType::Float32;
  const bool floats = plan_.k.storage == DType::Float32;
  plainPast_ = plainCache && !plan_.shift;
  const int64_t first = plan_.newToken(row_, row_.past);
  if (floats && plainCache && !plan_.kBias && plan_.rotaryDim == 0)
    newKeys_ = reinterpret_cast<const float*>(plan_.k.at(first, head_));
  if (floats && plainCache && !plan_.vBias) newValues_ = reinterpret_cast<const float*>(plan_.v.at(first, head_));
  plainQueries_ = plan_.q.storage == DType::Float32 && !plan_.qBias && plan_.rotaryDim == 0 && plan_.logn.empty();
}

inline const float* BlockedQueries::keyRow(int64_t key, float* room) const {
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

inline const float* BlockedQueries::valueRow(int64_t key, float* room) const {
  if (plan_.readsCache(row_, key)) {
    if (plan_.cache.format.storage == DType::Float32)
      return reinterpret_cast<const float*>(
          plan_.cache.at(row_.source.rowOf(key), true, head_, plan_.cache.slots.at(key)));
    plan_.pastValue(row_, key, head_, room);
    return room;
  }
  if (newValues_) return newValues_ + (key - row_.past) * plan_.v.tokenStride;
  plan_.newValue(row_, key, head_, room);
  return room;
}

inline void BlockedQueries::packTile(int64_t first, int64_t last) {
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
inline void BlockedQueries::weigh(int64_t group, int64_t at, int64_t first, int64_t count, int64_t from, int64_t to,
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

inline void BlockedQueries::attendQueries(int64_t group, int64_t at, int64_t first, int64_t last) {
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
  addValues(group, at, tile, from, seen);
}

// Weights of keys [from, seen) of the tile times their values.
inline void BlockedQueries::addValues(int64_t group, int64_t at, const RowTile& tile, int64_t from, int64_t seen) {
  const int64_t step = 0;
  Product p{};
  p.steps = &step;
  p.stepCount = 1;
  p.cPanel = kBlock;
  p.paddedColumns = true;
  p.a = scores_ + from;
  p.rowStride = stride_;
  p.depth = seen - from;
  p.cRow = width_;
  // The panels are as deep as the tile: if not all of it is seen, each is entered at the first key.
  const int64_t columns = p.depth == tileKeys_ ? width_ : kBlock;
  p.columns = columns;
  for (int64_t panel = 0; panel < width_; panel += columns) {
    p.b = values_ + panel * tileKeys_ + from * kBlock;
    p.c = sumsOf(group, at) + panel;
    p.epilogue.residual = p.c;
    runTiles(p, &tile, 1, 0, columns / kBlock);
  }
}

inline void BlockedQueries::attendTile(int64_t first, int64_t last) {
  packTile(first, last);
  for (int64_t g = 0; g < plan_.group; ++g)
    for (int64_t at = 0; at < rows_; at += tileRows_) attendQueries(g, at, first, last);
}

inline void BlockedQueries::run(bool store) {
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

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
