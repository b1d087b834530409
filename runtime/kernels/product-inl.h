// Runs part of a Product: some rows, some panels, all of the depth. Included once per instruction set.
#if defined(TSCOMPILE_PRODUCT_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_PRODUCT_INL_H_
#undef TSCOMPILE_PRODUCT_INL_H_
#else
#define TSCOMPILE_PRODUCT_INL_H_
#endif

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/product.h"
#include "runtime/kernels/requantize-inl.h"
#include "runtime/kernels/tile-inl.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// Panels of 2 x 16 x 4 bytes x so many k's stay in the second level of cache.
inline constexpr int64_t kDepthChunk = 1024;
inline constexpr int64_t kConvertChunk = 128;

// Stored weights of a panel -> f32, not scaled: a vector from `lane` of row `at + kRow`; `at` is a multiple of kGroup.
struct LoadF16 {
  using Stored = hwy::float16_t;
  static constexpr int kGroup = 1;
  static constexpr bool kIsScaled = false;  // by its column
  template <int kRow, class D>
  HWY_INLINE hn::Vec<D> load(D d, const void* panel, int64_t at, int lane) const {
    const auto* p = static_cast<const hwy::float16_t*>(panel) + (at + kRow) * kBlock + lane;
    return hn::PromoteTo(d, hn::LoadU(hn::Rebind<hwy::float16_t, D>(), p));
  }
};
// Two rows are the halves of one word a column.
struct LoadBF16 {
  using Stored = uint16_t;
  static constexpr int kGroup = 2;
  static constexpr bool kIsScaled = false;
  template <int kRow, class D>
  HWY_INLINE hn::Vec<D> load(D d, const void* panel, int64_t at, int lane) const {
    const auto* p = static_cast<const uint16_t*>(panel) + at * kBlock + lane * 2;
    const hn::Rebind<uint32_t, D> d32;
    const auto words = hn::LoadU(d32, reinterpret_cast<const uint32_t*>(p));
    return hn::BitCast(d, kRow == 0 ? hn::ShiftLeft<16>(words) : hn::And(words, hn::Set(d32, 0xffff0000u)));
  }
};
// Four rows are the bytes of one word a column: shifts bring the one that is wanted up, then down with its sign.
struct LoadI8 {
  using Stored = int8_t;
  static constexpr int kGroup = 4;
  static constexpr bool kIsScaled = true;
  template <int kRow, class D>
  HWY_INLINE hn::Vec<D> load(D d, const void* panel, int64_t at, int lane) const {
    const hn::Rebind<int32_t, D> d32;
    const auto* p = static_cast<const int8_t*>(panel) + at * kBlock + lane * 4;
    const auto words = hn::LoadU(d32, reinterpret_cast<const int32_t*>(p));
    return hn::ConvertTo(d, hn::ShiftRight<24>(hn::ShiftLeft<(3 - kRow) * 8>(words)));
  }
};

// `rows` rows of 16 stored weights from row `first` of a panel -> f32, times the scales of their columns if there are
// any. fetches: its next rows too, as the panels in between make the processor's own prefetching stop.
template <class Load>
HWY_INLINE void convertRows(const void* panel, const float* scales, int64_t first, int64_t rows, bool fetches,
                            float* to) {
  const hn::CappedTag<float, kBlock> d;
  const int64_t end = first + rows;
  for (int64_t at = first / Load::kGroup * Load::kGroup; at < end; at += Load::kGroup) {
    if (fetches)
      __builtin_prefetch(static_cast<const char*>(panel) +
                         at * kBlock * static_cast<int64_t>(sizeof(typename Load::Stored)) + 4096);
    forRowsOfGroup<Load::kGroup>([&](auto row) HWY_ATTR {
      if (at + row < first || at + row >= end) return;
      float* out = to + (at + row - first) * kBlock;
#pragma GCC unroll 16
      for (int lane = 0; lane < kBlock; lane += kLanes) {
        auto v = Load().template load<row>(d, panel, at, lane);
        if (scales) v = hn::Mul(v, hn::LoadU(d, scales + lane));
        hn::Store(v, d, out + lane);
      }
    });
  }
}

inline void convertWeights(const void* panel, WeightStorage storage, const float* scales, int64_t first, int64_t rows,
                           bool fetches, float* to) {
  switch (storage) {
    case WeightStorage::F32:
      std::memcpy(to, static_cast<const float*>(panel) + first * kBlock,
                  static_cast<size_t>(rows * kBlock) * sizeof(float));
      return;
    case WeightStorage::F16:
      return convertRows<LoadF16>(panel, nullptr, first, rows, fetches, to);
    case WeightStorage::BF16:
      return convertRows<LoadBF16>(panel, nullptr, first, rows, fetches, to);
    case WeightStorage::I8:
      return convertRows<LoadI8>(panel, scales, first, rows, fetches, to);
    case WeightStorage::Integers:
    case WeightStorage::Bytes:
      break;  // never become f32
  }
}

