#include "runtime/kernels/pool2d.h"

#include "runtime/call/scratch.h"
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <limits>
#include <utility>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/pool2d.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// The first of equal ones, the first NaN: of a NaN and another, Max gives the second on x86.
template <class V, class D>
HWY_INLINE V maxKeepingNan(D, V best, V value) {
  return hn::IfThenElse(hn::IsNaN(value), value, hn::Max(value, best));
}

// Windows of one block of channels that lie inside of their rows, so many at a time.
inline constexpr int kWindows = kVectors > 2 ? 2 : 4;

// result[w][v] = combine(result, element) over windows `step` floats apart, of which `in` is the first element.
template <class V, class Combine>
HWY_INLINE void combineWindows(const float* in, int64_t rows, int64_t columns, int64_t row, int64_t column,
                               int64_t step, V (&result)[kWindows][kVectors], Combine combine) {
  const hn::CappedTag<float, kBlock> d;
  for (int64_t j = 0; j < rows; ++j)
    for (int64_t i = 0; i < columns; ++i)
#pragma GCC unroll 16
      for (int w = 0; w < kWindows; ++w)
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v)
          result[w][v] = combine(result[w][v], hn::LoadU(d, in + j * row + i * column + w * step + v * kLanes));
}

// Stores finish(result) of each window; combines as above from `start` on.
template <class V, class Combine, class Finish>
HWY_INLINE void poolWindows(const PoolShape& s, const float* in, Piece ky, int64_t top, int64_t left, V start,
                            float* out, Combine combine, Finish finish) {
  const hn::CappedTag<float, kBlock> d;
  V result[kWindows][kVectors];
  for (auto& window : result)
    for (V& v : window) v = start;
  combineWindows(in + ((top + ky.begin * s.dilationHeight) * s.inWidth + left) * kBlock, ky.end - ky.begin,
                 s.kernelWidth, s.dilationHeight * s.inWidth * kBlock, s.dilationWidth * kBlock, s.strideWidth * kBlock,
                 result, combine);
  for (int w = 0; w < kWindows; ++w)
    for (int v = 0; v < kVectors; ++v) hn::StoreU(finish(result[w][v]), d, out + w * kBlock + v * kLanes);
}

// Whether the next windows of a row lie inside of it.
HWY_INLINE bool areInside(const PoolShape& s, int64_t x, int64_t left) {
  return x + kWindows <= s.outWidth && left >= 0 &&
         left + (kWindows - 1) * s.strideWidth + (s.kernelWidth - 1) * s.dilationWidth < s.inWidth;
}

// ---- rows of a plain plane: a vector holds neighbouring windows ----

using Wide = hn::ScalableTag<float>;
using WideVector = hn::Vec<Wide>;

// Every kStride-th float from `in` on; 0: every `stride`-th.
template <int kStride>
HWY_INLINE WideVector loadApart(const float* in, int64_t stride) {
  const Wide d;
  if constexpr (kStride == 1) {
    return hn::LoadU(d, in);
  } else if constexpr (kStride == 2) {
    const auto low = hn::LoadU(d, in), high = hn::LoadU(d, in + hn::Lanes(d));
    return hn::ConcatEven(d, high, low);
  } else {
    const hn::RebindToSigned<Wide> di;
    return hn::GatherIndex(d, in, hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(stride))));
  }
}

// out[x] = what the windows of a row combine; `columns` has what they combine down, and margins.
template <int kStride, class Combine>
HWY_INLINE void combineAcross(const PoolShape& s, const float* columns, float start, float* out, Combine combine) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t x = 0; x < s.outWidth; x += lanes) {
    const auto there = hn::FirstN(d, static_cast<size_t>(std::min(lanes, s.outWidth - x)));
    WideVector result = hn::Set(d, start);
    const float* in = columns + x * s.strideWidth;
    int64_t i = 0;
    if constexpr (kStride == 2)  // neighbours lie in the same two vectors
      for (; s.dilationWidth == 1 && i + 2 <= s.kernelWidth; i += 2) {
        const auto low = hn::LoadU(d, in + i), high = hn::LoadU(d, in + i + lanes);
        result = combine(combine(result, hn::ConcatEven(d, high, low)), hn::ConcatOdd(d, high, low));
      }
    for (; i < s.kernelWidth; ++i)
      result = combine(result, loadApart<kStride>(in + i * s.dilationWidth, s.strideWidth));
    hn::BlendedStore(result, there, d, out + x);
  }
}

