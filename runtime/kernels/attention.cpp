// Exact attention in tiles with the running softmax of Milakov and Gimelshein (2018), as FlashAttention does (Dao et
// al. 2022). One pair (batch, head) and some of its queries at a time: a block of keys and values is packed into
// panels, then tiles of queries go through scores, softmax and the product with the values while their scores stay in
// cache. Weights are relative to the largest score so far; a later block that has a larger one scales what was summed
// before. A few queries alone, as in decoding, read keys and values where they are.
#include "runtime/kernels/attention.h"

#include "ir/support/small_vector.h"
#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/line_product.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tscompile {
namespace {

#ifndef TSCOMPILE_ATTENTION_PAIR
#define TSCOMPILE_ATTENTION_PAIR
// Where one pair's matrices are.
struct AttentionPair {
  const float *q, *k, *v;
  int64_t qRow, qColumn, kRow, kColumn, vRow, vColumn;
  ScoreMask mask;
  float* out;
  int64_t outRow;
};

// Of one query, over the keys so far.
struct RunningSoftmax {
  float largest = -std::numeric_limits<float>::infinity();  // score
  float sum = 0;                                            // of the weights relative to it
};

constexpr int64_t kKeyBlock = 512;  // its panels and the scores of a tile stay in the second level of cache
#endif

}  // namespace
}  // namespace tscompile

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/attention.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/panels-inl.h"
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// scores = hidden where flags are `hides`.
void hideRow(const bool* flags, int64_t column, bool hides, float hidden, int64_t count, float* scores) {
  const hn::ScalableTag<float> d;
  const hn::RebindToUnsigned<decltype(d)> d32;
  const hn::Rebind<uint8_t, decltype(d)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto filling = hn::Set(d, hidden);
  int64_t j = 0;
  for (; column == 1 && j + lanes <= count; j += lanes) {
    const auto unset = hn::RebindMask(
        d, hn::Eq(hn::PromoteTo(d32, hn::LoadU(d8, reinterpret_cast<const uint8_t*>(flags) + j)), hn::Zero(d32)));
    const auto x = hn::LoadU(d, scores + j);
    hn::StoreU(hides ? hn::IfThenElse(unset, x, filling) : hn::IfThenElse(unset, filling, x), d, scores + j);
  }
  for (; j < count; ++j)
    if (flags[j * column] == hides) scores[j] = hidden;
}

void addRow(const float* added, int64_t column, int64_t count, float* scores) {
  if (column == 1)
    return mapRow(scores, scores, count, [&](auto, auto x, auto&& load) HWY_ATTR { return hn::Add(x, load(added)); });
  for (int64_t j = 0; j < count; ++j) scores[j] += added[j * column];
}

// What is added to scores and hidden of them in two passes or more, as masks may ask.
void maskRow(const ScoreMask& mask, int64_t query, int64_t first, int64_t seen, float* scores) {
  auto at = [&](const MaskStrides& m) { return query * m.row + first * m.column; };
  auto hide = [&](bool now) {
    if (mask.flags && now)
      hideRow(mask.flags + at(mask.flagsAt), mask.flagsAt.column, mask.hides, mask.hidden, seen, scores);
  };
  hide(!mask.flagsLast);
  for (int i = 0; i < ScoreMask::kMostAdded; ++i)
    if (mask.added[i]) addRow(mask.added[i] + at(mask.addedAt[i]), mask.addedAt[i].column, seen, scores);
  hide(mask.flagsLast);
}

