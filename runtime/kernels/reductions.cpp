// Sums of f32 go no further than some values; those are summed in f64. Products are f64.
#include "runtime/kernels/reductions.h"

#include "ir/support/check.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <cmath>
#include <limits>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/reductions.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/rows-inl.h"
#include "runtime/kernels/simd.h"
#include "runtime/kernels/transpose-inl.h"
// clang-format on

#ifndef TSCOMPILE_REDUCTIONS_ONCE_
#define TSCOMPILE_REDUCTIONS_ONCE_
namespace tscompile {
namespace {

// So many elements of a row, or so many rows, are summed in f32.
constexpr int64_t kChunk = 1024, kRows = 16;
// Rows of so few elements are reduced so many at a time; of exponentials a call for each pays later.
constexpr int64_t kShortRow = 16, kShortRowOfExps = 64, kRowsAtOnce = 64;

using RowsFunction = void (*)(const float* rows, int64_t stride, int64_t count, int64_t width, float* out);

}  // namespace
}  // namespace tscompile
#endif

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// The larger or the smaller; NaN wins.
template <bool kMax, class D, class V>
HWY_INLINE V extreme(D d, V a, V b) {
  (void)d;
  const V chosen = kMax ? hn::IfThenElse(hn::Gt(b, a), b, a) : hn::IfThenElse(hn::Lt(b, a), b, a);
  return hn::IfThenElse(hn::IsNaN(b), b, chosen);
}

// The sum of each(d, x) over a row: in f32 of some elements, in f64 of those sums.
template <class Each>
HWY_INLINE double sumOfChunks(const float* row, int64_t count, Each&& each) {
  double sum = 0;
  for (int64_t i = 0; i < count; i += kChunk)
    sum += static_cast<double>(sumOver(row + i, std::min(kChunk, count - i), each));
  return sum;
}

float sumRow(const float* row, int64_t count) {
  return static_cast<float>(sumOfChunks(row, count, [](auto, auto x) HWY_ATTR { return x; }));
}

float productOfRow(const float* row, int64_t count) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  // Four at a time, as each waits for the one before.
  auto a = hn::Set(d, 1.0), b = a, e = a, f = a;
  auto join = [&](auto& into, int64_t i) HWY_ATTR { into = hn::Mul(into, hn::PromoteTo(d, hn::LoadU(df, row + i))); };
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes)
    join(a, i), join(b, i + lanes), join(e, i + 2 * lanes), join(f, i + 3 * lanes);
  for (; i + lanes <= count; i += lanes) join(a, i);
  HWY_ALIGN double some[hn::MaxLanes(d)];
  hn::Store(hn::Mul(hn::Mul(a, b), hn::Mul(e, f)), d, some);
  double product = 1;
  for (int64_t lane = 0; lane < lanes; ++lane) product *= some[lane];
  for (; i < count; ++i) product *= static_cast<double>(row[i]);
  return static_cast<float>(product);
}

