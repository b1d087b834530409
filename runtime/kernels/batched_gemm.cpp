// B of each pair is packed into panels once, then rows of A go over them.
#include "runtime/kernels/batched_gemm.h"

#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"

#include <algorithm>
#include <utility>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/batched_gemm.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/panels-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// `panels`: B, if it has been packed; else some columns are at a time.
void batchedPair(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t aRow, int64_t aColumn,
                 const float* b, int64_t bRow, int64_t bColumn, const float* panels, float* c, int64_t cRow) {
  const int64_t columns = std::min(columnsAtOnce(k), n), panelFloats = panels ? 0 : roundToBlock(columns) * k;
  float* scratch = threadScratch(panelFloats + (aColumn == 1 ? 0 : m * k));
  if (aColumn != 1) {
    float* copy = scratch + panelFloats;
    if (aRow == 1)
      transpose(a, aColumn, m, k, copy, k);
    else
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < k; ++j) copy[i * k + j] = a[i * aRow + j * aColumn];
    a = copy;
    aRow = k;
  }
  if (panels) return multiplyRows(a, aRow, m, panels, k, n, c, cRow, false);
  for (int64_t first = 0; first < n; first += columns) {
    const int64_t count = std::min(columns, n - first);
    packPanels(b + first * bColumn, bRow, bColumn, k, count, alpha, scratch);
    multiplyRows(a, aRow, m, scratch, k, count, c + first, cRow, false);
  }
}
void packColumnsOfPair(const float* b, int64_t row, int64_t column, int64_t k, int64_t n, float alpha, float* to) {
  packPanels(b, row, column, k, n, alpha, to);
}

// Rows lie side by side: sums over each of some rows at once.
template <int kRows>
void multiplyAlongRows(const MatrixVector& p, int64_t first) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* from = p.matrix + first * p.row;
  V sum[kRows];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
  int64_t j = 0;
  for (; j + lanes <= p.depth; j += lanes) {
    const V v = hn::LoadU(d, p.vector + j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::LoadU(d, from + r * p.row + j), v, sum[r]);
  }
  if (j < p.depth) {
    const auto some = hn::FirstN(d, static_cast<size_t>(p.depth - j));
    const V v = hn::MaskedLoad(some, d, p.vector + j);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::MaskedLoad(some, d, from + r * p.row + j), v, sum[r]);
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) p.out[(first + r) * p.outStep] = p.alpha * hn::GetLane(hn::SumOfLanes(d, sum[r]));
}

// Some rows times a matrix whose rows lie side by side: as many of these at once as kDepth, so that it is read from one
// end to the other. Sums go on in memory.
template <int kRows, int kDepth>
void multiplyDeep(const FewRows& p, int64_t j) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* from = p.b + j * p.bRow;
  V factors[kRows][kDepth];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int i = 0; i < kDepth; ++i) factors[r][i] = hn::Set(d, p.a[r * p.aRow + (j + i) * p.aColumn]);
  auto step = [&](int64_t x, auto load, auto store) HWY_ATTR {
    V read[kDepth];
#pragma GCC unroll 8
    for (int i = 0; i < kDepth; ++i) read[i] = load(from + i * p.bRow + x);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float* to = p.c + r * p.cRow + x;
      V sum = j == 0 ? hn::Zero(d) : load(to);
#pragma GCC unroll 8
      for (int i = 0; i < kDepth; ++i) sum = hn::MulAdd(read[i], factors[r][i], sum);
      store(j + kDepth == p.k && p.alpha != 1 ? hn::Mul(sum, hn::Set(d, p.alpha)) : sum, to);
    }
  };
  int64_t x = 0;
  for (; x + lanes <= p.n; x += lanes)
    step(
        x, [&](const float* at) HWY_ATTR { return hn::LoadU(d, at); },
        [&](V v, float* to) HWY_ATTR { hn::StoreU(v, d, to); });
  if (x == p.n) return;
  const auto some = hn::FirstN(d, static_cast<size_t>(p.n - x));
  step(
      x, [&](const float* at) HWY_ATTR { return hn::MaskedLoad(some, d, at); },
      [&](V v, float* to) HWY_ATTR { hn::BlendedStore(v, some, d, to); });
}
template <int kRows>
void multiplyRowsAtOnce(const FewRows& p) {
  constexpr int kDepth = kRows == 1 ? 8 : 4;
  int64_t j = 0;
  for (; j + kDepth <= p.k; j += kDepth) multiplyDeep<kRows, kDepth>(p, j);
  for (; j < p.k; ++j) multiplyDeep<kRows, 1>(p, j);
}
void multiplyFewRows(const FewRows& p) {
  switch (p.m) {
    case 1:
      return multiplyRowsAtOnce<1>(p);
    case 2:
      return multiplyRowsAtOnce<2>(p);
    case 3:
      return multiplyRowsAtOnce<3>(p);
    default:
      return multiplyRowsAtOnce<4>(p);
  }
}