// Floats of a row with margins, as vectors of windows read it.
HWY_INLINE int64_t floatsOfRow(const PoolShape& s) {
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(Wide())), computed = (s.outWidth + lanes - 1) / lanes * lanes;
  const int64_t combined = (s.inWidth + lanes - 1) / lanes * lanes;
  return std::max((computed + 1) * s.strideWidth + (s.kernelWidth - 1) * s.dilationWidth, s.padLeft + combined);
}

// Of so many rows what windows combine down is written before any of it is read: loads wait for stores of which they
// take parts.
inline constexpr int64_t kRowsAtOnce = 4;
inline int64_t floatsOfColumns(const PoolShape& s) { return floatsOfRow(s) * kRowsAtOnce; }

// Windows of rows [rows.begin, rows.end): combines from `start` on, which margins count as, down into `columns` and
// then across. Calls finish(y, kernel rows inside, row of the output) for each.
template <class Combine, class Finish>
HWY_INLINE void combinePlainRows(const PoolShape& s, const float* in, float* out, Piece rows, float start,
                                 float* columns, Combine combine, Finish finish) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), distance = floatsOfRow(s);
  std::fill_n(columns, floatsOfColumns(s), start);
  auto topOf = [&](int64_t y) { return y * s.strideHeight - s.padTop; };
  auto insideOf = [&](int64_t y) { return windowInside(topOf(y), s.kernelHeight, s.dilationHeight, s.inHeight); };
  for (int64_t first = rows.begin; first < rows.end; first += kRowsAtOnce) {
    const int64_t end = std::min(first + kRowsAtOnce, rows.end);
    for (int64_t y = first; y < end; ++y) {
      const Piece ky = insideOf(y);
      for (int64_t x = 0; x < s.inWidth; x += lanes) {
        const auto there = hn::FirstN(d, static_cast<size_t>(std::min(lanes, s.inWidth - x)));
        WideVector column = hn::Set(d, start);
        for (int64_t j = ky.begin; j < ky.end; ++j)
          column = combine(column, hn::MaskedLoad(there, d, in + (topOf(y) + j * s.dilationHeight) * s.inWidth + x));
        // What is read at once is written whole.
        hn::StoreU(hn::IfThenElse(there, column, hn::Set(d, start)), d,
                   columns + (y - first) * distance + s.padLeft + x);
      }
    }
    for (int64_t y = first; y < end; ++y) {
      float* row = out + y * s.outWidth;
      const float* made = columns + (y - first) * distance;
      if (s.strideWidth == 1)
        combineAcross<1>(s, made, start, row, combine);
      else if (s.strideWidth == 2)
        combineAcross<2>(s, made, start, row, combine);
      else
        combineAcross<0>(s, made, start, row, combine);
      finish(topOf(y), insideOf(y), row);
    }
  }
}

// Windows of 2 x 2 that touch and lie inside of the plane.
inline bool areSquares(const PoolShape& s) {
  return s.kernelHeight == 2 && s.kernelWidth == 2 && s.strideHeight == 2 && s.strideWidth == 2 && s.padTop == 0 &&
         s.padLeft == 0 && s.dilationHeight == 1 && s.dilationWidth == 1 && 2 * s.outHeight <= s.inHeight &&
         2 * s.outWidth <= s.inWidth;
}

