// The register tile that matrix products and convolutions share: rows of A, 16 k's at a time from wherever each step
// says, times panels of 16 columns of packed B. Included once per instruction set.
#if defined(TSCOMPILE_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_TILE_INL_H_
#undef TSCOMPILE_TILE_INL_H_
#else
#define TSCOMPILE_TILE_INL_H_
#endif

#include "runtime/kernels/simd.h"
#include "runtime/kernels/simd_math-inl.h"
#include "runtime/kernels/tile.h"

#include <hwy/highway.h>

#include <algorithm>
#include <type_traits>
#include <utility>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr int kLanes = static_cast<int>(HWY_LANES(float)) < kBlock ? static_cast<int>(HWY_LANES(float)) : kBlock;
inline constexpr int kVectors = kBlock / kLanes;  // per panel
#if HWY_TARGET == HWY_AVX3
inline constexpr int kTilePanels = 2;
inline constexpr int kTileRows = 14;   // 28 sums, 2 of B, 1 of A: 31 of 32 registers
inline constexpr int kWidePanels = 4;  // for few rows, so that loads of B keep the memory busy
inline constexpr int kWideRows = 6;
#elif HWY_TARGET == HWY_AVX2
inline constexpr int kTilePanels = 1;
inline constexpr int kTileRows = 6;  // 12 sums, 2 of B, 1 of A: 15 of 16 registers
inline constexpr int kWidePanels = 2;
inline constexpr int kWideRows = 3;
#else
inline constexpr int kTilePanels = 1;
inline constexpr int kTileRows = 2;
inline constexpr int kWidePanels = 1;
inline constexpr int kWideRows = 2;
#endif

// Blocks of pixels are fetched so many steps before they are read: another processor may have made them.
inline constexpr int64_t kStepsAhead = 2;

// Calls body(integral constant r) for each row r of a group.
template <int kGroup, class Body>
HWY_INLINE void forRowsOfGroup(Body&& body) {
  body(std::integral_constant<int, 0>());
  if constexpr (kGroup > 1) body(std::integral_constant<int, 1>());
  if constexpr (kGroup == 4) {
    body(std::integral_constant<int, 2>());
    body(std::integral_constant<int, 3>());
  }
}

// kStride: floats between rows of A; 0: t.rowStride. kPart: of the last panel only t.lanes columns are there.
// Load: how B is stored; void: f32. Else panelStride counts words, and depths are whole groups of its rows.
template <int kRows, int kPanels, int kStride, bool kPart = false, class Load = void>
HWY_NOINLINE void tileKernel(const Tile& t) {
  constexpr int kSums = kPanels * kVectors;
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  V sum[kRows][kSums];
  auto at = [](int vector) { return (vector % kVectors) * kLanes; };
  auto there = [&](int vector) HWY_ATTR {
    const int64_t lanes = vector / kVectors + 1 < kPanels ? kBlock : t.lanes;
    return hn::FirstN(d, static_cast<size_t>(std::max<int64_t>(0, lanes - at(vector))));
  };
  auto load = [&](const float* from, int vector) HWY_ATTR {
    if constexpr (kPart)
      return hn::MaskedLoad(there(vector), d, from);
    else
      return hn::LoadU(d, from);
  };
  if (t.accumulate) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < kSums; ++v) sum[r][v] = load(t.c + r * t.cRow + (v / kVectors) * t.cPanel + at(v), v);
  } else if (t.bias) {
#pragma GCC unroll 16
    for (int v = 0; v < kSums; ++v) {
      V b = load(t.bias + (v / kVectors) * kBlock + at(v), v);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) sum[r][v] = b;
    }
  } else {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < kSums; ++v) sum[r][v] = hn::Zero(d);
  }
  if (t.residual) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < kSums; ++v)
        sum[r][v] = hn::Add(sum[r][v], load(t.residual + r * t.cRow + (v / kVectors) * t.cPanel + at(v), v));
  }
  const int64_t stride = kStride ? kStride : t.rowStride;
  const float* HWY_RESTRICT b = t.b;
  const float* ahead = t.ahead;
  for (int64_t step = 0; step < t.stepCount; ++step) {
    if (kRows > kWideRows && ahead)
      for (int64_t i = 0; i < t.aheadLines; ++i, ahead += kBlock)
        for (int panel = 0; panel < kPanels; ++panel) __builtin_prefetch(ahead + panel * t.aheadStride, 0, 2);
    const float* HWY_RESTRICT a = t.a + t.steps[step];
    if (kStride == kBlock && t.depth == kBlock && step + kStepsAhead < t.stepCount) {
      const float* later = t.a + t.steps[step + kStepsAhead];
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) __builtin_prefetch(later + r * kStride);
    }
    if constexpr (std::is_void_v<Load>) {
#pragma GCC unroll 1
      for (int64_t k = 0; k < t.depth; ++k) {
        V bv[kSums];
#pragma GCC unroll 16
        for (int v = 0; v < kSums; ++v) bv[v] = hn::LoadU(d, b + (v / kVectors) * t.panelStride + at(v));
#pragma GCC unroll 16
        for (int r = 0; r < kRows; ++r) {
          V av = hn::Set(d, a[r * stride]);
#pragma GCC unroll 16
          for (int v = 0; v < kSums; ++v) sum[r][v] = hn::MulAdd(av, bv[v], sum[r][v]);
        }
        a += 1;
        b += kBlock;
      }
    } else {
#pragma GCC unroll 1
      for (int64_t k = 0; k < t.depth; k += Load::kGroup) {
        forRowsOfGroup<Load::kGroup>([&](auto row) HWY_ATTR {
          V bv[kSums];
#pragma GCC unroll 16
          for (int v = 0; v < kSums; ++v)
            bv[v] = Load().template load<row>(d, b + (v / kVectors) * t.panelStride, 0, at(v));
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r) {
            V av = hn::Set(d, a[r * stride + row]);
#pragma GCC unroll 16
            for (int v = 0; v < kSums; ++v) sum[r][v] = hn::MulAdd(av, bv[v], sum[r][v]);
          }
        });
        a += Load::kGroup;
        b += Load::kGroup * kBlock * sizeof(typename Load::Stored) / sizeof(float);
      }
    }
  }
  if (t.clamp) {
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
      for (int v = 0; v < kSums; ++v) sum[r][v] = atMost(d, t.high, atLeast(d, t.low, sum[r][v]));
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < kSums; ++v) {
      float* to = t.c + r * t.cRow + (v / kVectors) * t.cPanel + at(v);
      kPart ? hn::BlendedStore(sum[r][v], there(v), d, to) : hn::StoreU(sum[r][v], d, to);
    }
}

