// B of each pair is packed into panels once, then rows of A go over them.
#include "runtime/kernels/batched_gemm.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"

#include <algorithm>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/batched_gemm.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/panels-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

void batchedPair(int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t aRow, int64_t aColumn,
                 const float* b, int64_t bRow, int64_t bColumn, float* c, int64_t cRow) {
  const int64_t panelFloats = roundToBlock(n) * k;
  float* panels = threadScratch(panelFloats + (aColumn == 1 ? 0 : m * k));
  packPanels(b, bRow, bColumn, k, n, alpha, panels);
  if (aColumn != 1) {
    float* copy = panels + panelFloats;
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < k; ++j) copy[i * k + j] = a[i * aRow + j * aColumn];
    a = copy;
    aRow = k;
  }
  multiplyRows(a, aRow, m, panels, k, n, c, cRow, false);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {

void batchedGemm(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                 const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, int threads) {
  if (k == 0) {
    for (int64_t i = 0; i < outer * inner; ++i)
      for (int64_t r = 0; r < m; ++r) std::fill_n(c + i / inner * cOuter + i % inner * cInner + r * cRow, n, 0.0f);
    return;
  }
  auto pair = TS_SIMD(batchedPair);
  const double cost = 2e-5 * static_cast<double>(outer * inner * m) * static_cast<double>(n * k);
  // Few large products are split by rows, each piece packing B anew.
  const int64_t pieces = outer * inner >= 16 ? 1 : std::max<int64_t>(1, m / 112);
  parallelFor(outer * inner * pieces, cost < 20 ? 1 : threads, [&](int64_t i) {
    Piece rows = pieceOf(m, pieces, i % pieces);
    const int64_t o = i / pieces / inner, in = i / pieces % inner;
    pair(rows.end - rows.begin, n, k, alpha, a.at(o, in) + rows.begin * a.row, a.row, a.column, b.at(o, in), b.row,
         b.column, c + o * cOuter + in * cInner + rows.begin * cRow, cRow);
  });
}

}  // namespace tscompile
#endif
