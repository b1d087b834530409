#include "runtime/kernels/pool2d.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/layout.h"

#include <algorithm>
#include <limits>

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

// Kernel positions that lie inside [0, size).
HWY_INLINE Piece windowInside(int64_t at, int64_t kernel, int64_t dilation, int64_t size) {
  int64_t begin = at >= 0 ? 0 : std::min(kernel, (-at + dilation - 1) / dilation);
  int64_t end = at >= size ? 0 : std::min(kernel, (size - at + dilation - 1) / dilation);
  return {begin, std::max(begin, end)};
}

template <class V, class D>
HWY_INLINE V maxKeepingNan(D, V best, V value) {
  return hn::IfThenElse(hn::Or(hn::Gt(value, best), hn::IsNaN(value)), value, best);
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

// Windows of a row that lie inside of it: those of a whole number of vectors, or none.
HWY_INLINE Piece windowsInside(const PoolShape& s) {
  const int64_t room = s.inWidth - 1 - (s.kernelWidth - 1) * s.dilationWidth + s.padLeft;
  const int64_t first = (s.padLeft + s.strideWidth - 1) / s.strideWidth;
  const int64_t end = room < 0 ? 0 : std::min(s.outWidth, room / s.strideWidth + 1);
  return end - first < static_cast<int64_t>(hn::Lanes(Wide())) ? Piece{0, 0} : Piece{first, end};
}

// Every kStride-th float from `in` on; 0: every `stride`-th. Reads no float behind the last one.
template <int kStride>
HWY_INLINE WideVector loadApart(const float* in, int64_t stride) {
  const Wide d;
  if constexpr (kStride == 1) {
    return hn::LoadU(d, in);
  } else if constexpr (kStride == 2) {
    // The second half of the lanes from floats that begin one earlier.
    const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
    const auto low = hn::LoadU(d, in), high = hn::LoadU(d, in + lanes - 1);
    return hn::ConcatUpperLower(d, hn::ConcatOdd(d, high, high), hn::ConcatEven(d, low, low));
  } else {
    const hn::RebindToSigned<Wide> di;
    return hn::GatherIndex(d, in, hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(stride))));
  }
}

// Stores finish(result) of windows [inside.begin, inside.end) of a row: combines from `start` on, down and then across.
// `columns` is room for a row of the input. The last vectors may be computed again.
template <int kStride, class Combine, class Finish>
HWY_INLINE void poolInside(const PoolShape& s, const float* in, Piece ky, int64_t top, Piece inside, float start,
                           float* columns, float* out, Combine combine, Finish finish) {
  const Wide d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const float* row = in + (top + ky.begin * s.dilationHeight) * s.inWidth;
  const int64_t seen = ky.end - ky.begin, down = s.dilationHeight * s.inWidth;
  if (seen != 1) {
    for (int64_t at = 0; at < s.inWidth; at += lanes) {
      const int64_t x = std::min(at, s.inWidth - lanes);
      WideVector column = hn::Set(d, start);
      for (int64_t j = 0; j < seen; ++j) column = combine(column, hn::LoadU(d, row + j * down + x));
      hn::StoreU(column, d, columns + x);
    }
    row = columns;
  }
  for (int64_t at = inside.begin; at < inside.end; at += lanes) {
    const int64_t x = std::min(at, inside.end - lanes);
    const float* first = row + x * s.strideWidth - s.padLeft;
    WideVector result = hn::Set(d, start);
    for (int64_t i = 0; i < s.kernelWidth; ++i)
      result = combine(result, loadApart<kStride>(first + i * s.dilationWidth, s.strideWidth));
    hn::StoreU(finish(result), d, out + x);
  }
}
template <class Combine, class Finish>
HWY_INLINE void poolInside(const PoolShape& s, const float* in, Piece ky, int64_t top, Piece inside, float start,
                           float* columns, float* out, Combine combine, Finish finish) {
  if (s.strideWidth == 1)
    poolInside<1>(s, in, ky, top, inside, start, columns, out, combine, finish);
  else if (s.strideWidth == 2)
    poolInside<2>(s, in, ky, top, inside, start, columns, out, combine, finish);
  else
    poolInside<0>(s, in, ky, top, inside, start, columns, out, combine, finish);
}