// The last lanes are looked at again: that changes no extreme.
template <bool kMax>
float extremeOfRow(const float* row, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  constexpr float kWorst = kMax ? -std::numeric_limits<float>::infinity() : std::numeric_limits<float>::infinity();
  // Four at a time, as each waits for the one before.
  auto a = hn::Set(d, kWorst), b = a, e = a, f = a;
  auto nan = hn::IsNaN(a);  // none so far
  auto join = [&](auto& into, auto x) HWY_ATTR {
    nan = hn::Or(nan, hn::IsNaN(x));
    into = kMax ? hn::IfThenElse(hn::Gt(x, into), x, into) : hn::IfThenElse(hn::Lt(x, into), x, into);
  };
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    join(a, hn::LoadU(d, row + i)), join(b, hn::LoadU(d, row + i + lanes));
    join(e, hn::LoadU(d, row + i + 2 * lanes)), join(f, hn::LoadU(d, row + i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) join(a, hn::LoadU(d, row + i));
  if (count < lanes) {
    const auto there = hn::FirstN(d, static_cast<size_t>(count));
    join(a, hn::IfThenElse(there, hn::MaskedLoad(there, d, row), hn::Set(d, kWorst)));
  } else if (i < count) {
    join(b, hn::LoadU(d, row + count - lanes));
  }
  if (!hn::AllFalse(d, nan)) return std::numeric_limits<float>::quiet_NaN();
  return kMax ? hn::GetLane(hn::MaxOfLanes(d, hn::Max(hn::Max(a, b), hn::Max(e, f))))
              : hn::GetLane(hn::MinOfLanes(d, hn::Min(hn::Min(a, b), hn::Min(e, f))));
}
float maxOfRow(const float* row, int64_t count) { return extremeOfRow<true>(row, count); }
float minOfRow(const float* row, int64_t count) { return extremeOfRow<false>(row, count); }

// log(sum(exp(x - largest))) + largest, or the largest itself where that is not finite.
float logSumExpOfRow(const float* row, int64_t count) {
  const float largest = maxOfRow(row, count);
  if (!std::isfinite(largest)) return largest;
  const double sum = sumOfChunks(
      row, count, [&](auto d, auto x) HWY_ATTR { return expOfNegative(d, hn::Sub(x, hn::Set(d, largest))); });
  return largest + static_cast<float>(std::log(sum));
}

// Where `value`, which is there, stands first; NaN equals NaN.
int64_t placeInRow(const float* row, int64_t count, float value) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto wanted = hn::Set(d, value);
  const bool isNan = std::isnan(value);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto x = hn::LoadU(d, row + i);
    const intptr_t found = hn::FindFirstTrue(d, isNan ? hn::IsNaN(x) : hn::Eq(x, wanted));
    if (found >= 0) return i + found;
  }
  while (isNan ? !std::isnan(row[i]) : row[i] != value) ++i;
  return i;
}

// Columns [0, width) of `count` rows, which are `stride` apart. Of many, four rows at a time, as each join waits for
// the one before.
template <class Join>
HWY_INLINE void joinRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out, Join&& join) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, width - i)));
    auto row = [&](int64_t r) HWY_ATTR { return hn::MaskedLoad(some, d, rows + r * stride + i); };
    auto all = row(0);
    int64_t r = 1;
    if (count >= 8) {
      auto b = row(1), e = row(2), f = row(3);
      for (r = 4; r + 4 <= count; r += 4) {
        all = join(d, all, row(r)), b = join(d, b, row(r + 1));
        e = join(d, e, row(r + 2)), f = join(d, f, row(r + 3));
      }
      all = join(d, join(d, all, b), join(d, e, f));
    }
    for (; r < count; ++r) all = join(d, all, row(r));
    hn::BlendedStore(all, some, d, out + i);
  }
}

void sumRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out) {
  constexpr int64_t kColumns = 64;
  alignas(64) float part[kColumns];
  for (int64_t i = 0; i < width; i += kColumns) {
    const int64_t some = std::min(kColumns, width - i);
    double sums[kColumns] = {};
    for (int64_t r = 0; r < count; r += kRows) {
      joinRows(rows + r * stride + i, stride, std::min(kRows, count - r), some, part,
               [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
      for (int64_t c = 0; c < some; ++c) sums[c] += static_cast<double>(part[c]);
    }
    for (int64_t c = 0; c < some; ++c) out[i + c] = static_cast<float>(sums[c]);
  }
}
void productRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out) {
  constexpr int64_t kColumns = 64;
  double products[kColumns];
  for (int64_t i = 0; i < width; i += kColumns) {
    const int64_t some = std::min(kColumns, width - i);
    std::fill_n(products, kColumns, 1.0);
    for (int64_t r = 0; r < count; ++r)
      for (int64_t c = 0; c < some; ++c) products[c] *= static_cast<double>(rows[r * stride + i + c]);
    for (int64_t c = 0; c < some; ++c) out[i + c] = static_cast<float>(products[c]);
  }
}
// A number or NaN wins over what comes after it.
template <bool kMax>
struct Extreme {
  template <class D, class V>
  HWY_ATTR V operator()(D d, V a, V b) const {
    return hn::IfThenElse(hn::IsNaN(a), a, extreme<kMax>(d, a, b));
  }
};
void maxRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out) {
  joinRows(rows, stride, count, width, out, Extreme<true>());
}
void minRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out) {
  joinRows(rows, stride, count, width, out, Extreme<false>());
}
void logSumExpRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out) {
  maxRows(rows, stride, count, width, out);
  const hn::ScalableTag<float> d;
  const hn::Repartition<double, decltype(d)> wide;
  const hn::Half<decltype(d)> half;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < width; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, width - i)));
    const auto largest = hn::MaskedLoad(some, d, out + i);
    auto low = hn::Zero(wide), high = low;
    for (int64_t r = 0; r < count;) {
      auto part = hn::Zero(d);
      for (const int64_t end = std::min(count, r + kRows); r < end; ++r)
        part = hn::Add(part, expOfNegative(d, hn::Sub(hn::MaskedLoad(some, d, rows + r * stride + i), largest)));
      low = hn::Add(low, hn::PromoteTo(wide, hn::LowerHalf(half, part)));
      high = hn::Add(high, hn::PromoteTo(wide, hn::UpperHalf(half, part)));
    }
    const auto sum = hn::Combine(d, hn::DemoteTo(half, high), hn::DemoteTo(half, low));
    hn::BlendedStore(hn::Add(largest, log(d, sum)), hn::And(some, hn::IsFinite(largest)), d, out + i);
  }
}

RowsFunction rowsFunction(RowReduction kind) {
  switch (kind) {
    case RowReduction::Sum:
      return sumRows;
    case RowReduction::Product:
      return productRows;
    case RowReduction::Max:
      return maxRows;
    case RowReduction::Min:
      return minRows;
    case RowReduction::LogSumExp:
      break;
  }
  return logSumExpRows;
}

// Rows too short for a call each, side by side.
void reduceShortRows(RowReduction kind, const float* rows, int64_t count, int64_t length, float* out) {
  alignas(64) float turned[kShortRowOfExps * kRowsAtOnce];
  transpose(rows, length, length, count, turned, kRowsAtOnce);
  rowsFunction(kind)(turned, kRowsAtOnce, length, count, out);
}

// Of `pixels` pixels, blocks of which are `step` apart, what their channels give together.
template <class Join>
HWY_INLINE void joinChannels(const float* blocks, int64_t step, int64_t channels, int64_t pixels, float* out,
                             Join&& join) {
  static_assert(kBlock == 16);
  constexpr int64_t kPixels = 16;
  const hn::CappedTag<float, 16> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = channels / kBlock, rest = channels % kBlock;
  alignas(64) float joined[kPixels * kBlock] = {}, turned[kBlock * kPixels];
  for (int64_t at = 0; at < pixels; at += kPixels) {
    const int64_t some = std::min(kPixels, pixels - at);
    for (int64_t p = 0; p < some; ++p)
      for (int64_t lane = 0; lane < kBlock; lane += lanes) {
        const float* pixel = blocks + (at + p) * kBlock + lane;
        auto all = hn::LoadU(d, pixel);
        for (int64_t b = 1; b < whole; ++b) all = join(d, all, hn::LoadU(d, pixel + b * step));
        if (whole > 0 && rest > lane) {
          const auto there = hn::FirstN(d, static_cast<size_t>(rest - lane));
          all = hn::IfThenElse(there, join(d, all, hn::LoadU(d, pixel + whole * step)), all);
        }
        hn::StoreU(all, d, joined + p * kBlock + lane);
      }
    for (int64_t lane = 0; lane < kBlock; lane += 4)
      for (int64_t p = 0; p < kPixels; p += 4)
        transposeSquare(joined + p * kBlock + lane, kBlock, turned + lane * kPixels + p, kPixels,
                        [](auto v) HWY_ATTR { return v; });
    joinRows(turned, kPixels, std::min<int64_t>(channels, kBlock), some, out + at, join);
  }
}
void sumChannels(const float* blocks, int64_t step, int64_t channels, int64_t pixels, float* out) {
  joinChannels(blocks, step, channels, pixels, out, [](auto, auto a, auto b) HWY_ATTR { return hn::Add(a, b); });
}
void maxChannels(const float* blocks, int64_t step, int64_t channels, int64_t pixels, float* out) {
  joinChannels(blocks, step, channels, pixels, out, Extreme<true>());
}
void minChannels(const float* blocks, int64_t step, int64_t channels, int64_t pixels, float* out) {
  joinChannels(blocks, step, channels, pixels, out, Extreme<false>());
}