// Some rows times a matrix of few columns whose rows lie side by side, where it lies: sums stay in registers.
template <int kRows>
void multiplyNarrowRows(const FewRows& p, int64_t first) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* from = p.a + first * p.aRow;
  const V alpha = hn::Set(d, p.alpha);
  for (int64_t x = 0; x < p.n; x += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, p.n - x)));
    V sum[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Zero(d);
    for (int64_t j = 0; j < p.k; ++j) {
      const V read = hn::Mul(hn::MaskedLoad(some, d, p.b + j * p.bRow + x), alpha);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Set(d, from[r * p.aRow + j * p.aColumn]), read, sum[r]);
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) hn::BlendedStore(sum[r], some, d, p.c + (first + r) * p.cRow + x);
  }
}
void multiplyNarrow(const FewRows& p) {
  int64_t at = 0;
  for (; at + 8 <= p.m; at += 8) multiplyNarrowRows<8>(p, at);
  for (; at + 4 <= p.m; at += 4) multiplyNarrowRows<4>(p, at);
  if (p.m - at == 3) multiplyNarrowRows<3>(p, at);
  if (p.m - at == 2) multiplyNarrowRows<2>(p, at);
  if (p.m - at == 1) multiplyNarrowRows<1>(p, at);
}

// Columns lie side by side: some vectors of results are kept over all of the depth.
template <int kVectors>
void multiplyAlongColumns(const MatrixVector& p, int64_t first, int64_t count) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto last = hn::FirstN(d, static_cast<size_t>(count - (kVectors - 1) * lanes));
  V sum[kVectors];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) sum[i] = hn::Zero(d);
  for (int64_t j = 0; j < p.depth; ++j) {
    const float* from = p.matrix + j * p.column + first;
    const V v = hn::Set(d, p.vector[j]);
#pragma GCC unroll 4
    for (int i = 0; i + 1 < kVectors; ++i) sum[i] = hn::MulAdd(hn::LoadU(d, from + i * lanes), v, sum[i]);
    sum[kVectors - 1] = hn::MulAdd(hn::MaskedLoad(last, d, from + (kVectors - 1) * lanes), v, sum[kVectors - 1]);
  }
  alignas(64) float results[kVectors * hn::MaxLanes(hn::ScalableTag<float>())];
#pragma GCC unroll 4
  for (int i = 0; i < kVectors; ++i) hn::Store(hn::Mul(sum[i], hn::Set(d, p.alpha)), d, results + i * lanes);
  for (int64_t i = 0; i < count; ++i) p.out[(first + i) * p.outStep] = results[i];
}

void multiplyVector(const MatrixVector& p) {
  int64_t at = 0;
  if (p.column == 1) {
    for (; at + 4 <= p.rows; at += 4) multiplyAlongRows<4>(p, at);
    for (; at < p.rows; ++at) multiplyAlongRows<1>(p, at);
  } else if (p.row == 1) {
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(hn::ScalableTag<float>()));
    for (; p.rows - at > 3 * lanes; at += 4 * lanes) multiplyAlongColumns<4>(p, at, std::min(4 * lanes, p.rows - at));
    for (; at < p.rows; at += lanes) multiplyAlongColumns<1>(p, at, std::min(lanes, p.rows - at));
  } else {
    for (; at < p.rows; ++at) {
      float sum = 0;
      for (int64_t j = 0; j < p.depth; ++j) sum += p.matrix[at * p.row + j * p.column] * p.vector[j];
      p.out[at * p.outStep] = p.alpha * sum;
    }
  }
}

inline constexpr int kMixedRows = HWY_TARGET == HWY_AVX3 ? 8 : 4;  // two vectors of each are in registers

