// Exact tiled attention. One pair (batch, head) at a time: keys and values are packed into panels once, then a tile of queries goes through
// scores, softmax and the product with the values while its scores stay in cache. A few queries alone, as in decoding,
// read keys and values where they are.
#include "runtime/kernels/attention.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace tscompile {
namespace {

#ifndef TSCOMPILE_ATTENTION_PAIR
#define TSCOMPILE_ATTENTION_PAIR
// Where one pair's matrices are.
struct AttentionPair {
  const float *q, *k, *v, *mask;
  int64_t qRow, qColumn, kRow, kColumn, vRow, vColumn, maskRow, maskColumn;
  float* out;
  int64_t outRow;
};
#endif

}  // namespace
}  // namespace tscompile

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/attention.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/product-inl.h"
#include "runtime/kernels/rows-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

HWY_INLINE int64_t roundToBlock(int64_t v) { return (v + kBlock - 1) / kBlock * kBlock; }

// Element [i, j] at b + i * row + j * column, k x n -> panels [n / 16][k][16] times alpha; zeros past n.
void packPanels(const float* b, int64_t row, int64_t column, int64_t k, int64_t n, float alpha, float* to) {
  for (int64_t panel = 0; panel < n; panel += kBlock) {
    const int64_t lanes = std::min<int64_t>(kBlock, n - panel);
    const float* from = b + panel * column;
    for (int64_t i = 0; i < k; ++i, to += kBlock) {
      if (lanes == kBlock && column == 1) {
        for (int64_t j = 0; j < kBlock; ++j) to[j] = alpha * from[i * row + j];
      } else if (lanes == kBlock) {
        for (int64_t j = 0; j < kBlock; ++j) to[j] = alpha * from[i * row + j * column];
      } else {
        for (int64_t j = 0; j < kBlock; ++j) to[j] = j < lanes ? alpha * from[i * row + j * column] : 0.0f;
      }
    }
  }
}

// C = A * packed B; rows of A are contiguous. Columns of C past n are written only if `padded`.
void multiplyRows(const float* a, int64_t aRow, int64_t m, const float* panels, int64_t k, int64_t n, float* c,
                  int64_t cRow, bool padded) {
  const int64_t step = 0;
  Product p{};
  p.a = a;
  p.rowStride = aRow;
  p.steps = &step;
  p.stepCount = 1;
  p.depth = k;
  p.b = panels;
  p.columns = n;
  p.c = c;
  p.cRow = cRow;
  p.cPanel = kBlock;
  p.paddedColumns = padded;
  for (int64_t r = 0; r < m; r += kTileRows) {
    RowTile tile{0, 0, static_cast<int>(std::min<int64_t>(kTileRows, m - r))};
    p.a = a + r * aRow;
    p.c = c + r * cRow;
    runProduct(p, &tile, 1, 0, roundToBlock(n) / kBlock);
  }
}

// Scores of one row -> weights: scaled, masked, zeros past the keys it sees.
void weigh(const AttentionShape& s, const float* mask, int64_t maskColumn, int64_t seen, int64_t padded,
           float* scores) {
  float scale = s.scale;
  if (mask || scale <= 0) {
    for (int64_t j = 0; j < seen; ++j) scores[j] = scores[j] * scale + (mask ? mask[j * maskColumn] : 0.0f);
    scale = 1;
  }
  softmaxRow(scores, scores, seen, scale);
  std::fill(scores + seen, scores + padded, 0.0f);
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

// out += weight * row, four rows at a time.
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
  float* scores = threadScratch(s.keys);
  for (int64_t i = begin; i < end; ++i) {
    const int64_t seen = keysSeen(s, i);
    for (int64_t j = 0; j < seen; ++j) scores[j] = dot(p.q + i * p.qRow, p.k + j * p.kRow, s.depth);
    weigh(s, p.mask ? p.mask + i * p.maskRow : nullptr, p.maskColumn, seen, seen, scores);
    weightedSum(scores, p.v, p.vRow, seen, s.valueDepth, p.out + i * p.outRow);
  }
}