// Adds rows, which may be null, to scores; those from `seen` to the end of a vector become -inf. Returns the largest.
// Whole vectors are stored, as parts of them would hold up who reads them next.
HWY_INLINE float addAndFindLargest(const float* first, const float* second, int64_t seen, float* scores) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto low = hn::Set(d, -std::numeric_limits<float>::infinity());
  auto a = low, b = low;
  auto sumAt = [&](int64_t j) HWY_ATTR {
    auto x = hn::LoadU(d, scores + j);
    if (first) x = hn::Add(x, hn::LoadU(d, first + j));
    if (second) x = hn::Add(x, hn::LoadU(d, second + j));
    if (first || second) hn::StoreU(x, d, scores + j);
    return x;
  };
  int64_t j = 0;
  for (; j + 2 * lanes <= seen; j += 2 * lanes) {
    a = hn::Max(a, sumAt(j));
    b = hn::Max(b, sumAt(j + lanes));
  }
  if (j + lanes <= seen) a = hn::Max(a, sumAt(j)), j += lanes;
  if (j < seen) {
    const auto there = hn::FirstN(d, static_cast<size_t>(seen - j));
    auto x = hn::LoadU(d, scores + j);
    if (first) x = hn::Add(x, hn::MaskedLoad(there, d, first + j));
    if (second) x = hn::Add(x, hn::MaskedLoad(there, d, second + j));
    x = hn::IfThenElse(there, x, low);
    hn::StoreU(x, d, scores + j);
    b = hn::Max(b, x);
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

// Scores of one query on keys [first, first + seen) -> weights, with zeros from `seen` to `padded` and to the end of a
// vector at least. Returns what weights of earlier keys are worth now.
float weigh(const ScoreMask& mask, int64_t query, int64_t first, int64_t seen, int64_t padded, float* scores,
            RunningSoftmax& running) {
  bool isPlain = !mask.flags;
  const float* rows[ScoreMask::kMostAdded] = {};
  for (int i = 0; i < ScoreMask::kMostAdded; ++i) {
    if (!mask.added[i]) continue;
    const MaskStrides& m = mask.addedAt[i];
    isPlain &= m.column == 1;
    rows[i] = mask.added[i] + query * m.row + first;
  }
  if (!isPlain) maskRow(mask, query, first, seen, scores);
  const float largest = std::max(
      running.largest, addAndFindLargest(isPlain ? rows[0] : nullptr, isPlain ? rows[1] : nullptr, seen, scores));
  // Where no key is seen yet, all weights are zero, whatever they are relative to.
  const float base = std::isinf(largest) && largest < 0 ? 0.0f : largest;
  const hn::ScalableTag<float> d0;
  const auto shift = hn::Set(d0, base);
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d0)), whole = (seen + lanes - 1) / lanes * lanes;
  const float sum =
      mapAndSum(scores, scores, whole, [&](auto d, auto x) HWY_ATTR { return expOfNegative(d, hn::Sub(x, shift)); });
  std::fill(scores + whole, scores + std::max(whole, padded), 0.0f);
  const float factor = largest == running.largest ? 1.0f : first == 0 ? 0.0f : std::exp(running.largest - base);
  running = {largest, running.sum * factor + sum};
  return factor;
}

HWY_INLINE void scaleRow(float* row, int64_t count, float factor) {
  const hn::ScalableTag<float> d0;
  const auto scale = hn::Set(d0, factor);
  mapRow(row, row, count, [&](auto, auto x, auto&&) HWY_ATTR { return hn::Mul(x, scale); });
}

// The sum of weighted values -> their mean.
void finishRow(const AttentionShape& s, const RunningSoftmax& running, float* out) {
  // A sum of zero: no key was seen.
  scaleRow(out, s.valueDepth, running.sum == 0 && s.hiddenGivesZero ? 0.0f : 1.0f / running.sum);
}

HWY_INLINE float dot(const float* a, const float* b, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) sum = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), sum);
  float result = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) result += a[i] * b[i];
  return result;
}

// out = weights * rows, four rows at a time.
HWY_INLINE void weightedSum(const float* weights, const float* rows, int64_t stride, int64_t count, int64_t width,
                            float* out) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  std::fill_n(out, width, 0.0f);
  for (int64_t j = 0; j < count; j += 4) {
    const int64_t some = std::min<int64_t>(4, count - j);
    const float* row = rows + j * stride;
    int64_t i = 0;
    for (; i + lanes <= width && some == 4; i += lanes) {
      auto sum = hn::LoadU(d, out + i);
      for (int64_t r = 0; r < 4; ++r)
        sum = hn::MulAdd(hn::Set(d, weights[j + r]), hn::LoadU(d, row + r * stride + i), sum);
      hn::StoreU(sum, d, out + i);
    }
    for (; i < width; ++i)
      for (int64_t r = 0; r < some; ++r) out[i] += weights[j + r] * row[r * stride + i];
  }
}

int64_t keysSeen(const AttentionShape& s, int64_t query) { return s.causal ? std::min(s.keys, query + 1) : s.keys; }

// A few queries on keys and values with contiguous rows.
void attendFew(const AttentionShape& s, const AttentionPair& p, int64_t begin, int64_t end) {
  float* scores = threadScratch(roundToBlock(s.keys));
  for (int64_t i = begin; i < end; ++i) {
    const int64_t seen = keysSeen(s, i);
    for (int64_t j = 0; j < seen; ++j) scores[j] = s.scale * dot(p.q + i * p.qRow, p.k + j * p.kRow, s.depth);
    RunningSoftmax running;
    weigh(p.mask, i, 0, seen, seen, scores, running);
    float* out = p.out + i * p.outRow;
    weightedSum(scores, p.v, p.vRow, seen, s.valueDepth, out);
    finishRow(s, running, out);
  }
}

