#include "runtime/kernels/product.h"

#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/simd.h"

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/product.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/product-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

int tileRows() { return kTileRows; }

void productOfTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
                    int64_t following) {
  runProduct(p, tiles, tileCount, firstPanel, endPanel, following);
}

void finishOfRows(const Product& p, float* c, int rows, int64_t panel, int64_t lanes) {
  if (isUnfinished(p.epilogue)) finishTile(p, c, rows, panel, 1, lanes);
}

void activationOfColumns(const Product& p, int64_t rows, int64_t first, int64_t end) {
  activateRows(p.c + first, p.cRow, rows, end - first, p.epilogue.activation, p.epilogue.alpha, p.epilogue.beta);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

int64_t weightBytes(WeightStorage storage) {
  switch (storage) {
    case WeightStorage::F32:
      return 4;
    case WeightStorage::F16:
    case WeightStorage::BF16:
      return 2;
    case WeightStorage::I8:
    case WeightStorage::Integers:
    case WeightStorage::Bytes:
      break;
  }
  return 1;
}

int64_t rowsTogether(WeightStorage storage) {
  switch (storage) {
    case WeightStorage::F32:
    case WeightStorage::F16:
      return 1;
    case WeightStorage::BF16:
    case WeightStorage::Integers:
      return 2;
    case WeightStorage::I8:
    case WeightStorage::Bytes:
      break;
  }
  return 4;
}

int64_t panelBytes(int64_t depth, WeightStorage storage) {
  const int64_t together = rowsTogether(storage);
  depth = (depth + together - 1) / together * together;
  return depth * kBlock * weightBytes(storage);
}

int maxTileRows() { return TS_SIMD(tileRows)(); }

void runTiles(const Product& p, const RowTile* tiles, int64_t tileCount, int64_t firstPanel, int64_t endPanel,
              int64_t following) {
  if (p.lines) return runLineTiles(p, tiles, tileCount, firstPanel, endPanel, following);
  if (p.storage == WeightStorage::Integers) return runIntegerTiles(p, tiles, tileCount, firstPanel, endPanel);
  TS_SIMD(productOfTiles)(p, tiles, tileCount, firstPanel, endPanel, following);
}

void finishRows(const Product& p, float* c, int rows, int64_t panel, int64_t lanes) {
  TS_SIMD(finishOfRows)(p, c, rows, panel, lanes);
}

void activateColumns(const Product& p, int64_t rows, int64_t first, int64_t end) {
  TS_SIMD(activationOfColumns)(p, rows, first, end);
}

}  // namespace tscompile
#endif
