// Matrices whose columns lie one after the other: for few rows of x sums of products over each column, for many rows
// panels.
#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/simd.h"
#include "runtime/trtllm/matmul/matmul.h"
#include "runtime/trtllm/matmul/panels.h"

#include <algorithm>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/trtllm/matmul/columns.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float dotKernel(const float* a, const float* b, int64_t count) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = s0, s2 = s0, s3 = s0;
  int64_t i = 0;
  for (; i + 4 * lanes <= count; i += 4 * lanes) {
    s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
    s1 = hn::MulAdd(hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes), s1);
    s2 = hn::MulAdd(hn::LoadU(d, a + i + 2 * lanes), hn::LoadU(d, b + i + 2 * lanes), s2);
    s3 = hn::MulAdd(hn::LoadU(d, a + i + 3 * lanes), hn::LoadU(d, b + i + 3 * lanes), s3);
  }
  for (; i + lanes <= count; i += lanes) s0 = hn::MulAdd(hn::LoadU(d, a + i), hn::LoadU(d, b + i), s0);
  if (i < count) {
    auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    s1 = hn::MulAdd(hn::MaskedLoad(mask, d, a + i), hn::MaskedLoad(mask, d, b + i), s1);
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(hn::Add(s0, s1), hn::Add(s2, s3))));
}

inline constexpr int kTile = 4;

// kRows x kColumns sums over all of k, in products of pairs of int16.
template <int kRows, int kColumns>
void int8Tile(int64_t n, int64_t k, const int8_t* a, const int8_t* b, int32_t* c) {
  const hn::ScalableTag<int32_t> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d16));
  hn::Vec<decltype(d32)> sum[kRows][kColumns];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) sum[r][j] = hn::Zero(d32);
  auto step = [&](auto&& load) HWY_ATTR {
    hn::Vec<decltype(d16)> row[kRows];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) row[r] = hn::PromoteTo(d16, load(a + r * k));
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      auto column = hn::PromoteTo(d16, load(b + j * k));
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) {
        auto unused = hn::Zero(d32);
        sum[r][j] = hn::ReorderWidenMulAccumulate(d32, row[r], column, sum[r][j], unused);
        sum[r][j] = hn::Add(sum[r][j], unused);
      }
    }
  };
  int64_t i = 0;
  for (; i + lanes <= k; i += lanes) step([&](const int8_t* p) HWY_ATTR { return hn::LoadU(d8, p + i); });
  if (i < k)
    step([&](const int8_t* p) HWY_ATTR {
      HWY_ALIGN int8_t rest[HWY_MAX_BYTES] = {};
      std::copy_n(p + i, k - i, rest);
      return hn::Load(d8, rest);
    });
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) c[r * n + j] = hn::GetLane(hn::SumOfLanes(d32, sum[r][j]));
}

template <int kColumns>
void int8Rows(int64_t rows, int64_t n, int64_t k, const int8_t* a, const int8_t* b, int32_t* c) {
  int64_t r = 0;
  for (; r + kTile <= rows; r += kTile) int8Tile<kTile, kColumns>(n, k, a + r * k, b, c + r * n);
  for (; r < rows; ++r) int8Tile<1, kColumns>(n, k, a + r * k, b, c + r * n);
}

void int8Kernel(int64_t rows, int64_t n, int64_t k, const int8_t* a, const int8_t* b, int64_t first, int64_t end,
                int32_t* c) {
  int64_t j = first;
  for (; j + kTile <= end; j += kTile) int8Rows<kTile>(rows, n, k, a, b + j * k, c + j);
  for (; j < end; ++j) int8Rows<1>(rows, n, k, a, b + j * k, c + j);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

constexpr int64_t kPieceColumns = 16;

// [columns][rows] -> [rows][16].
void transpose(const float* from, int64_t columns, int64_t rows, float* to) {
  constexpr int64_t kRows = 16;
  for (int64_t first = 0; first < rows; first += kRows)
    for (int64_t c = 0; c < kBlock; ++c)
      for (int64_t r = first; r < std::min(rows, first + kRows); ++r)
        to[r * kBlock + c] = c < columns ? from[c * rows + r] : 0.0f;
}

}  // namespace

void multiplyColumns(int64_t m, int64_t n, int64_t k, const float* x, LoadColumn load, float* y, int threads) {
  if (m == 0 || n == 0) return;
  if (m > kFewRows) {
    auto fill = [&](int64_t column, int64_t panels, int64_t first, int64_t end, float* to) {
      constexpr int64_t kPart = 64;
      alignas(64) float columns[kBlock * kPart];
      const int64_t rows = end - first;
      for (int64_t p = 0; p < panels; ++p, column += kBlock) {
        const int64_t count = std::min<int64_t>(kBlock, n - column);
        for (int64_t part = 0; part < rows; part += kPart) {
          const int64_t size = std::min(kPart, rows - part);
          for (int64_t c = 0; c < count; ++c) load(column + c, first + part, first + part + size, columns + c * size);
          transpose(columns, count, size, to + (p * rows + part) * kBlock);
        }
      }
    };
    return multiplyPanels(m, n, k, x, fill, nullptr, y, threads);
  }
  auto dot = TS_SIMD(dotKernel);
  const double cost = static_cast<double>(k) * static_cast<double>(n) / 5e3;
  const int64_t units = (n + kPieceColumns - 1) / kPieceColumns;
  const int64_t pieces = std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, std::min<int64_t>(units, 64));
  parallelFor(pieces, threads, [&](int64_t i) {
    Piece piece = pieceOf(units, pieces, i);
    float* column = threadScratch(k);
    for (int64_t c = piece.begin * kPieceColumns; c < std::min(n, piece.end * kPieceColumns); ++c) {
      load(c, 0, k, column);
      for (int64_t r = 0; r < m; ++r) y[r * n + c] = dot(x + r * k, column, k);
    }
  });
}

void multiplyInt8(int64_t m, int64_t n, int64_t k, const int8_t* a, const int8_t* b, int32_t* c, int threads) {
  if (m == 0 || n == 0) return;
  auto kernel = TS_SIMD(int8Kernel);
  const double cost = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 50e3;
  const int64_t units = (n + kPieceColumns - 1) / kPieceColumns;
  const int64_t pieces = std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, std::min<int64_t>(units, 64));
  parallelFor(pieces, threads, [&](int64_t i) {
    Piece piece = pieceOf(units, pieces, i);
    kernel(m, n, k, a, b, piece.begin * kPieceColumns, std::min(n, piece.end * kPieceColumns), c);
  });
}

}  // namespace tscompile
#endif