// A few rows times kWidePanels panels of stored weights, over all of the depth: weights go from memory to registers.
// Without scales, sums are added up from bias and residual on as tiles add them up.
inline constexpr int kStoredRows = 4;
template <int kRows, class Load>
void storedKernel(const Product& p, const RowTile& tile, int64_t panel) {
  constexpr int kSums = kWidePanels * kVectors;
  const hn::CappedTag<float, kBlock> d;
  using V = hn::Vec<decltype(d)>;
  const Epilogue& e = p.epilogue;
  auto columnOf = [&](int v) { return (panel + v / kVectors) * kBlock + (v % kVectors) * kLanes; };
  auto placeOf = [&](int r, int v) {
    return tile.c + r * p.cRow + (panel + v / kVectors) * p.cPanel + (v % kVectors) * kLanes;
  };
  V sum[kRows][kSums];
#pragma GCC unroll 16
  for (int v = 0; v < kSums; ++v) {
    const V first = e.bias && !Load::kIsScaled ? hn::LoadU(d, e.bias + columnOf(v)) : hn::Zero(d);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      sum[r][v] = first;
      if (e.residual && !Load::kIsScaled) sum[r][v] = hn::Add(first, hn::LoadU(d, e.residual + placeOf(r, v)));
    }
  }
  const int64_t distance = panelBytes(p.depthOf(), p.storage);
  const auto* b = static_cast<const char*>(p.b) + panel * distance;
  int64_t at = 0;  // of the panel's rows
  for (int64_t step = 0; step < p.stepCount; ++step) {
    const float* a = p.a + tile.a + p.steps[step];
    const int64_t depth = step < p.stepCount - p.tailSteps ? p.depth : p.tailDepth;
    for (int64_t k = 0; k < depth; k += Load::kGroup, at += Load::kGroup) {
      forRowsOfGroup<Load::kGroup>([&](auto row) HWY_ATTR {
#pragma GCC unroll 16
        for (int v = 0; v < kSums; ++v) {
          V weights = Load().template load<row>(d, b + (v / kVectors) * distance, at, (v % kVectors) * kLanes);
#pragma GCC unroll 16
          for (int r = 0; r < kRows; ++r)
            sum[r][v] = hn::MulAdd(hn::Set(d, a[r * p.rowStride + k + row]), weights, sum[r][v]);
        }
      });
    }
  }
#pragma GCC unroll 16
  for (int v = 0; v < kSums; ++v) {
    const V scale = Load::kIsScaled ? hn::LoadU(d, p.scales + columnOf(v)) : hn::Zero(d);
    const V bias = e.bias ? hn::LoadU(d, e.bias + columnOf(v)) : hn::Zero(d);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      V result = sum[r][v];
      if (Load::kIsScaled) {
        result = hn::MulAdd(result, scale, bias);
        if (e.residual) result = hn::Add(result, hn::LoadU(d, e.residual + placeOf(r, v)));
      }
      if (isClamp(e.activation)) result = atMost(d, clampHigh(e), atLeast(d, clampLow(e), result));
      hn::StoreU(result, d, p.c + placeOf(r, v));
    }
  }
}

// False if a step's depth splits a group of rows.
template <class Load>
inline bool runStored(const Product& p, const RowTile& tile, int64_t panel) {
  if (p.depth % Load::kGroup != 0 || p.tailDepth % Load::kGroup != 0) return false;
  static constexpr void (*kTable[kStoredRows])(const Product&, const RowTile&, int64_t) = {
      storedKernel<1, Load>, storedKernel<2, Load>, storedKernel<3, Load>, storedKernel<4, Load>};
  kTable[tile.rows - 1](p, tile, panel);
  return true;
}

// A whole tile times weights in 16 bits, which become f32 in registers: while tiles are not many, that takes less than
// to convert the weights for all of them.
inline constexpr bool kHasHalfTiles = HWY_TARGET == HWY_AVX3;
template <int kStride>
inline void runHalfTile(WeightStorage storage, int rows, const Tile& t) {
  if constexpr (kHasHalfTiles) {
    constexpr auto kRows = std::make_integer_sequence<int, kTileRows>();
    (storage == WeightStorage::F16 ? tileOf<kTilePanels, kStride, false, LoadF16>(rows, kRows)
                                   : tileOf<kTilePanels, kStride, false, LoadBF16>(rows, kRows))(t);
  }
}

// Whether results still have to be changed where they lie.
inline bool isUnfinished(const Epilogue& e) {
  return e.factors || (e.activation != Activation::None && !isClamp(e.activation));
}