void attendMany(const AttentionShape& s, const AttentionPair& p, int64_t begin, int64_t end) {
  const int64_t keys = keysSeen(s, end - 1), padded = roundToBlock(keys);
  const int64_t stride = padded + kBlock;  // not a power of two: rows of a tile would share a set of the cache
  const int64_t keyFloats = padded * s.depth, valueFloats = roundToBlock(s.valueDepth) * keys;
  const int64_t queryFloats = p.qColumn == 1 ? 0 : kTileRows * roundToBlock(s.depth);
  float* keyPanels = threadScratch(keyFloats + valueFloats + queryFloats + kTileRows * stride);
  float* valuePanels = keyPanels + keyFloats;
  float* queries = valuePanels + valueFloats;
  float* scores = queries + queryFloats;
  packPanels(p.k, p.kColumn, p.kRow, s.depth, keys, 1.0f, keyPanels);
  packPanels(p.v, p.vRow, p.vColumn, keys, s.valueDepth, 1.0f, valuePanels);
  for (int64_t i = begin; i < end; i += kTileRows) {
    const int64_t rows = std::min<int64_t>(kTileRows, end - i), seen = keysSeen(s, i + rows - 1);
    const float* q = p.q + i * p.qRow;
    int64_t qRow = p.qRow;
    if (p.qColumn != 1) {
      for (int64_t r = 0; r < rows; ++r)
        for (int64_t d = 0; d < s.depth; ++d) queries[r * s.depth + d] = q[r * p.qRow + d * p.qColumn];
      q = queries;
      qRow = s.depth;
    }
    multiplyRows(q, qRow, rows, keyPanels, s.depth, seen, scores, stride, true);
    for (int64_t r = 0; r < rows; ++r)
      weigh(s, p.mask ? p.mask + (i + r) * p.maskRow : nullptr, p.maskColumn, keysSeen(s, i + r), seen,
            scores + r * stride);
    float* out = p.out + i * p.outRow;
    if (seen == keys) {
      multiplyRows(scores, stride, rows, valuePanels, keys, s.valueDepth, out, p.outRow, false);
      continue;
    }
    // The panels of values are `keys` deep: with fewer keys seen each is entered anew.
    for (int64_t panel = 0; panel * kBlock < s.valueDepth; ++panel)
      multiplyRows(scores, stride, rows, valuePanels + panel * keys * kBlock, seen,
                   std::min<int64_t>(kBlock, s.valueDepth - panel * kBlock), out + panel * kBlock, p.outRow, false);
  }
}

void batchedPair(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t aRow, int64_t aColumn,
                 const float* b, int64_t bRow, int64_t bColumn, float* c, int64_t cRow) {
  const int64_t panelFloats = roundToBlock(n) * k;
  float* panels = threadScratch(panelFloats + (aColumn == 1 ? 0 : m * k));
  packPanels(b, bRow, bColumn, k, n, alpha, panels);
  if (aColumn != 1) {
    float* copy = panels + panelFloats;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) copy[i * k + j] = a[i * aRow + j * aColumn];
    a = copy;
    aRow = k;
  }
  multiplyRows(a, aRow, m, panels, k, n, c, cRow, false);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

const float* at(const BatchedMatrix& m, int64_t outer, int64_t inner) {
  return m.data ? m.data + outer * m.outerStride + inner * m.innerStride : nullptr;
}

}  // namespace

void batchedGemm(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                 const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, int threads) {
  if (k == 0) {
    for (int64_t i = 0; i < outer * inner; ++i)
      for (int64_t r = 0; r < m; ++r) std::fill_n(c + i / inner * cOuter + i % inner * cInner + r * cRow, n, 0.0f);
    return;
  }
  auto pair = TS_SIMD(batchedPair);
  const double cost = 2e-5 * static_cast<double>(outer * inner * m) * static_cast<double>(n * k);
  // Few large products are split by rows, each piece packing B anew.
  const int64_t pieces = outer * inner >= 16 ? 1 : std::max<int64_t>(1, m / 112);
  parallelFor(outer * inner * pieces, cost < 20 ? 1 : threads, [&](int64_t i) {
    Piece rows = pieceOf(m, pieces, i % pieces);
    const int64_t o = i / pieces / inner, in = i / pieces % inner;
    pair(rows.end - rows.begin, n, k, alpha, at(a, o, in) + rows.begin * a.row, a.row, a.column, at(b, o, in), b.row,
         b.column, c + o * cOuter + in * cInner + rows.begin * cRow, cRow);
  });
}

void attention(const AttentionShape& s, const BatchedMatrix& q, const BatchedMatrix& k, const BatchedMatrix& v,
               const BatchedMatrix& mask, float* out, int64_t outOuter, int64_t outInner, int64_t outRow, int threads) {
  if (s.queries == 0) return;
  const bool few = s.queries <= 3 && q.column == 1 && k.column == 1 && v.column == 1;
  auto attend = few ? TS_SIMD(attendFew) : TS_SIMD(attendMany);
  const int64_t pairs = s.outer * s.inner;
  const double cost =
      2e-5 * static_cast<double>(pairs * s.queries) * static_cast<double>(s.keys * (s.depth + s.valueDepth + 20));
  const int64_t pieces = pairs >= 8 ? 1 : std::max<int64_t>(1, s.queries / 112);
  parallelFor(pairs * pieces, cost < 20 ? 1 : threads, [&](int64_t i) {
    const int64_t o = i / pieces / s.inner, in = i / pieces % s.inner;
    Piece rows = pieceOf(s.queries, pieces, i % pieces);
    attend(s,
           {at(q, o, in), at(k, o, in), at(v, o, in), at(mask, o, in), q.row, q.column, k.row, k.column, v.row,
            v.column, mask.row, mask.column, out + o * outOuter + in * outInner, outRow},
           rows.begin, rows.end);
  });
}

}  // namespace tscompile
#endif
