#include "runtime/trtllm/matmul/panels.h"

#include "runtime/call/scratch.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/product.h"
#include "runtime/kernels/simd.h"

#include <algorithm>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kPanels = 4;      // at a time
constexpr int64_t kDepth = 512;     // rows at a time: with four panels 128 KiB
constexpr int64_t kPieceRows = 96;  // a piece of the work has so many rows at least, so that filling pays

struct Rows {
  int64_t begin, count, stride;  // of x
};

// All of the depth for some rows and four panels.
void multiplyPiece(int64_t n, int64_t k, const float* x, int64_t column, Rows rows, FillPanels fill, const float* bias,
                   float* y) {
  const int64_t panels = std::min(kPanels, (n - column + kBlock - 1) / kBlock);
  const int64_t tileRows = maxTileRows(), tileCount = (rows.count + tileRows - 1) / tileRows;
  std::vector<RowTile> tiles(static_cast<size_t>(tileCount));
  for (int64_t i = 0; i < tileCount; ++i) {
    Piece piece = pieceOf(rows.count, tileCount, i);
    int64_t row = rows.begin + piece.begin;
    tiles[static_cast<size_t>(i)] = {row * k, row * n, static_cast<int>(piece.end - piece.begin)};
  }
  float* filled = threadScratch(kPanels * kDepth * kBlock);
  int64_t steps[kDepth / kBlock];
  for (int64_t s = 0; s < kDepth / kBlock; ++s) steps[s] = s * kBlock;
  for (int64_t first = 0; first < k; first += kDepth) {
    const int64_t end = std::min(k, first + kDepth), depth = end - first;
    fill(column, panels, first, end, filled);
    Product p{};
    p.a = x + first;
    p.rowStride = k;
    p.steps = steps;
    p.depth = kBlock;
    p.stepCount = (depth + kBlock - 1) / kBlock;
    p.tailDepth = depth % kBlock;
    p.tailSteps = p.tailDepth != 0;
    p.b = filled;
    p.storage = WeightStorage::F32;
    p.columns = n - column;
    p.c = y + column;
    p.cRow = n;
    p.cPanel = kBlock;
    if (first == 0 && bias) p.epilogue.bias = bias + column;
    if (first > 0) p.epilogue.residual = p.c;
    runTiles(p, tiles.data(), tileCount, 0, panels);
  }
}

}  // namespace

void multiplyPanels(int64_t m, int64_t n, int64_t k, const float* x, FillPanels fill, const float* bias, float* y,
                    int threads) {
  if (m == 0 || n == 0) return;
  if (k == 0) {
    for (int64_t r = 0; r < m; ++r)
      for (int64_t c = 0; c < n; ++c) y[r * n + c] = bias ? bias[c] : 0.0f;
    return;
  }
  const int64_t groups = (n + kPanels * kBlock - 1) / (kPanels * kBlock);
  const int64_t rowPieces = std::clamp<int64_t>(m / kPieceRows, 1, (64 + groups - 1) / groups);
  const double cost = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 30e3;  // us
  parallelFor(groups * rowPieces, cost < 20 ? 1 : threads, [&](int64_t i) {
    Piece rows = pieceOf(m, rowPieces, i % rowPieces);
    multiplyPiece(n, k, x, i / rowPieces * kPanels * kBlock, {rows.begin, rows.end - rows.begin, k}, fill, bias, y);
  });
}

}  // namespace tscompile