template <bool kMax>
void placesInRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out, int32_t* places) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> di;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto join = [&](auto& best, auto& place, auto x, auto row) HWY_ATTR {
    const auto better = hn::Or(kMax ? hn::Gt(x, best) : hn::Lt(x, best), hn::AndNot(hn::IsNaN(best), hn::IsNaN(x)));
    best = hn::IfThenElse(better, x, best);
    place = hn::IfThenElse(hn::RebindMask(di, better), row, place);
  };
  int64_t i = 0;
  // Several neighbours of a row before the next one, which is far away.
  for (; i + 4 * lanes <= width; i += 4 * lanes) {
    const float* p = rows + i;
    auto a = hn::LoadU(d, p), b = hn::LoadU(d, p + lanes), e = hn::LoadU(d, p + 2 * lanes),
         f = hn::LoadU(d, p + 3 * lanes);
    auto ai = hn::Zero(di), bi = ai, ei = ai, fi = ai;
    for (int64_t r = 1; r < count; ++r) {
      p += stride;
      const auto row = hn::Set(di, static_cast<int32_t>(r));
      join(a, ai, hn::LoadU(d, p), row), join(b, bi, hn::LoadU(d, p + lanes), row);
      join(e, ei, hn::LoadU(d, p + 2 * lanes), row), join(f, fi, hn::LoadU(d, p + 3 * lanes), row);
    }
    hn::StoreU(a, d, out + i), hn::StoreU(b, d, out + i + lanes);
    hn::StoreU(e, d, out + i + 2 * lanes), hn::StoreU(f, d, out + i + 3 * lanes);
    hn::StoreU(ai, di, places + i), hn::StoreU(bi, di, places + i + lanes);
    hn::StoreU(ei, di, places + i + 2 * lanes), hn::StoreU(fi, di, places + i + 3 * lanes);
  }
  for (; i < width; i += lanes) {
    const auto some = hn::FirstN(d, static_cast<size_t>(std::min(lanes, width - i)));
    auto best = hn::MaskedLoad(some, d, rows + i);
    auto place = hn::Zero(di);
    for (int64_t r = 1; r < count; ++r)
      join(best, place, hn::MaskedLoad(some, d, rows + r * stride + i), hn::Set(di, static_cast<int32_t>(r)));
    hn::BlendedStore(best, some, d, out + i);
    hn::BlendedStore(place, hn::RebindMask(di, some), di, places + i);
  }
}
void maxInRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out, int32_t* places) {
  placesInRows<true>(rows, stride, count, width, out, places);
}
void minInRows(const float* rows, int64_t stride, int64_t count, int64_t width, float* out, int32_t* places) {
  placesInRows<false>(rows, stride, count, width, out, places);
}

// The sum of each(d, x) over a row.
template <class Each>
HWY_INLINE double sumInF64(const float* row, int64_t count, Each&& each) {
  const hn::ScalableTag<double> d;
  const hn::Rebind<float, decltype(d)> df;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto at = [&](int64_t i) HWY_ATTR { return each(d, hn::PromoteTo(d, hn::LoadU(df, row + i))); };
  // Four at a time, as each waits for the one before.
  auto a = hn::Zero(d), b = a, e = a, f = a;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    a = hn::Add(a, at(i)), b = hn::Add(b, at(i + lanes));
    e = hn::Add(e, at(i + 2 * lanes)), f = hn::Add(f, at(i + 3 * lanes));
  }
  for (; i + lanes <= count; i += lanes) a = hn::Add(a, at(i));
  double sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(a, b), hn::Add(e, f))));
  const hn::CappedTag<double, 1> one;
  for (; i < count; ++i) sum += hn::GetLane(each(one, hn::Set(one, static_cast<double>(row[i]))));
  return sum;
}