inline void finishTile(const Product& p, float* c, int rows, int64_t panel, int64_t panels, int64_t lanes) {
  const Epilogue& e = p.epilogue;
  if (e.factors) {
    for (int64_t i = 0; i < panels; ++i)
      requantizeTile(c + i * p.cPanel, p.cRow, rows, i + 1 < panels ? kBlock : lanes, e.factors + (panel + i) * kBlock,
                     {e.alpha, e.beta});
    return;
  }
  if (p.cPanel == kBlock)
    return activateRows(c, p.cRow, rows, (panels - 1) * kBlock + lanes, e.activation, e.alpha, e.beta);
  for (int64_t i = 0; i < panels; ++i)
    activateRows(c + i * p.cPanel, p.cRow, rows, kBlock, e.activation, e.alpha, e.beta);
}

// One tile of few rows; false if it is not for this.
inline bool runFewRows(const Product& p, const RowTile& tile, int64_t panel) {
  const bool ran = p.storage == WeightStorage::F16    ? runStored<LoadF16>(p, tile, panel)
                   : p.storage == WeightStorage::BF16 ? runStored<LoadBF16>(p, tile, panel)
                   : p.storage == WeightStorage::I8   ? runStored<LoadI8>(p, tile, panel)
                                                      : false;
  if (!ran) return false;
  if (isUnfinished(p.epilogue)) finishTile(p, p.c + tile.c + panel * p.cPanel, tile.rows, panel, kWidePanels, kBlock);
  return true;
}

// One group of panels, one chunk of the depth, all rows given.
struct ProductPart {
  int64_t panel;  // the first
  int panels;
  int64_t lanes;  // in the last panel
  int64_t firstStep, stepCount, depth;
  int64_t within;  // the first step, where it begins
  const float* b;
  int64_t panelStride;
  bool first, last;   // chunk of the depth
  bool stored;        // b are in 16 bits, and become f32 in registers
  const float* next;  // lines of B that are needed after this part, and as many of each panel, so many floats apart
  int64_t nextLines, nextStride;
};

inline void runPart(const Product& p, const ProductPart& part, const RowTile* tiles, int64_t tileCount) {
  const Epilogue& e = p.epilogue;
  const bool strided = p.rowStride != kBlock;
  Tile t{};
  t.rowStride = p.rowStride;
  t.steps = p.steps + part.firstStep;
  t.stepCount = part.stepCount;
  t.depth = part.depth;
  t.b = part.b;
  t.panelStride = part.panelStride;
  t.cRow = p.cRow;
  t.cPanel = p.cPanel;
  t.bias = part.first && e.bias ? e.bias + part.panel * kBlock : nullptr;
  t.accumulate = !part.first;
  t.lanes = part.lanes;
  if (part.last && isClamp(e.activation)) {
    t.clamp = true;
    t.low = clampLow(e);
    t.high = clampHigh(e);
  }
  // While they run, the tiles fetch what is needed next, each a share.
  int64_t toFetch = part.nextLines, share = 0;
  const float* next = part.next;
  if (toFetch > 0) {
    t.aheadStride = part.nextStride;
    t.aheadLines = (toFetch - 1) / (tileCount * part.stepCount) + 1;
    share = t.aheadLines * part.stepCount;
  }
  for (int64_t i = 0; i < tileCount; ++i) {
    const RowTile& tile = tiles[i];
    int64_t at = tile.c + part.panel * p.cPanel;
    t.a = p.a + tile.a + part.within;
    t.ahead = toFetch > 0 ? next : nullptr;
    toFetch -= share;
    next += share * kBlock;
    t.c = p.c + at;
    t.residual = part.first && e.residual ? e.residual + at : nullptr;
    if (part.stored)
      p.rowStride == 1 ? runHalfTile<1>(p.storage, tile.rows, t)
      : strided        ? runHalfTile<0>(p.storage, tile.rows, t)
                       : runHalfTile<kBlock>(p.storage, tile.rows, t);
    else if (part.lanes < kBlock)
      p.rowStride == 1 ? runPartialTile<1>(tile.rows, part.panels, t) : runPartialTile<0>(tile.rows, part.panels, t);
    else if (p.rowStride == 1)
      runFullTile<1>(tile.rows, part.panels, t);
    else if (strided)
      runFullTile<0>(tile.rows, part.panels, t);
    else
      runFullTile<kBlock>(tile.rows, part.panels, t);
    if (part.last && isUnfinished(e)) finishTile(p, t.c, tile.rows, part.panel, part.panels, part.lanes);
  }
}