// Elements [0, count) of kRows planes of the result.
template <int kRows>
void mixRows(const PlaneMix& mix, const float* in, const float* weights, const float* bias, float* out, int64_t count) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto start = [&](int r) HWY_ATTR { return bias ? hn::Set(d, bias[r]) : hn::Zero(d); };
  int64_t at = 0;
  for (; at + 2 * lanes <= count; at += 2 * lanes) {
    V a[kRows], b[kRows];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) a[r] = b[r] = start(r);
    for (int64_t i = 0; i < mix.in; ++i) {
      const V x = hn::LoadU(d, in + i * mix.planeStride + at), y = hn::LoadU(d, in + i * mix.planeStride + at + lanes);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V w = hn::Set(d, weights[r * mix.in + i]);
        a[r] = hn::MulAdd(w, x, a[r]);
        b[r] = hn::MulAdd(w, y, b[r]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      hn::StoreU(a[r], d, out + r * mix.area + at);
      hn::StoreU(b[r], d, out + r * mix.area + at + lanes);
    }
  }
  for (; at < count; at += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, count - at)));
    for (int r = 0; r < kRows; ++r) {
      V sum = start(r);
      for (int64_t i = 0; i < mix.in; ++i)
        sum = hn::MulAdd(hn::Set(d, weights[r * mix.in + i]), hn::MaskedLoad(some, d, in + i * mix.planeStride + at),
                         sum);
      hn::BlendedStore(sum, some, d, out + r * mix.area + at);
    }
  }
}

template <int... kRow>
void mixSomeRows(int rows, const PlaneMix& mix, const float* in, const float* weights, const float* bias, float* out,
                 int64_t count, std::integer_sequence<int, kRow...>) {
  static constexpr void (*kTable[])(const PlaneMix&, const float*, const float*, const float*, float*,
                                    int64_t) = {mixRows<kRow + 1>...};
  kTable[rows - 1](mix, in, weights, bias, out, count);
}

void mixPiece(const PlaneMix& mix, const float* in, const float* weights, const float* bias, float* out,
              int64_t count) {
  for (int64_t o = 0; o < mix.out; o += kMixedRows)
    mixSomeRows(static_cast<int>(std::min<int64_t>(kMixedRows, mix.out - o)), mix, in, weights + o * mix.in,
                bias ? bias + o : nullptr, out + o * mix.area, count, std::make_integer_sequence<int, kMixedRows>());
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// The vector that a product has on one side, side by side.
const float* contiguousVector(const float* from, int64_t step, int64_t count) {
  if (step == 1 || count == 1) return from;
  float* copy = threadScratch(count);
  for (int64_t i = 0; i < count; ++i) copy[i] = from[i * step];
  return copy;
}

// One side of each pair is a vector: the other one's elements are read once, where they are.
void batchedVector(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                   const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, int threads) {
  const bool isColumn = n == 1;
  const int64_t rows = isColumn ? m : n;
  const double cost = 2e-4 * static_cast<double>(outer * inner * rows * k);
  const int64_t pairs = outer * inner, pieces = pairs >= 16 ? 1 : std::max<int64_t>(1, rows * k >> 14);
  auto multiply = TS_SIMD(multiplyVector);
  parallelFor(pairs * pieces, threadsWorth(cost, threads), [&](int64_t i) {
    const Piece piece = pieceOf(rows, pieces, i % pieces);
    const int64_t o = i / pieces / inner, in = i / pieces % inner, first = piece.begin, count = piece.end - first;
    float* out = c + o * cOuter + in * cInner;
    const float *left = a.at(o, in), *right = b.at(o, in);
    if (isColumn)
      multiply({count, k, alpha, left + first * a.row, a.row, a.column, contiguousVector(right, b.row, k),
                out + first * cRow, cRow});
    else
      multiply({count, k, alpha, right + first * b.column, b.column, b.row, contiguousVector(left, a.column, k),
                out + first, 1});
  });
}

// Rows of B lie side by side, and are long enough to be read as they come.
bool readsAlong(int64_t m, int64_t n, const BatchedMatrix& b) {
  constexpr int64_t kLeast = 64;
  return m <= kMostFewRows && b.column == 1 && n >= kLeast;
}
void batchedFewRows(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                    const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, int threads) {
  constexpr int64_t kColumns = 256, kWork = 1 << 14;
  const double cost = 1e-4 * static_cast<double>(m + 1) * static_cast<double>(outer * inner * n * k);
  const int64_t pairs = outer * inner, most = std::min(n / kColumns, m * n * k / kWork);
  const int64_t pieces = pairs >= 16 ? 1 : std::max<int64_t>(1, most);
  auto multiply = TS_SIMD(multiplyFewRows);
  parallelFor(pairs * pieces, threadsWorth(cost, threads), [&](int64_t i) {
    const Piece piece = pieceOf(n, pieces, i % pieces);
    const int64_t o = i / pieces / inner, in = i / pieces % inner, first = piece.begin;
    multiply({m, piece.end - first, k, alpha, a.at(o, in), a.row, a.column, b.at(o, in) + first, b.row,
              c + o * cOuter + in * cInner + first, cRow});
  });
}

// Few large products are split by rows.
int64_t piecesOfRows(int64_t pairs, int64_t m) { return pairs >= 16 ? 1 : std::max<int64_t>(1, m / 112); }
int64_t panelsOf(int64_t n) { return (n + kBlock - 1) / kBlock; }
// Columns and depth up to which packing takes longer than it helps.
bool isNarrow(int64_t n, int64_t k, int64_t bColumn) {
  constexpr int64_t kNarrow = 16, kDeep = 64;
  return bColumn == 1 && n <= kNarrow && k <= kDeep;
}

}  // namespace