// The mean of a row, and the sum of squared deviations from it.
void momentsOfRow(const float* row, int64_t count, double* mean, double* squares) {
  const double middle = sumInF64(row, count, [](auto, auto x) HWY_ATTR { return x; }) / static_cast<double>(count);
  *mean = middle;
  *squares = sumInF64(row, count, [middle](auto d, auto x) HWY_ATTR {
    const auto apart = hn::Sub(x, hn::Set(d, middle));
    return hn::Mul(apart, apart);
  });
}

// The same of `width` columns of `count` rows, which are `stride` apart.
void momentsOfColumns(const float* rows, int64_t stride, int64_t count, int64_t width, double* means, double* squares) {
  std::fill_n(means, width, 0.0);
  std::fill_n(squares, width, 0.0);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < width; ++c) means[c] += static_cast<double>(rows[i * stride + c]);
  for (int64_t c = 0; c < width; ++c) means[c] /= static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i)
    for (int64_t c = 0; c < width; ++c) {
      const double apart = static_cast<double>(rows[i * stride + c]) - means[c];
      squares[c] += apart * apart;
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

namespace {

using RowFunction = float (*)(const float* row, int64_t count);
RowFunction rowFunction(RowReduction kind) {
  switch (kind) {
    case RowReduction::Sum:
      return TS_SIMD(sumRow);
    case RowReduction::Product:
      return TS_SIMD(productOfRow);
    case RowReduction::Max:
      return TS_SIMD(maxOfRow);
    case RowReduction::Min:
      return TS_SIMD(minOfRow);
    case RowReduction::LogSumExp:
      break;
  }
  return TS_SIMD(logSumExpOfRow);
}

}  // namespace

void reduceMiddle(RowReduction kind, int64_t outer, int64_t count, int64_t inner, float divisor, const float* input,
                  float* output, int threads) {
  const bool isOfExps = kind == RowReduction::LogSumExp;
  const double each = isOfExps ? 3e-4 : 1e-4;  // microseconds
  const double cost = each * static_cast<double>(outer * count) * static_cast<double>(inner);
  threads = threadsWorth(cost, threads);
  const bool sums = kind == RowReduction::Sum;
  if (inner == 1 && count <= (isOfExps ? kShortRowOfExps : kShortRow) && outer >= kRowsAtOnce) {
    const auto rows = TS_SIMD(reduceShortRows);
    return parallelFor((outer + kRowsAtOnce - 1) / kRowsAtOnce, threads, [&](int64_t i) {
      const int64_t first = i * kRowsAtOnce, some = std::min(kRowsAtOnce, outer - first);
      rows(kind, input + first * count, some, count, output + first);
      for (int64_t o = first; sums && o < first + some; ++o) output[o] /= divisor;
    });
  }
  if (inner == 1) {
    const RowFunction row = rowFunction(kind);
    const int64_t pieces = piecesWorth(cost, std::clamp<int64_t>(outer, 1, 64));
    return parallelFor(pieces, threads, [&](int64_t p) {
      const Piece piece = pieceOf(outer, pieces, p);
      for (int64_t o = piece.begin; o < piece.end; ++o)
        output[o] = sums ? row(input + o * count, count) / divisor : row(input + o * count, count);
    });
  }
  const RowsFunction rows = TS_SIMD(rowsFunction)(kind);
  const int64_t pieces = std::clamp<int64_t>(inner / 64, 1, 16);
  parallelFor(outer * pieces, threads, [&](int64_t i) {
    const int64_t o = i / pieces;
    const Piece columns = pieceOf(inner, pieces, i % pieces);
    float* out = output + o * inner;
    rows(input + o * count * inner + columns.begin, inner, count, columns.end - columns.begin, out + columns.begin);
    for (int64_t c = columns.begin; sums && c < columns.end; ++c) out[c] /= divisor;
  });
}

void reduceChannels(RowReduction kind, int64_t batch, int64_t channels, int64_t area, float divisor,
                    const float* blocked, float* output, int threads) {
  TS_CHECK(kind == RowReduction::Sum || kind == RowReduction::Max || kind == RowReduction::Min);
  constexpr int64_t kPixels = 256;
  const auto reduce = kind == RowReduction::Sum   ? TS_SIMD(sumChannels)
                      : kind == RowReduction::Max ? TS_SIMD(maxChannels)
                                                  : TS_SIMD(minChannels);
  const int64_t pieces = (area + kPixels - 1) / kPixels, blocks = channelBlocks(channels);
  const double cost = 1e-4 * static_cast<double>(batch * blocks * kBlock) * static_cast<double>(area);  // microseconds
  parallelFor(batch * pieces, threadsWorth(cost, threads), [&](int64_t i) {
    const int64_t n = i / pieces, first = i % pieces * kPixels, some = std::min(kPixels, area - first);
    float* to = output + n * area + first;
    reduce(blocked + (n * blocks * area + first) * kBlock, area * kBlock, channels, some, to);
    for (int64_t p = 0; kind == RowReduction::Sum && p < some; ++p) to[p] /= divisor;
  });
}

int64_t extremeOfRow(bool isLargest, const float* row, int64_t count) {
  return TS_SIMD(placeInRow)(row, count, (isLargest ? TS_SIMD(maxOfRow) : TS_SIMD(minOfRow))(row, count));
}

void extremesOfColumns(bool isLargest, const float* rows, int64_t stride, int64_t count, int64_t width, float* values,
                       int32_t* places) {
  auto find = isLargest ? TS_SIMD(maxInRows) : TS_SIMD(minInRows);
  find(rows, stride, count, width, values, places);
}

void variances(const VarianceShape& shape, const float* input, float* output, float* means, int threads) {
  constexpr int64_t kColumns = 64;  // whose moments stay in the first level of cache
  const double divisor = std::max(static_cast<double>(shape.count) - shape.correction, 0.0);
  auto store = [&](int64_t at, double mean, double squares) {
    const double variance = squares / divisor;
    output[at] = static_cast<float>(shape.isRoot ? std::sqrt(variance) : variance);
    if (!means) return;
    // PyTorch updates a mean with each element: once it is infinite, its next difference to an element is NaN.
    const bool isLost = shape.count > 1 && !std::isfinite(mean);
    means[at] = isLost ? std::numeric_limits<float>::quiet_NaN() : static_cast<float>(mean);
  };
  const double cost = 5e-4 * static_cast<double>(shape.outer * shape.count) * static_cast<double>(shape.inner);
  threads = threadsWorth(cost, threads);  // microseconds
  if (shape.inner == 1) {
    const auto moments = TS_SIMD(momentsOfRow);
    const int64_t pieces = piecesWorth(cost, std::min<int64_t>(shape.outer, 64));
    return parallelFor(pieces, threads, [&](int64_t p) {
      const Piece piece = pieceOf(shape.outer, pieces, p);
      for (int64_t o = piece.begin; o < piece.end; ++o) {
        double mean, squares;
        moments(input + o * shape.count, shape.count, &mean, &squares);
        store(o, mean, squares);
      }
    });
  }
  const auto moments = TS_SIMD(momentsOfColumns);
  const int64_t blocks = (shape.inner + kColumns - 1) / kColumns;
  parallelFor(shape.outer * blocks, threads, [&](int64_t i) {
    const int64_t o = i / blocks, first = i % blocks * kColumns, width = std::min(kColumns, shape.inner - first);
    double middles[kColumns], squares[kColumns];
    moments(input + o * shape.count * shape.inner + first, shape.inner, shape.count, width, middles, squares);
    for (int64_t c = 0; c < width; ++c) store(o * shape.inner + first + c, middles[c], squares[c]);
  });
}

}  // namespace tscompile
#endif