// out (+)= weights * values of a block of `count` keys, of which the first `seen` count.
void addValues(const float* weights, int64_t stride, int64_t rows, const float* panels, int64_t count, int64_t seen,
               int64_t width, float* out, int64_t outRow, bool adds) {
  if (seen == count) return multiplyRows(weights, stride, rows, panels, count, width, out, outRow, false, adds);
  // Panels are `count` deep: with fewer keys each is entered anew.
  for (int64_t column = 0; column < width; column += kBlock)
    multiplyRows(weights, stride, rows, panels + column * count, seen, std::min<int64_t>(kBlock, width - column),
                 out + column, outRow, false, adds);
}

void attendMany(const AttentionShape& s, const AttentionPair& p, int64_t begin, int64_t end) {
  const int64_t keys = keysSeen(s, end - 1), block = std::min(keys, kKeyBlock), padded = roundToBlock(block);
  const int64_t stride = padded + kBlock;  // not a power of two: rows of a tile would share a set of the cache
  const int64_t keyFloats = padded * s.depth, valueFloats = roundToBlock(s.valueDepth) * block;
  const int64_t queryFloats = p.qColumn == 1 ? 0 : kTileRows * roundToBlock(s.depth);
  const int64_t runningFloats = (end - begin) * static_cast<int64_t>(sizeof(RunningSoftmax) / sizeof(float));
  float* keyPanels = threadScratch(keyFloats + valueFloats + queryFloats + kTileRows * stride + runningFloats);
  float* valuePanels = keyPanels + keyFloats;
  float* queries = valuePanels + valueFloats;
  float* scores = queries + queryFloats;
  auto* running = reinterpret_cast<RunningSoftmax*>(scores + kTileRows * stride);
  std::fill_n(running, end - begin, RunningSoftmax());
  for (int64_t first = 0; first < keys; first += block) {
    const int64_t count = std::min(block, keys - first);
    packPanels(p.k + first * p.kRow, p.kColumn, p.kRow, s.depth, count, s.scale, keyPanels);
    packPanels(p.v + first * p.vRow, p.vRow, p.vColumn, count, s.valueDepth, 1.0f, valuePanels);
    for (int64_t i = begin; i < end; i += kTileRows) {
      const int64_t rows = std::min<int64_t>(kTileRows, end - i), all = keysSeen(s, i + rows - 1);
      const int64_t seen = std::min(count, all - first);
      if (seen <= 0) continue;
      const float* q = p.q + i * p.qRow;
      int64_t qRow = p.qRow;
      if (p.qColumn != 1) {
        for (int64_t r = 0; r < rows; ++r)
          for (int64_t d = 0; d < s.depth; ++d) queries[r * s.depth + d] = q[r * p.qRow + d * p.qColumn];
        q = queries;
        qRow = s.depth;
      }
      multiplyRows(q, qRow, rows, keyPanels, s.depth, seen, scores, stride, true);
      float* out = p.out + i * p.outRow;
      for (int64_t r = 0; r < rows; ++r) {
        const int64_t own = std::clamp<int64_t>(keysSeen(s, i + r) - first, 0, seen);
        const float factor = weigh(p.mask, i + r, first, own, seen, scores + r * stride, running[i - begin + r]);
        if (first > 0 && factor != 1) scaleRow(out + r * p.outRow, s.valueDepth, factor);
      }
      addValues(scores, stride, rows, valuePanels, count, seen, s.valueDepth, out, p.outRow, first > 0);
      if (all <= first + count)
        for (int64_t r = 0; r < rows; ++r) finishRow(s, running[i - begin + r], out + r * p.outRow);
    }
  }
}

// Memory of attention in bf16 for up to kRowTiles tiles of queries and a block of keys.
struct RoundedScratch {
  static constexpr int64_t kRowTiles = 4;
  static constexpr int64_t kLineFloats = static_cast<int64_t>(sizeof(CacheLine) / sizeof(float));
  int64_t tileRows, depthLines, keyLines, keyPanels, valuePanels, stride;
  CacheLine *keys, *values, *column, *queries, *weights;
  float *scores, *query;
  RunningSoftmax* running;

