#include "runtime/kernels/product.h"

#include "runtime/kernels/few_columns.h"
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
                    const Following& following) {
  runProduct(p, tiles, tileCount, firstPanel, endPanel, following);
}

void finishOfRows(const Product& p, float* c, int rows, int64_t panel, int64_t lanes) {
  if (isUnfinished(p.epilogue)) finishTile(p, c, rows, panel, 1, lanes);
}

void activationOfColumns(const Product& p, int64_t rows, int64_t first, int64_t end) {
  activateRows(p.c + first, p.cRow, rows, end - first, p.epilogue.activation, p.epilogue.alpha, p.epilogue.beta);
}

// ---- few columns ----

// kRows rows at a time, so that sums do not wait for each other.
template <int kColumns, int kRows>
void sumsOfRows(const FewColumns& f, const float* a, int64_t lda, float* c, int64_t ldc, const Epilogue& e) {
  const hn::ScalableTag<float> d;
  using V = hn::Vec<decltype(d)>;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), whole = f.k / lanes * lanes;
  const auto rest = hn::FirstN(d, static_cast<size_t>(f.k - whole));
  V sum[kRows][kColumns];
  for (auto& row : sum)
    for (V& s : row) s = hn::Zero(d);
  auto add = [&](int64_t at, auto&& load) HWY_ATTR {
    V columns[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) columns[j] = load(f.columns.data() + j * f.k + at);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V x = load(a + r * lda + at);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) sum[r][j] = hn::MulAdd(x, columns[j], sum[r][j]);
    }
  };
  for (int64_t at = 0; at < whole; at += lanes) add(at, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); });
  if (whole < f.k) add(whole, [&](const float* from) HWY_ATTR { return hn::MaskedLoad(rest, d, from); });
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) {
      float result = hn::GetLane(hn::SumOfLanes(d, sum[r][j]));
      if (e.bias) result += e.bias[j];
      if (e.residual) result += e.residual[r * ldc + j];
      c[r * ldc + j] = result;
    }
}

template <int kColumns>
void rowsOfColumns(const FewColumns& f, int64_t m, const float* a, int64_t lda, float* c, int64_t ldc, Epilogue e) {
  constexpr int kRows = kColumns > 2 ? 2 : 4;  // sums for the registers of all instruction sets
  for (int64_t r = 0; r < m;) {
    const int64_t rows = r + kRows <= m ? kRows : 1;
    (rows > 1 ? sumsOfRows<kColumns, kRows> : sumsOfRows<kColumns, 1>)(f, a + r * lda, lda, c + r * ldc, ldc, e);
    if (e.residual) e.residual += rows * ldc;
    r += rows;
  }
  if (e.activation != Activation::None) activateRows(c, ldc, m, kColumns, e.activation, e.alpha, e.beta);
}

void runColumns(const FewColumns& f, int64_t m, const float* a, int64_t lda, float* c, int64_t ldc, const Epilogue& e) {
  static constexpr void (*kTable[kFewColumns])(const FewColumns&, int64_t, const float*, int64_t, float*, int64_t,
                                               Epilogue) = {rowsOfColumns<1>, rowsOfColumns<2>, rowsOfColumns<3>,
                                                            rowsOfColumns<4>};
  kTable[f.n - 1](f, m, a, lda, c, ldc, e);
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
              const Following& following) {
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

FewColumns::FewColumns(const float* panel, int64_t k, int64_t n) : k(k), n(n), columns(static_cast<size_t>(k * n)) {
  for (int64_t j = 0; j < n; ++j)
    for (int64_t i = 0; i < k; ++i) columns[static_cast<size_t>(j * k + i)] = panel[i * kBlock + j];
}

void FewColumns::run(int64_t m, const float* a, int64_t lda, float* c, int64_t ldc, const Epilogue& epilogue) const {
  TS_SIMD(runColumns)(*this, m, a, lda, c, ldc, epilogue);
}

}  // namespace tscompile
#endif
