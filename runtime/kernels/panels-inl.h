// Packs matrices that lie anywhere into panels of 16 columns, and multiplies rows by them. Included once per
// instruction set.
#if defined(TSCOMPILE_PANELS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TSCOMPILE_PANELS_INL_H_
#undef TSCOMPILE_PANELS_INL_H_
#else
#define TSCOMPILE_PANELS_INL_H_
#endif

#include "runtime/kernels/product-inl.h"
#include "runtime/kernels/transpose-inl.h"

#include <algorithm>

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

HWY_INLINE int64_t roundToBlock(int64_t v) { return (v + kBlock - 1) / kBlock * kBlock; }

// Element [i, j] at b + i * row + j * column, k x n -> panels [n / 16][k][16] times alpha; zeros past n.
inline void packPanels(const float* b, int64_t row, int64_t column, int64_t k, int64_t n, float alpha, float* to) {
  for (int64_t panel = 0; panel < n; panel += kBlock, to += k * kBlock) {
    const int64_t lanes = std::min<int64_t>(kBlock, n - panel);
    const float* from = b + panel * column;
    if (lanes == kBlock && row == 1) {
      const hn::FixedTag<float, 4> d;
      const auto scale = hn::Set(d, alpha);
      transpose(from, column, k, kBlock, to, kBlock, [=](auto v) HWY_ATTR { return hn::Mul(scale, v); });
      continue;
    }
    for (int64_t i = 0; i < k; ++i) {
      float* out = to + i * kBlock;
      if (lanes == kBlock && column == 1) {
        for (int64_t j = 0; j < kBlock; ++j) out[j] = alpha * from[i * row + j];
      } else if (lanes == kBlock) {
        for (int64_t j = 0; j < kBlock; ++j) out[j] = alpha * from[i * row + j * column];
      } else {
        for (int64_t j = 0; j < kBlock; ++j) out[j] = j < lanes ? alpha * from[i * row + j * column] : 0.0f;
      }
    }
  }
}

// Columns whose panels stay in a cache while all rows are multiplied by them.
HWY_INLINE int64_t columnsAtOnce(int64_t k) {
  constexpr int64_t kKept = 48 << 10, kLeast = 2 * kBlock;  // floats; the register tile takes two panels
  return std::max(kKept / std::max<int64_t>(k, 1) / kLeast * kLeast, kLeast);
}

// C = A * packed B, or C += that; rows of A are contiguous. Columns of C past n are written only if `padded`.
inline void multiplyRows(const float* a, int64_t aRow, int64_t m, const float* panels, int64_t k, int64_t n, float* c,
                         int64_t cRow, bool padded, bool adds = false) {
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
  const int64_t all = roundToBlock(n) / kBlock, group = columnsAtOnce(k) / kBlock;
  for (int64_t first = 0; first < all; first += group)
    for (int64_t r = 0; r < m; r += kTileRows) {
      RowTile tile{0, 0, static_cast<int>(std::min<int64_t>(kTileRows, m - r))};
      p.a = a + r * aRow;
      p.c = c + r * cRow;
      if (adds) p.epilogue.residual = p.c;
      runProduct(p, &tile, 1, first, std::min(first + group, all));
    }
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#endif
