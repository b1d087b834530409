// Few rows of x: the work is the reading of the matrix, eight of its rows at a time, with sums of up to 1024 columns in
// the nearest cache. Long stretches of a row are read at a time: half as long ones take up to twice the time.
#include "ir/support/check.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/simd.h"
#include "runtime/trtllm/matmul/matmul.h"
#include "runtime/trtllm/matmul/panels.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <vector>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/trtllm/matmul/rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::CappedTag<float, kBlock>;
inline constexpr int64_t kVector = static_cast<int64_t>(HWY_LANES(float)) < kBlock ? HWY_LANES(float) : kBlock;
inline constexpr int64_t kColumns = 1024;  // whose sums are kept at a time
inline constexpr int kDeep = 8;            // rows of the matrix at a time

// A vector of values from the column that `p` points to; kBits of each.
struct LoadF32 {
  static constexpr int kBits = 32;
  HWY_INLINE hn::Vec<Floats> operator()(const std::byte* p) const {
    return hn::LoadU(Floats(), reinterpret_cast<const float*>(p));
  }
};
struct LoadF16 {
  static constexpr int kBits = 16;
  HWY_INLINE hn::Vec<Floats> operator()(const std::byte* p) const {
    const hn::Rebind<hwy::float16_t, Floats> d;
    return hn::PromoteTo(Floats(), hn::LoadU(d, reinterpret_cast<const hwy::float16_t*>(p)));
  }
};
struct LoadBF16 {
  static constexpr int kBits = 16;
  HWY_INLINE hn::Vec<Floats> operator()(const std::byte* p) const {
    const hn::Rebind<uint16_t, Floats> d;
    const hn::Rebind<uint32_t, Floats> wide;
    return hn::BitCast(Floats(),
                       hn::ShiftLeft<16>(hn::PromoteTo(wide, hn::LoadU(d, reinterpret_cast<const uint16_t*>(p)))));
  }
};
struct LoadInt8 {
  static constexpr int kBits = 8;
  HWY_INLINE hn::Vec<Floats> operator()(const std::byte* p) const {
    const hn::Rebind<int8_t, Floats> d;
    const hn::Rebind<int32_t, Floats> wide;
    return hn::ConvertTo(Floats(), hn::PromoteTo(wide, hn::LoadU(d, reinterpret_cast<const int8_t*>(p))));
  }
};
// Each byte goes to two lanes; shifts to the left bring its half up, one to the right back with the sign.
struct LoadInt4 {
  static constexpr int kBits = 4;
  HWY_INLINE hn::Vec<Floats> operator()(const std::byte* p) const {
    const hn::Rebind<uint8_t, Floats> d;
    const hn::Rebind<int32_t, Floats> wide;
    using Word = std::conditional_t<kVector == 4, uint32_t, uint64_t>;
    Word word = 0;
    std::memcpy(&word, p, static_cast<size_t>(kVector / 2));
    auto stored = hn::BitCast(d, hn::Set(hn::Repartition<Word, decltype(d)>(), word));
    auto twice = hn::InterleaveLower(d, stored, stored);
    alignas(64) static constexpr int32_t kShifts[kBlock] = {28, 24, 28, 24, 28, 24, 28, 24,
                                                            28, 24, 28, 24, 28, 24, 28, 24};
    auto shifted = hn::Shl(hn::PromoteTo(wide, twice), hn::Load(wide, kShifts));
    return hn::ConvertTo(Floats(), hn::ShiftRight<28>(shifted));
  }
};

template <class Load>
HWY_INLINE const std::byte* at(const WeightRows& w, int64_t row, int64_t column) {
  return w.data + row * w.rowBytes() + column * Load::kBits / 8;
}

// A vector of which only `count` columns are there.
template <class Load>
HWY_INLINE hn::Vec<Floats> loadSome(const std::byte* p, int64_t count) {
  alignas(64) std::byte bytes[kBlock * 4] = {};
  std::memcpy(bytes, p, static_cast<size_t>((count * Load::kBits + 7) / 8));
  return Load()(bytes);
}