  RoundedScratch(const AttentionShape& s, int64_t block, int64_t rows)
      : tileRows(maxLineRows()),
        depthLines(linesOf(s.depth, WeightStorage::BF16)),
        keyLines(linesOf(block, WeightStorage::BF16)),
        keyPanels(2 * keyLines),
        valuePanels((s.valueDepth + kBlock - 1) / kBlock),
        stride(keyPanels * kBlock + kBlock) {
    // A tile reads as many rows as there can be.
    const int64_t most = kRowTiles * tileRows + kBlock;
    const int64_t lines = keyPanels * depthLines * kBlock + valuePanels * keyLines * kBlock + kBlock * depthLines +
                          most * (depthLines + keyLines) + 1;
    const int64_t runningFloats = rows * static_cast<int64_t>(sizeof(RunningSoftmax) / sizeof(float));
    float* floats =
        threadScratch(lines * kLineFloats + kRowTiles * tileRows * stride + depthLines * 2 * kBlock + runningFloats);
    const auto at = reinterpret_cast<uintptr_t>(floats), aligned = (at + sizeof(CacheLine) - 1) / sizeof(CacheLine);
    keys = reinterpret_cast<CacheLine*>(aligned * sizeof(CacheLine));
    values = keys + keyPanels * depthLines * kBlock;
    column = values + valuePanels * keyLines * kBlock;
    queries = column + kBlock * depthLines;
    weights = queries + most * depthLines;
    scores = reinterpret_cast<float*>(weights + most * keyLines);
    query = scores + kRowTiles * tileRows * stride;
    running = reinterpret_cast<RunningSoftmax*>(query + depthLines * 2 * kBlock);
    std::fill_n(running, rows, RunningSoftmax());
  }

  // `count` keys and values from `first` on, as right sides of the two products.
  void pack(const AttentionShape& s, const AttentionPair& p, int64_t first, int64_t count) const {
    constexpr int64_t kStepRows = lineDepth(WeightStorage::BF16);
    for (int64_t panel = 0; panel < keyPanels; ++panel) {
      const int64_t begin = panel * kBlock, there = std::clamp<int64_t>(count - begin, 0, kBlock);
      for (int64_t i = 0; i < there; ++i)
        toLines(p.k + (first + begin + i) * p.kRow, s.depth, {WeightStorage::BF16}, column + i * depthLines, 1);
      for (int64_t step = 0; step < depthLines; ++step)
        columnsToStep(column + step, depthLines, there, keys + (panel * depthLines + step) * kBlock);
    }
    for (int64_t panel = 0; panel < valuePanels; ++panel)
      for (int64_t step = 0; step < keyLines; ++step)
        rowsToStep(p.v + (first + step * kStepRows) * p.vRow + panel * kBlock, p.vRow,
                   std::min(kStepRows, count - step * kStepRows),
                   std::min<int64_t>(kBlock, s.valueDepth - panel * kBlock),
                   values + (panel * keyLines + step) * kBlock);
  }

  // Rows of lines, tile by tile: step by step of a tile's rows.
  void putQuery(const AttentionShape& s, const float* from, int64_t row) const {
    for (int64_t d = 0; d < s.depth; ++d) query[d] = from[d] * s.scale;
    toLines(query, s.depth, {WeightStorage::BF16}, queries + lineOf(row, depthLines), tileRows);
  }
  void putWeights(int64_t row) const {
    toLines(scores + row * stride, keyPanels * kBlock, {WeightStorage::BF16}, weights + lineOf(row, keyLines),
            tileRows);
  }
  int64_t lineOf(int64_t row, int64_t lines) const { return row / tileRows * lines * tileRows + row % tileRows; }

  // c = rows of lines * b, plus what is there already if it `adds`.
  void multiply(const CacheLine* lines, int64_t rows, int64_t steps, const CacheLine* b, int64_t columns, float* c,
                int64_t cRow, bool adds) const {
    constexpr int64_t kMostSteps = 64;
    Product p{};
    int64_t at[kMostSteps];
    SmallVector<int64_t, 1> more;
    int64_t* stepAt = at;
    if (steps > kMostSteps) {
      more.resize(static_cast<size_t>(steps));
      stepAt = more.data();
    }
    for (int64_t i = 0; i < steps; ++i) stepAt[i] = i * tileRows;
    p.lines = lines;
    p.rowStride = 1;
    p.steps = stepAt;
    p.stepCount = steps;
    p.depth = lineDepth(WeightStorage::BF16);
    p.b = b;
    p.storage = WeightStorage::BF16;
    p.columns = columns;
    p.c = c;
    p.cRow = cRow;
    p.cPanel = kBlock;
    p.epilogue.residual = adds ? c : nullptr;
    RowTile tiles[kRowTiles];
    const int64_t count = (rows + tileRows - 1) / tileRows;
    for (int64_t i = 0; i < count; ++i)
      tiles[i] = {i * steps * tileRows, i * tileRows * cRow, static_cast<int>(std::min(tileRows, rows - i * tileRows))};
    runTiles(p, tiles, count, 0, (columns + kBlock - 1) / kBlock);
  }
};