using TileFunction = void (*)(const Tile&);

template <int kPanels, int kStride, bool kPart = false, class Load = void, int... kRow>
inline TileFunction tileOf(int rows, std::integer_sequence<int, kRow...>) {
  static constexpr TileFunction kTable[] = {tileKernel<kRow + 1, kPanels, kStride, kPart, Load>...};
  return kTable[rows - 1];
}

// Panels the widest tile for so many rows takes.
inline int tilePanels(int64_t rows) { return rows <= kWideRows ? kWidePanels : kTilePanels; }

// Several panels of few rows, whose sums would wait for each other if they were of one.
template <int kStride, bool kPart, int... kMore>
inline void runWideTile(int rows, int panels, const Tile& t, std::integer_sequence<int, kMore...>) {
  (void)((panels == kMore + 2 &&
          (tileOf<kMore + 2, kStride, kPart>(rows, std::make_integer_sequence<int, kWideRows>())(t), true)) ||
         ...);
}
inline constexpr auto kWideTiles = std::make_integer_sequence<int, kWidePanels - 1>();

template <int kStride>
inline void runFullTile(int rows, int panels, const Tile& t) {
  if constexpr (kWidePanels > kTilePanels) {
    if (panels > 1 && rows <= kWideRows) return runWideTile<kStride, false>(rows, panels, t, kWideTiles);
  }
  if constexpr (kTilePanels > 1) {
    if (panels == kTilePanels)
      return tileOf<kTilePanels, kStride>(rows, std::make_integer_sequence<int, kTileRows>())(t);
  }
  Tile one = t;
  for (int p = 0; p < panels; ++p) {
    tileOf<1, kStride>(rows, std::make_integer_sequence<int, kTileRows>())(one);
    one.b += t.panelStride;
    if (one.ahead) one.ahead += t.aheadStride;
    one.c += t.cPanel;
    if (one.bias) one.bias += kBlock;
    if (one.residual) one.residual += t.cPanel;
  }
}

// One panel, of which t.lanes columns are there, or the last ones of few rows.
template <int kStride>
inline void runPartialTile(int rows, int panels, const Tile& t) {
  if (panels > 1) return runWideTile<kStride, true>(rows, panels, t, kWideTiles);
  tileOf<1, kStride, true>(rows, std::make_integer_sequence<int, kTileRows>())(t);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