// sums[r][column] += x[r][rows] * w[rows][column] for kCount rows of w.
template <class Load, int kRows, int kCount>
HWY_INLINE void addRows(const WeightRows& w, const float* x, int64_t row, int64_t first, int64_t count, float* sums) {
  const Floats d;
  const int64_t rowBytes = w.rowBytes(), full = count - count % kVector;
  const std::byte* from = at<Load>(w, row, first);
  auto body = [&](int64_t c, auto&& load) HWY_ATTR {
    hn::Vec<Floats> sum[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) sum[r] = hn::Load(d, sums + r * kColumns + c);
    const std::byte* p = from + c * Load::kBits / 8;
#pragma GCC unroll 8
    for (int j = 0; j < kCount; ++j) {
      auto value = load(p + j * rowBytes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) sum[r] = hn::MulAdd(hn::Set(d, x[r * w.k + row + j]), value, sum[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) hn::Store(sum[r], d, sums + r * kColumns + c);
  };
  for (int64_t c = 0; c < full; c += kVector) {
    // The rows after these, a line of each: they are far apart, so the processor's own prefetching does not see them.
    constexpr int64_t kLine = 64 * 8 / Load::kBits;
    if (kCount == kDeep && c % kLine == 0) {
      const std::byte* next = from + kDeep * rowBytes + c * Load::kBits / 8;
#pragma GCC unroll 8
      for (int j = 0; j < kDeep; ++j) __builtin_prefetch(next + j * rowBytes);
    }
    body(c, [](const std::byte* p) HWY_ATTR { return Load()(p); });
  }
  if (full < count) body(full, [&](const std::byte* p) HWY_ATTR { return loadSome<Load>(p, count - full); });
}

// What rows [row, stop) of the matrix add to the columns [first, first + count), for kRows rows of x.
template <class Load, int kRows>
void fewRows(const WeightRows& w, const float* x, const float* bias, int64_t row, int64_t stop, int64_t first,
             int64_t count, float* y) {
  alignas(64) float sums[kRows * kColumns], totals[kRows * kColumns];
  const int64_t group = w.groupRows();
  for (int r = 0; r < kRows; ++r)
    for (int64_t c = 0; c < count; ++c) totals[r * kColumns + c] = bias ? bias[first + c] : 0.0f;
  while (row < stop) {
    const int64_t g = row / group, begin = row, end = std::min(stop, (g + 1) * group);
    for (int r = 0; r < kRows; ++r) std::fill_n(sums + r * kColumns, (count + kBlock - 1) / kBlock * kBlock, 0.0f);
    int64_t i = row;
    row = end;
    for (; i + kDeep <= end; i += kDeep) addRows<Load, kRows, kDeep>(w, x, i, first, count, sums);
    for (; i < end; ++i) addRows<Load, kRows, 1>(w, x, i, first, count, sums);
    const float* scales = w.scales ? w.scales + g * w.n + first : nullptr;
    const float* zeros = w.zeros ? w.zeros + g * w.n + first : nullptr;
    for (int r = 0; r < kRows; ++r) {
      float* total = totals + r * kColumns;
      const float* sum = sums + r * kColumns;
      if (scales)
        for (int64_t c = 0; c < count; ++c) total[c] += sum[c] * scales[c];
      else
        for (int64_t c = 0; c < count; ++c) total[c] += sum[c];
      if (!zeros) continue;
      float all = 0;
      for (int64_t k = begin; k < end; ++k) all += x[r * w.k + k];
      for (int64_t c = 0; c < count; ++c) total[c] += all * zeros[c];
    }
  }
  for (int r = 0; r < kRows; ++r)
    std::memcpy(y + r * w.n + first, totals + r * kColumns, static_cast<size_t>(count) * sizeof(float));
}

template <class Load>
void someRows(const WeightRows& w, int64_t m, const float* x, const float* bias, int64_t row, int64_t stop,
              int64_t first, int64_t count, float* y) {
  static_assert(kFewRows == 4);
  constexpr decltype(&fewRows<Load, 1>) kTable[] = {fewRows<Load, 1>, fewRows<Load, 2>, fewRows<Load, 3>,
                                                    fewRows<Load, 4>};
  kTable[m - 1](w, x, bias, row, stop, first, count, y);
}

// One panel of 16 columns; lanes past the last column are zeros.
template <class Load>
void fillPanel(const WeightRows& w, int64_t column, int64_t first, int64_t end, float* to) {
  const Floats d;
  const int64_t lanes = std::min<int64_t>(kBlock, w.n - column);
  alignas(64) float scales[kBlock] = {}, zeros[kBlock] = {};
  int64_t group = -1;
  for (int64_t k = first; k < end; ++k, to += kBlock) {
    if (k / w.groupRows() != group) {
      group = k / w.groupRows();
      for (int64_t i = 0; i < lanes; ++i) {
        scales[i] = w.scales ? w.scales[group * w.n + column + i] : 1.0f;
        zeros[i] = w.zeros ? w.zeros[group * w.n + column + i] : 0.0f;
      }
    }
    for (int64_t v = 0; v < kBlock; v += kVector) {
      const std::byte* p = at<Load>(w, k, column + v);
      auto value = lanes >= v + kVector ? Load()(p) : lanes > v ? loadSome<Load>(p, lanes - v) : hn::Zero(d);
      hn::Store(hn::MulAdd(value, hn::Load(d, scales + v), hn::Load(d, zeros + v)), d, to + v);
    }
  }
}

template <class F>
HWY_INLINE void withFormat(DType format, F&& body) {
  switch (format) {
    case DType::Float32:
      return body(LoadF32());
    case DType::Float16:
      return body(LoadF16());
    case DType::BFloat16:
      return body(LoadBF16());
    case DType::Int8:
      return body(LoadInt8());
    case DType::Int4:
      return body(LoadInt4());
    default:
      TS_UNREACHABLE();
  }
}

void someRowsKernel(const WeightRows& w, int64_t m, const float* x, const float* bias, int64_t row, int64_t stop,
                    int64_t first, int64_t end, float* y) {
  withFormat(w.format, [&]<class Load>(Load) HWY_ATTR {
    for (; first < end; first += kColumns)
      someRows<Load>(w, m, x, bias, row, stop, first, std::min(kColumns, end - first), y);
  });
}

void fillKernel(const WeightRows& w, int64_t column, int64_t panels, int64_t first, int64_t end, float* to) {
  withFormat(w.format, [&]<class Load>(Load) HWY_ATTR {
    for (int64_t p = 0; p < panels; ++p)
      fillPanel<Load>(w, column + p * kBlock, first, end, to + p * (end - first) * kBlock);
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

namespace {

// Parts of about 400 KB: first of columns, as wide as their sums can be kept; then of rows, whose sums are added up.
void fewRowsInParts(const WeightRows& w, int64_t m, const float* x, const float* bias, float* y, int threads) {
  auto kernel = TS_SIMD(someRowsKernel);
  constexpr int64_t kUnit = 64, kWidest = 1024, kDeepest = 64;
  const int64_t units = (w.n + kUnit - 1) / kUnit, columnPieces = (w.n + kWidest - 1) / kWidest;
  const int64_t wanted = std::clamp<int64_t>(w.k * w.rowBytes() / 400'000, 1, 64);
  const int64_t rowUnits = std::max<int64_t>(1, w.k / kDeepest);
  const int64_t rowPieces = std::min((wanted + columnPieces - 1) / columnPieces, rowUnits);
  std::vector<float> sums(static_cast<size_t>((rowPieces - 1) * m * w.n));
  parallelFor(columnPieces * rowPieces, wanted > 1 ? threads : 1, [&](int64_t i) {
    const int64_t piece = i % rowPieces;
    Piece columns = pieceOf(units, columnPieces, i / rowPieces), rows = pieceOf(rowUnits, rowPieces, piece);
    const int64_t stop = piece + 1 == rowPieces ? w.k : rows.end * kDeepest;
    float* to = piece ? sums.data() + (piece - 1) * m * w.n : y;
    for (int64_t r = 0; r < m; r += kFewRows)
      kernel(w, std::min(kFewRows, m - r), x + r * w.k, piece ? nullptr : bias, rows.begin * kDeepest, stop,
             columns.begin * kUnit, std::min(w.n, columns.end * kUnit), to + r * w.n);
  });
  for (int64_t piece = 1; piece < rowPieces; ++piece)
    for (int64_t at = 0; at < m * w.n; ++at) y[at] += sums[static_cast<size_t>((piece - 1) * m * w.n + at)];
}

}  // namespace

int64_t WeightRows::rowBytes() const {
  return format == DType::Int4 ? n / 2 : n * static_cast<int64_t>(itemSize(format));
}

void multiplyRows(const WeightRows& w, int64_t m, const float* x, const float* bias, float* y, int threads) {
  if (m == 0 || w.n == 0) return;
  constexpr int64_t kMostRows = 16;  // four at a time, from where the part of the matrix is in cache then
  if (m > kMostRows) {
    auto fill = TS_SIMD(fillKernel);
    return multiplyPanels(
        m, w.n, w.k, x,
        [&](int64_t column, int64_t panels, int64_t first, int64_t end, float* to) {
          fill(w, column, panels, first, end, to);
        },
        bias, y, threads);
  }
  fewRowsInParts(w, m, x, bias, y, threads);
}

}  // namespace tscompile
#endif