// Runs tiles x panels [firstPanel, endPanel).
inline void runProduct(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
                       const Following& following = {}) {
  alignas(64) float converted[kConvertChunk * kWidePanels * kBlock];
  int mostRows = 0;
  int64_t allRows = 0;
  for (int64_t i = 0; i < tileCount; ++i) {
    mostRows = std::max(mostRows, tiles[i].rows);
    allRows += tiles[i].rows;
  }
  const int group = tilePanels(mostRows);
  const int64_t panelRows = p.panelDepth ? p.panelDepth : p.depthOf();
  const int64_t panelFloats = panelRows * kBlock, fullSteps = p.stepCount - p.tailSteps;
  const int64_t distance = panelBytes(panelRows, p.storage);
  constexpr int64_t kMostHalfRows = 192;  // of more it is worth it to convert weights for all
  const bool wholeGroups = p.depth % LoadBF16::kGroup == 0 && p.tailDepth % LoadBF16::kGroup == 0;
  const bool halves = kHasHalfTiles && group == kTilePanels && allRows <= kMostHalfRows &&
                      (p.storage == WeightStorage::F16 || (p.storage == WeightStorage::BF16 && wholeGroups));
  const int64_t convertChunk = p.storage == WeightStorage::F32 ? kDepthChunk : kConvertChunk;
  for (int64_t panel = firstPanel; panel < endPanel;) {
    ProductPart part{};
    part.panel = panel;
    part.panels = static_cast<int>(std::min<int64_t>(group, endPanel - panel));
    part.lanes = kBlock;
    // A panel that is only partly there goes alone, unless rows are few.
    if (!p.paddedColumns && (panel + part.panels) * kBlock > p.columns) {
      if (mostRows <= kWideRows)
        part.lanes = p.columns - (panel + part.panels - 1) * kBlock;
      else if (part.panels > 1)
        --part.panels;
      else
        part.lanes = p.columns - panel * kBlock;
    }
    if (tileCount == 1 && mostRows <= kStoredRows && part.panels == kWidePanels && part.lanes == kBlock &&
        runFewRows(p, tiles[0], panel)) {
      panel += part.panels;
      continue;
    }
    part.stored = halves && part.panels == kTilePanels && part.lanes == kBlock;
    const int64_t depthChunk = part.stored ? kDepthChunk : convertChunk;
    const int64_t chunkRows = std::min(std::max(depthChunk, p.depth), panelRows);
    int64_t row = 0;  // of the panel of B
    for (int64_t step = 0; step < p.stepCount;) {
      const bool tail = step >= fullSteps;
      const int64_t depth = tail ? p.tailDepth : p.depth;
      part.depth = p.storage == WeightStorage::F32 ? depth : std::min(depth - part.within, depthChunk);
      part.firstStep = step;
      part.stepCount = 1;
      if (part.depth == depth)
        part.stepCount = std::min(std::max<int64_t>(1, depthChunk / depth), (tail ? p.stepCount : fullSteps) - step);
      const int64_t end = part.within + part.depth < depth ? step : step + part.stepCount;
      part.first = row == 0;
      part.last = end == p.stepCount;
      const int64_t rows = part.stepCount * part.depth;
      const char* b = static_cast<const char*>(p.b) + panel * distance;
      // Then comes the next chunk of these panels, or another panel.
      const bool leaves = part.last && panel + part.panels >= endPanel;
      const int64_t after = !part.last ? panel : leaves ? following.panel : panel + part.panels;
      part.nextLines = 0;
      if (tileCount > 1 && after != kNoPanel) {
        const int64_t bytes = panelBytes(part.last ? chunkRows : rows, p.storage);
        const int64_t lines = bytes / static_cast<int64_t>(sizeof(CacheLine));
        const Piece share = leaves ? pieceOf(lines, following.pieces, following.piece) : Piece{0, lines};
        part.nextLines = share.end - share.begin;
        part.nextStride = distance / static_cast<int64_t>(sizeof(float));
        part.next = reinterpret_cast<const float*>(b + (after - panel) * distance +
                                                   (part.last ? 0 : panelBytes(row, p.storage) + bytes)) +
                    share.begin * kBlock;
      }
      if (p.storage == WeightStorage::F32) {
        part.b = reinterpret_cast<const float*>(b) + row * kBlock;
        part.panelStride = panelFloats;
      } else if (part.stored) {
        part.b = reinterpret_cast<const float*>(b + panelBytes(row, p.storage));
        part.panelStride = distance / static_cast<int64_t>(sizeof(float));
      } else {
        for (int i = 0; i < part.panels; ++i)
          convertWeights(b + i * distance, p.storage, p.scales + (panel + i) * kBlock, row, rows,
                         part.nextLines == 0 || mostRows <= kWideRows, converted + i * rows * kBlock);
        part.b = converted;
        part.panelStride = rows * kBlock;
      }
      runPart(p, part, tiles, tileCount);
      row += rows;
      part.within = end == step ? part.within + part.depth : 0;
      step = end;
    }
    panel += part.panels;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