size_t batchedWorkspace(int64_t pairs, int64_t m, int64_t n, int64_t k, int64_t bColumn) {
  return piecesOfRows(pairs, m) > 1 && !isNarrow(n, k, bColumn)
             ? static_cast<size_t>(pairs * panelsOf(n) * kBlock * k) * sizeof(float)
             : 0;
}

void batchedGemm(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                 const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, float* workspace,
                 int threads) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t i = 0; i < outer * inner; ++i)
      for (int64_t r = 0; r < m; ++r) std::fill_n(c + i / inner * cOuter + i % inner * cInner + r * cRow, n, 0.0f);
    return;
  }
  if (readsAlong(m, n, b)) return batchedFewRows(outer, inner, m, n, k, alpha, a, b, c, cOuter, cInner, cRow, threads);
  if (m == 1 || n == 1) return batchedVector(outer, inner, m, n, k, alpha, a, b, c, cOuter, cInner, cRow, threads);
  auto pair = TS_SIMD(batchedPair);
  auto narrow = TS_SIMD(multiplyNarrow);
  const double cost = 2e-5 * static_cast<double>(outer * inner * m) * static_cast<double>(n * k);
  const int64_t pairs = outer * inner, pieces = piecesOfRows(pairs, m), panels = panelsOf(n);
  threads = threadsWorth(cost, threads);
  const bool packsNothing = isNarrow(n, k, b.column), isPacked = pieces > 1 && !packsNothing;
  if (isPacked) {
    constexpr int64_t kPackedPiece = 1 << 15;  // floats
    const int64_t parts = std::clamp<int64_t>(panels * kBlock * k / kPackedPiece, 1, panels);
    auto pack = TS_SIMD(packColumnsOfPair);
    parallelFor(pairs * parts, threads, [&](int64_t i) {
      const Piece part = pieceOf(panels, parts, i % parts);
      const int64_t o = i / parts / inner, in = i / parts % inner, first = part.begin * kBlock;
      pack(b.at(o, in) + first * b.column, b.row, b.column, k, std::min(part.end * kBlock, n) - first, alpha,
           workspace + (i / parts * panels + part.begin) * kBlock * k);
    });
  }
  // Of whole tiles, but for the last rows.
  const int64_t tileRows = maxTileRows(), tiles = (m + tileRows - 1) / tileRows;
  parallelFor(pairs * pieces, threads, [&](int64_t i) {
    const Piece piece = pieceOf(tiles, pieces, i % pieces);
    const int64_t o = i / pieces / inner, in = i / pieces % inner, first = piece.begin * tileRows;
    const int64_t rows = std::min(piece.end * tileRows, m) - first;
    const float* from = a.at(o, in) + first * a.row;
    float* to = c + o * cOuter + in * cInner + first * cRow;
    if (packsNothing) return narrow({rows, n, k, alpha, from, a.row, a.column, b.at(o, in), b.row, to, cRow});
    pair(rows, n, k, alpha, from, a.row, a.column, b.at(o, in), b.row, b.column,
         isPacked ? workspace + i / pieces * panels * kBlock * k : nullptr, to, cRow);
  });
}

void mixPlanes(const PlaneMix& mix, const float* input, const float* weights, const float* bias, float* output,
               int threads) {
  constexpr int64_t kPiece = 1024;  // elements of a plane: all planes of a piece stay in the nearest cache
  const int64_t pieces = (mix.area + kPiece - 1) / kPiece;
  const double work = static_cast<double>(mix.images * mix.area) * static_cast<double>(mix.in * (mix.out + 8));
  auto piece = TS_SIMD(mixPiece);
  parallelFor(mix.images * pieces, work < 400e3 ? 1 : threads, [&](int64_t i) {
    const int64_t image = i / pieces, first = i % pieces * kPiece;
    piece(mix, input + image * mix.imageStride + first, weights, bias, output + image * mix.out * mix.area + first,
          std::min(kPiece, mix.area - first));
  });
}

}  // namespace tscompile
#endif