// kLane floats of a pixel lie together: 16 in a blocked plane, 1 in a plain one.
template <class D, int64_t kLane>
HWY_INLINE void maxRows(D d, const PoolShape& s, const float* in, float* out, Piece rows) {
  using V = hn::Vec<D>;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(D()));
  float* columns = kLane == 1 ? threadScratch(s.inWidth) : nullptr;
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    Piece ky = windowInside(top, s.kernelHeight, s.dilationHeight, s.inHeight);
    const Piece inside = kLane == 1 ? windowsInside(s) : Piece{0, 0};
    if (inside.end > inside.begin) {
      const Wide w;
      poolInside(
          s, in, ky, top, inside, -std::numeric_limits<float>::infinity(), columns, out + y * s.outWidth,
          [=](WideVector best, WideVector value) HWY_ATTR { return maxKeepingNan(w, best, value); },
          [](WideVector best) HWY_ATTR { return best; });
    }
    for (int64_t x = 0; x < s.outWidth; ++x) {
      if (x == inside.begin) x = inside.end;
      if (x == s.outWidth) break;
      const int64_t left = x * s.strideWidth - s.padLeft;
      if constexpr (kLane == kBlock)
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
      for (int64_t lane = 0; lane < kLane; lane += kStep) {
        V best = hn::Set(d, -std::numeric_limits<float>::infinity());
        for (int64_t j = ky.begin; j < ky.end; ++j)
          for (int64_t i = kx.begin; i < kx.end; ++i) {
            int64_t at = (top + j * s.dilationHeight) * s.inWidth + left + i * s.dilationWidth;
            best = maxKeepingNan(d, best, hn::LoadU(d, in + at * kLane + lane));
          }
        hn::StoreU(best, d, out + (y * s.outWidth + x) * kLane + lane);
      }
    }
  }
}

template <class D, int64_t kLane>
HWY_INLINE void averageRows(D d, const PoolShape& s, bool countPadding, int64_t divisor, const float* in, float* out,
                            Piece rows) {
  using V = hn::Vec<D>;
  constexpr int64_t kStep = static_cast<int64_t>(hn::MaxLanes(D()));
  float* columns = kLane == 1 ? threadScratch(s.inWidth) : nullptr;
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const int64_t top = y * s.strideHeight - s.padTop;
    const int64_t tall = std::min(top + s.kernelHeight, s.inHeight + s.padBottom) - top;
    Piece ky = windowInside(top, s.kernelHeight, 1, s.inHeight);
    const Piece inside = kLane == 1 && ky.end > ky.begin ? windowsInside(s) : Piece{0, 0};
    if (inside.end > inside.begin) {
      const int64_t height = countPadding ? tall : ky.end - ky.begin;
      const WideVector divided = hn::Set(Wide(), static_cast<float>(divisor ? divisor : height * s.kernelWidth));
      poolInside(
          s, in, ky, top, inside, 0, columns, out + y * s.outWidth,
          [](WideVector sum, WideVector value) HWY_ATTR { return hn::Add(sum, value); },
          [=](WideVector sum) HWY_ATTR { return hn::Div(sum, divided); });
    }
    for (int64_t x = 0; x < s.outWidth; ++x) {
      if (x == inside.begin) x = inside.end;
      if (x == s.outWidth) break;
      const int64_t left = x * s.strideWidth - s.padLeft;
      if constexpr (kLane == kBlock)
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
      for (int64_t lane = 0; lane < kLane; lane += kStep) {
        V sum = hn::Zero(d);
        for (int64_t j = ky.begin; j < ky.end; ++j)
          for (int64_t i = kx.begin; i < kx.end; ++i)
            sum = hn::Add(sum, hn::LoadU(d, in + ((top + j) * s.inWidth + left + i) * kLane + lane));
        hn::StoreU(seen ? hn::Div(sum, divided) : hn::Zero(d), d, out + (y * s.outWidth + x) * kLane + lane);
      }
    }
  }
}

void maxBlocked(const PoolShape& s, const float* in, float* out, Piece rows) {
  maxRows<hn::CappedTag<float, kBlock>, kBlock>({}, s, in, out, rows);
}
void maxPlain(const PoolShape& s, const float* in, float* out, Piece rows) {
  maxRows<hn::CappedTag<float, 1>, 1>({}, s, in, out, rows);
}
void averageBlocked(const PoolShape& s, bool countPadding, int64_t divisor, const float* in, float* out, Piece rows) {
  averageRows<hn::CappedTag<float, kBlock>, kBlock>({}, s, countPadding, divisor, in, out, rows);
}
void averagePlain(const PoolShape& s, bool countPadding, int64_t divisor, const float* in, float* out, Piece rows) {
  averageRows<hn::CappedTag<float, 1>, 1>({}, s, countPadding, divisor, in, out, rows);
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
  if (cost < 20) threads = 1;
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, 128);
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