// They need no margins, nor rows in between.
void maxOfSquares(const PoolShape& s, const float* in, float* out, Piece rows) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto best = [d](WideVector a, WideVector b) HWY_ATTR { return maxKeepingNan(d, a, b); };
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const float *upper = in + 2 * y * s.inWidth, *lower = upper + s.inWidth;
    float* row = out + y * s.outWidth;
    int64_t x = 0;
    for (; x + lanes <= s.outWidth; x += lanes) {
      const auto low = best(hn::LoadU(d, upper + 2 * x), hn::LoadU(d, lower + 2 * x));
      const auto high = best(hn::LoadU(d, upper + 2 * x + lanes), hn::LoadU(d, lower + 2 * x + lanes));
      hn::StoreU(best(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)), d, row + x);
    }
    if (x == s.outWidth) continue;
    const int64_t left = 2 * (s.outWidth - x);
    const auto first = hn::FirstN(d, static_cast<size_t>(std::min(lanes, left))),
               second = hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, left - lanes)));
    auto load = [&](const float* from) HWY_ATTR {
      return std::pair(hn::MaskedLoad(first, d, from), hn::MaskedLoad(second, d, from + std::min(lanes, left)));
    };
    const auto [upperLow, upperHigh] = load(upper + 2 * x);
    const auto [lowerLow, lowerHigh] = load(lower + 2 * x);
    const auto low = best(upperLow, lowerLow), high = best(upperHigh, lowerHigh);
    hn::BlendedStore(best(hn::ConcatEven(d, high, low), hn::ConcatOdd(d, high, low)),
                     hn::FirstN(d, static_cast<size_t>(left / 2)), d, row + x);
  }
}

void maxPlain(const PoolShape& s, const float* in, float* out, Piece rows) {
  if (areSquares(s)) return maxOfSquares(s, in, out, rows);
  combinePlainRows(
      s, in, out, rows, -std::numeric_limits<float>::infinity(), threadScratch(floatsOfColumns(s)),
      [](WideVector best, WideVector value) HWY_ATTR { return maxKeepingNan(Wide(), best, value); },
      [](int64_t, Piece, float*) {});
}

void averagePlain(const PoolShape& s, bool countPadding, int64_t divisor, const float* in, float* out, Piece rows) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  float *columns = threadScratch(floatsOfColumns(s) + s.outWidth), *widths = columns + floatsOfColumns(s);
  for (int64_t x = 0; x < s.outWidth; ++x) {
    const int64_t left = x * s.strideWidth - s.padLeft, right = left + s.kernelWidth;
    const int64_t seen = std::min(right, s.inWidth) - std::max<int64_t>(left, 0);
    const int64_t wide = countPadding ? std::min(right, s.inWidth + s.padRight) - left : seen;
    // Of nothing the mean is 0.
    widths[x] = seen <= 0 ? std::numeric_limits<float>::infinity() : static_cast<float>(divisor ? 1 : wide);
  }
  combinePlainRows(
      s, in, out, rows, 0, columns, [](WideVector sum, WideVector value) HWY_ATTR { return hn::Add(sum, value); },
      [&](int64_t top, Piece ky, float* row) HWY_ATTR {
        const int64_t tall = std::min(top + s.kernelHeight, s.inHeight + s.padBottom) - top, seen = ky.end - ky.begin;
        const auto height = hn::Set(d, static_cast<float>(seen == 0      ? 1
                                                          : divisor      ? divisor
                                                          : countPadding ? tall
                                                                         : seen));
        for (int64_t x = 0; x < s.outWidth; x += lanes) {
          const auto there = hn::FirstN(d, static_cast<size_t>(std::min(lanes, s.outWidth - x)));
          const auto count = hn::Mul(height, hn::MaskedLoad(there, d, widths + x));
          hn::BlendedStore(hn::Div(hn::MaskedLoad(there, d, row + x), count), there, d, row + x);
        }
      });
}

// ---- blocks of 16 channels ----