// As attendMany, with products of bf16. Rows of queries, keys and values are contiguous.
void attendRounded(const AttentionShape& s, const AttentionPair& p, int64_t begin, int64_t end) {
  const int64_t keys = keysSeen(s, end - 1), block = std::min(keys, kKeyBlock);
  const RoundedScratch r(s, block, end - begin);
  for (int64_t first = 0; first < keys; first += block) {
    const int64_t count = std::min(block, keys - first);
    r.pack(s, p, first, count);
    for (int64_t i = begin; i < end; i += RoundedScratch::kRowTiles * r.tileRows) {
      const int64_t rows = std::min(RoundedScratch::kRowTiles * r.tileRows, end - i), all = keysSeen(s, i + rows - 1);
      if (all <= first) continue;
      for (int64_t row = 0; row < rows; ++row) r.putQuery(s, p.q + (i + row) * p.qRow, row);
      r.multiply(r.queries, rows, r.depthLines, r.keys, r.keyPanels * kBlock, r.scores, r.stride, false);
      float* out = p.out + i * p.outRow;
      for (int64_t row = 0; row < rows; ++row) {
        const int64_t own = std::clamp<int64_t>(keysSeen(s, i + row) - first, 0, count);
        const float factor = weigh(p.mask, i + row, first, own, r.keyPanels * kBlock, r.scores + row * r.stride,
                                   r.running[i - begin + row]);
        if (first > 0 && factor != 1) scaleRow(out + row * p.outRow, s.valueDepth, factor);
        r.putWeights(row);
      }
      r.multiply(r.weights, rows, r.keyLines, r.values, s.valueDepth, out, p.outRow, first > 0);
      if (all <= first + count)
        for (int64_t row = 0; row < rows; ++row) finishRow(s, r.running[i - begin + row], out + row * p.outRow);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// Units of work are pairs, and pieces of their queries where pairs are few. Each packs the keys anew.
constexpr int64_t kUnits = 32, kLeastQueries = 112;

int64_t piecesOf(const AttentionShape& s, int64_t pairs) {
  return std::clamp<int64_t>(s.queries / kLeastQueries, 1, (kUnits + pairs - 1) / pairs);
}

ScoreMask at(ScoreMask mask, int64_t outer, int64_t inner) {
  if (mask.flags) mask.flags += mask.flagsAt.at(outer, inner);
  for (int i = 0; i < ScoreMask::kMostAdded; ++i)
    if (mask.added[i]) mask.added[i] += mask.addedAt[i].at(outer, inner);
  return mask;
}

}  // namespace

void attention(const AttentionShape& s, const BatchedMatrix& q, const BatchedMatrix& k, const BatchedMatrix& v,
               const ScoreMask& mask, float* out, int64_t outOuter, int64_t outInner, int64_t outRow, int threads) {
  const int64_t pairs = s.outer * s.inner;
  if (s.keys == 0)
    for (int64_t i = 0; i < pairs * s.queries; ++i)
      std::fill_n(
          out + i / s.queries / s.inner * outOuter + i / s.queries % s.inner * outInner + i % s.queries * outRow,
          s.valueDepth, 0.0f);
  if (s.keys == 0 || s.queries == 0 || pairs == 0) return;
  const bool few = s.queries <= 3 && q.column == 1 && k.column == 1 && v.column == 1;
  const bool rounded = s.rounds && !few && q.column == 1 && k.column == 1 && v.column == 1 && s.keys >= kBlock &&
                       hasLineProducts(WeightStorage::BF16);
  auto attend = few ? TS_SIMD(attendFew) : rounded ? TS_SIMD(attendRounded) : TS_SIMD(attendMany);
  const double cost =
      2e-5 * static_cast<double>(pairs * s.queries) * static_cast<double>(s.keys * (s.depth + s.valueDepth + 20));
  const int64_t pieces = piecesOf(s, pairs);
  parallelFor(pairs * pieces, threadsWorth(cost, threads), [&](int64_t i) {
    const int64_t o = i / pieces / s.inner, head = i / pieces % s.inner, keyHead = head / s.headsPerKey;
    Piece rows = pieceOf(s.queries, pieces, i % pieces);
    attend(s,
           {q.at(o, head), k.at(o, keyHead), v.at(o, keyHead), q.row, q.column, k.row, k.column, v.row, v.column,
            at(mask, o, head), out + o * outOuter + head * outInner, outRow},
           rows.begin, rows.end);
  });
}

}  // namespace tscompile
#endif
