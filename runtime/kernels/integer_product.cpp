#include "runtime/kernels/integer_product.h"

#include "runtime/kernels/simd.h"

#include <algorithm>
#include <utility>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/integer_product.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/requantize-inl.h"
#include "runtime/kernels/tile-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// sum[i] + a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1]
template <class D, class V, class V16>
HWY_INLINE V addPairs(D d, V16 a, V16 b, V sum) {
#if HWY_ARCH_X86
  V unused = hn::Zero(d);
  return hn::ReorderWidenMulAccumulate(d, a, b, sum, unused);
#else
  auto even = [&](V16 v) HWY_ATTR { return hn::ShiftRight<16>(hn::ShiftLeft<16>(hn::BitCast(d, v))); };
  auto odd = [&](V16 v) HWY_ATTR { return hn::ShiftRight<16>(hn::BitCast(d, v)); };
  return hn::Add(sum, hn::Add(hn::Mul(even(a), even(b)), hn::Mul(odd(a), odd(b))));
#endif
}

// Sums of some rows and panels, in floats, brought to the results' grid if there is one. kStride: between rows of A;
// 0: p.rowStride.
template <int kRows, int kPanels, int kStride>
HWY_NOINLINE void integerTile(const Product& p, const RowTile& tile, int64_t panel, float* c, int64_t cRow,
                              int64_t cPanel) {
  constexpr int kSums = kPanels * kVectors;
  const hn::CappedTag<int32_t, kBlock> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const hn::CappedTag<float, kBlock> d;
  const Epilogue& e = p.epilogue;
  const int64_t stride = kStride ? kStride : p.rowStride, distance = panelBytes(p.depthOf(), p.storage);
  hn::Vec<decltype(d32)> sum[kRows][kSums];
#pragma GCC unroll 16
  for (int v = 0; v < kSums; ++v) {
    const int64_t column = (panel + v / kVectors) * kBlock + (v % kVectors) * kLanes;
    const auto start = e.integerBias ? hn::LoadU(d32, e.integerBias + column)
                       : e.bias      ? hn::ConvertTo(d32, hn::LoadU(d, e.bias + column))
                                     : hn::Zero(d32);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[r][v] = start;
  }
  const int8_t* HWY_RESTRICT b = static_cast<const int8_t*>(p.b) + panel * distance;
  for (int64_t step = 0; step < p.stepCount; ++step) {
    const int16_t* HWY_RESTRICT a = p.integers + tile.a + p.steps[step];
    const int64_t depth = step < p.stepCount - p.tailSteps ? p.depth : p.tailDepth;
    for (int64_t k = 0; k < depth; k += 2, b += 2 * kBlock) {
      hn::Vec<decltype(d16)> weights[kSums];
#pragma GCC unroll 16
      for (int v = 0; v < kSums; ++v)
        weights[v] = hn::PromoteTo(d16, hn::LoadU(d8, b + (v / kVectors) * distance + (v % kVectors) * kLanes * 2));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        int32_t two;
        __builtin_memcpy(&two, a + r * stride + k, sizeof(two));
        const auto pair = hn::BitCast(d16, hn::Set(d32, two));
#pragma GCC unroll 16
        for (int v = 0; v < kSums; ++v) sum[r][v] = addPairs(d32, pair, weights[v], sum[r][v]);
      }
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kSums; ++v) {
    const int64_t lane = (v % kVectors) * kLanes;
    const auto factor = e.factors ? hn::LoadU(d, e.factors + (panel + v / kVectors) * kBlock + lane) : hn::Zero(d);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      auto result = hn::ConvertTo(d, sum[r][v]);
      if (e.factors) result = rounded(d, hn::Mul(result, factor), {e.alpha, e.beta});
      hn::StoreU(result, d, c + r * cRow + (v / kVectors) * cPanel + lane);
    }
  }
}

using IntegerTileFunction = void (*)(const Product&, const RowTile&, int64_t, float*, int64_t, int64_t);

template <int kPanels, int kStride, int... kRow>
inline IntegerTileFunction integerTileOf(int rows, std::integer_sequence<int, kRow...>) {
  static constexpr IntegerTileFunction kTable[] = {integerTile<kRow + 1, kPanels, kStride>...};
  return kTable[rows - 1];
}

template <int kStride>
void integerTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel) {
  constexpr auto kRows = std::make_integer_sequence<int, kTileRows>();
  for (int64_t panel = firstPanel; panel < endPanel;) {
    const int64_t left = p.columns - panel * kBlock;
    const bool isPart = !p.paddedColumns && left < kBlock;
    const bool isWide =
        kTilePanels > 1 && panel + kTilePanels <= endPanel && (p.paddedColumns || left >= kTilePanels * kBlock);
    for (int64_t i = 0; i < tileCount; ++i) {
      const RowTile& tile = tiles[i];
      float* c = p.c + tile.c + panel * p.cPanel;
      if (isWide) {
        integerTileOf<kTilePanels, kStride>(tile.rows, kRows)(p, tile, panel, c, p.cRow, p.cPanel);
      } else if (!isPart) {
        integerTileOf<1, kStride>(tile.rows, kRows)(p, tile, panel, c, p.cRow, p.cPanel);
      } else {
        alignas(64) float result[kTileRows * kBlock];
        integerTileOf<1, kStride>(tile.rows, kRows)(p, tile, panel, result, kBlock, 0);
        for (int r = 0; r < tile.rows; ++r) std::copy_n(result + r * kBlock, left, c + r * p.cRow);
      }
    }
    panel += isWide ? kTilePanels : 1;
  }
}

void productOfIntegers(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel,
                       int64_t endPanel) {
  p.rowStride == kBlock ? integerTiles<kBlock>(p, tiles, tileCount, firstPanel, endPanel)
                        : integerTiles<0>(p, tiles, tileCount, firstPanel, endPanel);
}

void integersOf(const float* from, int64_t count, int16_t* to) {
  const hn::ScalableTag<float> d;
  const hn::RebindToSigned<decltype(d)> d32;
  const hn::Rebind<int16_t, decltype(d32)> d16;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(hn::DemoteTo(d16, hn::ConvertTo(d32, hn::LoadU(d, from + i))), d16, to + i);
  for (; i < count; ++i) to[i] = static_cast<int16_t>(from[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void runIntegerTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel) {
  TS_SIMD(productOfIntegers)(p, tiles, tileCount, firstPanel, endPanel);
}

void toElements(const float* from, int64_t count, int16_t* to) { TS_SIMD(integersOf)(from, count, to); }

}  // namespace tscompile
#endif