void maxBlocked(const PoolShape& s, const float* in, float* out, Piece rows) {
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    Piece ky = windowInside(top, s.kernelHeight, s.dilationHeight, s.inHeight);
    for (int64_t x = 0; x < s.outWidth; ++x) {
      const int64_t left = x * s.strideWidth - s.padLeft;
      if (areInside(s, x, left)) {
        poolWindows(
            s, in, ky, top, left, hn::Set(d, -std::numeric_limits<float>::infinity()),
            out + (y * s.outWidth + x) * kBlock,
            [=](V best, V value) HWY_ATTR { return maxKeepingNan(d, best, value); },
            [](V best) HWY_ATTR { return best; });
        x += kWindows - 1;
        continue;
      }
      Piece kx = windowInside(left, s.kernelWidth, s.dilationWidth, s.inWidth);
      for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
        V best = hn::Set(d, -std::numeric_limits<float>::infinity());
        for (int64_t j = ky.begin; j < ky.end; ++j)
          for (int64_t i = kx.begin; i < kx.end; ++i) {
            int64_t at = (top + j * s.dilationHeight) * s.inWidth + left + i * s.dilationWidth;
            best = maxKeepingNan(d, best, hn::LoadU(d, in + at * kBlock + lane));
          }
        hn::StoreU(best, d, out + (y * s.outWidth + x) * kBlock + lane);
      }
    }
  }
}

void averageBlocked(const PoolShape& s, bool countPadding, int64_t divisor, const float* in, float* out, Piece rows) {
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    const int64_t tall = std::min(top + s.kernelHeight, s.inHeight + s.padBottom) - top;
    Piece ky = windowInside(top, s.kernelHeight, 1, s.inHeight);
    for (int64_t x = 0; x < s.outWidth; ++x) {
      const int64_t left = x * s.strideWidth - s.padLeft;
      if (areInside(s, x, left) && ky.end > ky.begin) {
        const int64_t height = countPadding ? tall : ky.end - ky.begin;
        const V divided = hn::Set(d, static_cast<float>(divisor ? divisor : height * s.kernelWidth));
        poolWindows(
            s, in, ky, top, left, hn::Zero(d), out + (y * s.outWidth + x) * kBlock,
            [](V sum, V value) HWY_ATTR { return hn::Add(sum, value); },
            [=](V sum) HWY_ATTR { return hn::Div(sum, divided); });
        x += kWindows - 1;
        continue;
      }
      const int64_t wide = std::min(left + s.kernelWidth, s.inWidth + s.padRight) - left;
      Piece kx = windowInside(left, s.kernelWidth, 1, s.inWidth);
      const int64_t seen = (ky.end - ky.begin) * (kx.end - kx.begin);
      const int64_t count = divisor ? divisor : countPadding ? tall * wide : seen;
      const V divided = hn::Set(d, static_cast<float>(count));
      for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
        V sum = hn::Zero(d);
        for (int64_t j = ky.begin; j < ky.end; ++j)
          for (int64_t i = kx.begin; i < kx.end; ++i)
            sum = hn::Add(sum, hn::LoadU(d, in + ((top + j) * s.inWidth + left + i) * kBlock + lane));
        hn::StoreU(seen ? hn::Div(sum, divided) : hn::Zero(d), d, out + (y * s.outWidth + x) * kBlock + lane);
      }
    }
  }
}

// Sums of 16 lanes over `area` pixels, from four partial sums.
void sumBlocked(const float* in, int64_t area, float* sums) {
  const hn::CappedTag<float, kBlock> d;
  for (int64_t lane = 0; lane < kBlock; lane += kLanes) {
    auto a = hn::Zero(d), b = a, c = a, e = a;
    int64_t i = 0;
    for (; i + 4 <= area; i += 4) {
      const float* p = in + i * kBlock + lane;
      a = hn::Add(a, hn::LoadU(d, p));
      b = hn::Add(b, hn::LoadU(d, p + kBlock));
      c = hn::Add(c, hn::LoadU(d, p + 2 * kBlock));
      e = hn::Add(e, hn::LoadU(d, p + 3 * kBlock));
    }
    for (; i < area; ++i) a = hn::Add(a, hn::LoadU(d, in + i * kBlock + lane));
    hn::StoreU(hn::Add(hn::Add(a, b), hn::Add(c, e)), d, sums + lane);
  }
}

float sumPlain(const float* in, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto a = hn::Zero(d), b = a;
  int64_t i = 0;
  for (; i + 2 * lanes <= count; i += 2 * lanes) {
    a = hn::Add(a, hn::LoadU(d, in + i));
    b = hn::Add(b, hn::LoadU(d, in + i + lanes));
  }
  float sum = hn::GetLane(hn::SumOfLanes(d, hn::Add(a, b)));
  for (; i < count; ++i) sum += in[i];
  return sum;
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// Calls body(plane, rows) over all planes, in pieces of about 10 us where one element costs so many ns.
template <class Body>
void overPlanes(int64_t planes, int64_t rows, double elements, double nanoseconds, int threads, Body&& body) {
  const double cost = elements * nanoseconds * 1e-3;
  threads = threadsWorth(cost, threads);
  const int64_t wanted = piecesWorth(cost, 128);
  const int64_t planePieces = std::min(planes, wanted);
  if (planePieces == 0 || rows == 0) return;
  const int64_t rowPieces = std::min(rows, (wanted + planePieces - 1) / planePieces);
  parallelFor(planePieces * rowPieces, threads, [&](int64_t i) {
    // Rows of all planes together, as convolutions have made them.
    Piece which = pieceOf(planes, planePieces, i % planePieces);
    for (int64_t plane = which.begin; plane < which.end; ++plane)
      body(plane, pieceOf(rows, rowPieces, i / planePieces));
  });
}

template <class Body>
void pool(const PoolShape& s, ActivationLayout layout, const float* input, float* output, int threads, Body&& body) {
  const bool blocked = layout == ActivationLayout::Blocked;
  const int64_t lane = blocked ? kBlock : 1;
  const int64_t planes = s.batch * (blocked ? channelBlocks(s.channels) : s.channels);
  const double elements = static_cast<double>(planes * lane * s.outHeight * s.outWidth) *
                          static_cast<double>(s.kernelHeight * s.kernelWidth);
  overPlanes(planes, s.outHeight, elements, blocked ? 0.05 : 0.7, threads, [&](int64_t plane, Piece rows) {
    body(input + plane * s.inHeight * s.inWidth * lane, output + plane * s.outHeight * s.outWidth * lane, rows);
  });
}

}  // namespace

void maxPool2d(const PoolShape& s, ActivationLayout layout, const float* input, float* output, int threads) {
  auto rows = layout == ActivationLayout::Blocked ? TS_SIMD(maxBlocked) : TS_SIMD(maxPlain);
  pool(s, layout, input, output, threads, [&](const float* in, float* out, Piece piece) { rows(s, in, out, piece); });
}

void averagePool2d(const PoolShape& s, ActivationLayout layout, bool countPadding, int64_t divisor, const float* input,
                   float* output, int threads) {
  const bool blocked = layout == ActivationLayout::Blocked;
  pool(s, layout, input, output, threads, [&](const float* in, float* out, Piece piece) {
    if (blocked)
      TS_SIMD(averageBlocked)(s, countPadding, divisor, in, out, piece);
    else
      TS_SIMD(averagePlain)(s, countPadding, divisor, in, out, piece);
  });
}

void globalAveragePool(int64_t batch, int64_t channels, int64_t area, ActivationLayout layout, const float* input,
                       float* output, int threads) {
  const auto elements = static_cast<double>(batch * channels * area);
  const auto count = static_cast<float>(area);
  if (layout == ActivationLayout::Plain) {
    auto sum = TS_SIMD(sumPlain);
    overPlanes(batch * channels, 1, elements, 0.05, threads,
               [&](int64_t plane, Piece) { output[plane] = sum(input + plane * area, area) / count; });
    return;
  }
  auto sum = TS_SIMD(sumBlocked);
  const int64_t blocks = channelBlocks(channels);
  overPlanes(batch * blocks, 1, elements, 0.05, threads, [&](int64_t plane, Piece) {
    alignas(64) float sums[kBlock];
    sum(input + plane * area * kBlock, area, sums);
    const int64_t first = plane % blocks * kBlock;
    float* out = output + plane / blocks * channels + first;
    for (int64_t c = 0; c < std::min<int64_t>(kBlock, channels - first); ++c) out[c] = sums[c] / count;
  });
}

}  // namespace tscompile
#endif
