// A is brought into blocks of 16 k's, as B is when it is packed: then one register tile serves products of all shapes
// and convolutions. Few rows: the work is the reading of B, so the threads share its panels. Few rows and int8 weights
// are multiplied as integers where the processor can; more rows and bf16 weights in bf16.
#include "runtime/kernels/gemm.h"

#include "runtime/call/thread_pool.h"
#include "runtime/kernels/fixed_rows.h"
#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kRowBlock = 1024;         // rows of A in the workspace at a time
constexpr int64_t kCachedRows = 256;        // of a chunk of the depth
constexpr int64_t kFewPieces = 12;          // of the columns: with fewer the threads would not end together
constexpr int64_t kMostTileRows = 16;       // on any instruction set
constexpr int64_t kCachedMatrix = 1 << 20;  // bytes of packed B that stay in a core's cache beside rows of A
constexpr int64_t kFewestRows = 48;         // of a piece that keeps to its own rows
constexpr int64_t kFewestPieces = 4;        // that are worth it
constexpr int64_t kSameLines = 1024;        // floats between places that share lines of the nearest cache

int64_t roundUp(int64_t v, int64_t unit) { return (v + unit - 1) / unit * unit; }
int64_t panelsOf(int64_t n) { return (n + kBlock - 1) / kBlock; }

// `rows` rows of k floats -> [depth / 16][distance][16]; zeros past k.
template <class T>
void blockRows(const float* a, int64_t lda, int64_t rows, int64_t k, int64_t depth, int64_t distance, T* to) {
  for (int64_t column = 0; column < depth; column += kBlock, to += distance * kBlock) {
    const int64_t count = std::clamp<int64_t>(k - column, 0, kBlock);
    for (int64_t r = 0; r < rows; ++r) {
      T* out = to + r * kBlock;
      toElements(a + r * lda + column, count, out);
      std::fill_n(out + count, kBlock - count, T(0));
    }
  }
}

// Microseconds that one thread needs, roughly.
double gemmCost(int64_t m, int64_t n, int64_t k) {
  double flops = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  double bytes =
      4.0 * (static_cast<double>(n) * static_cast<double>(k) + static_cast<double>(m) * static_cast<double>(n + k));
  return flops / 100e3 + bytes / 20e3;
}

// What a product of any rows is made of, but for A.
Product productOf(const PackedMatrix& b, float* c, int64_t ldc, const Epilogue& epilogue) {
  Product p{};
  p.b = b.data;
  p.storage = b.storage;
  const PackedWeights weights{panelsOf(b.n), packedDepth(b.k, b.storage), b.storage};
  p.scales = weights.scales(b.data, 0);
  p.sums = weights.sums(b.data, 0);
  p.columns = b.n;
  p.c = c;
  p.cRow = ldc;
  p.cPanel = kBlock;
  p.epilogue = epilogue;
  return p;
}

// Few rows wait for the weights, and stay f32.
bool wantsLines(int64_t m, const PackedMatrix& b) {
  constexpr int64_t kMostFloatRows = 4;
  if (b.storage == WeightStorage::Bytes) return true;
  return b.roundsRows && (b.storage == WeightStorage::BF16 || b.storage == WeightStorage::I8) && m > kMostFloatRows &&
         hasLineProducts(b.storage);
}

// Rows of floats, with nothing to fill up.
bool areWhole(int64_t m, const PackedMatrix& b) {
  return b.k == packedDepth(b.k, b.storage) && b.storage != WeightStorage::Integers && !wantsLines(m, b);
}
bool isBlockedAsItIs(int64_t m, const PackedMatrix& b) { return m == 1 && areWhole(m, b); }
// Whether rows are read where they lie. Many columns read them so often that the copy gains more than it costs; rows
// that share lines of the cache push each other out.
bool liesWell(int64_t m, const PackedMatrix& b, int64_t lda) {
  constexpr int64_t kFewColumns = 384;
  return areWhole(m, b) && (m == 1 || (b.n <= kFewColumns && lda % kSameLines != 0));
}

// Pieces of the rows, each times all of B: many rows and a small B. What a core reads of A is then what it reads next
// to it in the products before and behind. 0: the columns are to be cut.
int64_t piecesOfRows(int64_t m, const PackedMatrix& b, int64_t wanted) {
  if (panelsOf(b.n) * panelBytes(packedDepth(b.k, b.storage), b.storage) > kCachedMatrix) return 0;
  const int64_t pieces = std::min(m / kFewestRows, wanted);
  return pieces / kFewestPieces * kFewestPieces;
}

bool wantsFixedRows(int64_t m, const PackedMatrix& b) {
  return b.storage == WeightStorage::I8 && m <= kMostFixedRows && b.k <= kMostFixedDepth;
}

// False if these rows are not for integers.
bool gemmOfFixedRows(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
                     const Epilogue& epilogue, void* workspace, int threads) {
  FixedRows rows{};
  if (!wantsFixedRows(m, b) || !hasFixedProducts() ||
      !makeFixedRows(a, lda, m, b.k, packedDepth(b.k, b.storage), workspace, rows))
    return false;
  const Product p = productOf(b, c, ldc, epilogue);
  const double cost = gemmCost(m, b.n, b.k) / 4;
  const int64_t panels = panelsOf(b.n), groups = (panels + 3) / 4;
  const int64_t pieces = std::min(groups, std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, 64));
  parallelFor(pieces, cost < 20 ? 1 : threads, [&](int64_t i) {
    const Piece group = pieceOf(groups, pieces, i);
    runFixedRows(rows, p, group.begin * 4, std::min(panels, group.end * 4));
  });
  return true;
}

// Tiles of rows that lie where they are, `lda` apart, or (lda 0) of which each lies `size` after the one before.
std::vector<RowTile> tilesOf(int64_t m, int64_t count, int64_t lda, int64_t size, int64_t ldc) {
  std::vector<RowTile> tiles(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    Piece rows = pieceOf(m, count, i);
    const int64_t from = lda ? rows.begin * lda : i * size;
    tiles[static_cast<size_t>(i)] = {from, rows.begin * ldc, static_cast<int>(rows.end - rows.begin)};
  }
  return tiles;
}

// Rows shorter than a block, as when heads or coordinates are mixed: what fills up the panels is not multiplied.
bool isShallow(int64_t m, const PackedMatrix& b) {
  return m > 1 && b.storage == WeightStorage::F32 && b.k > 0 && b.k < kBlock;
}

void gemmOfShallow(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
                   const Epilogue& epilogue, int threads) {
  const int64_t tileCount = (m + maxTileRows() - 1) / maxTileRows(), step = 0;
  const std::vector<RowTile> tiles = tilesOf(m, tileCount, lda, 0, ldc);
  Product whole = productOf(b, c, ldc, epilogue);
  whole.a = a;
  whole.rowStride = lda;
  whole.steps = &step;
  whole.stepCount = 1;
  whole.depth = b.k;
  const double cost = 4 * gemmCost(m, b.n, b.k);
  const int64_t pieces = std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, std::min<int64_t>(64, tileCount));
  parallelFor(pieces, cost < 20 ? 1 : threads, [&](int64_t i) {
    const Piece rows = pieceOf(tileCount, pieces, i);
    for (int64_t column = 0; column < b.n; column += kBlock) {
      Product p = whole;
      p.b = static_cast<const float*>(p.b) + column * kBlock;
      p.c += column;
      p.columns -= column;
      if (p.epilogue.bias) p.epilogue.bias += column;
      if (p.epilogue.residual) p.epilogue.residual += column;
      runTiles(p, tiles.data() + rows.begin, rows.end - rows.begin, 0, 1);
    }
  });
}

void gemmBlock(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
               const Epilogue& epilogue, float* blocked, int threads) {
  if (isShallow(m, b)) return gemmOfShallow(m, a, lda, b, c, ldc, epilogue, threads);
  if (gemmOfFixedRows(m, a, lda, b, c, ldc, epilogue, blocked, threads)) return;
  const int64_t kPadded = packedDepth(b.k, b.storage), panels = panelsOf(b.n);
  const bool lines = wantsLines(m, b);
  if (lines)
    blocked = reinterpret_cast<float*>(
        roundUp(static_cast<int64_t>(reinterpret_cast<uintptr_t>(blocked)), sizeof(CacheLine)));
  const int64_t unit = lines ? lineDepth(b.storage) : kBlock;  // of the depth, a step
  const double cost = gemmCost(m, b.n, b.k);
  if (cost < 20) threads = 1;
  const bool inPlace = liesWell(m, b, lda);
  // Else the rows of a tile lie together, so that what it reads at a time is one piece of memory.
  const int64_t tileRows = lines ? maxLineRows() : maxTileRows();
  const int64_t tileCount = (m + tileRows - 1) / tileRows, distance = (m + tileCount - 1) / tileCount;
  const std::vector<RowTile> tiles =
      tilesOf(m, tileCount, inPlace ? lda : 0, distance * (lines ? kPadded / unit : kPadded), ldc);
  std::vector<float> rowScales(lines && b.storage == WeightStorage::I8 ? static_cast<size_t>(m) : 0);
  auto blockTile = [&](int64_t i) {
    const RowTile& tile = tiles[static_cast<size_t>(i)];
    const float* from = a + pieceOf(m, tileCount, i).begin * lda;
    if (lines) {
      CacheLine* to = reinterpret_cast<CacheLine*>(blocked) + tile.a;
      for (int r = 0; r < tile.rows; ++r) {
        LineType type{b.storage, b.least};
        if (b.storage == WeightStorage::I8) {
          type = LineType::ofLargest(largestOf(from + r * lda, 1, b.k, 0));
          rowScales[static_cast<size_t>(tile.c / ldc + r)] = type.scale();
        }
        toLines(from + r * lda, b.k, type, to + r, distance);
      }
    } else if (b.storage == WeightStorage::Integers) {
      blockRows(from, lda, tile.rows, b.k, kPadded, distance, reinterpret_cast<int16_t*>(blocked) + tile.a);
    } else {
      blockRows(from, lda, tile.rows, b.k, kPadded, distance, blocked + tile.a);
    }
  };
  Product p = productOf(b, c, ldc, epilogue);
  p.a = inPlace ? a : blocked;
  if (b.storage == WeightStorage::Integers) p.integers = reinterpret_cast<int16_t*>(blocked);
  if (!rowScales.empty()) p.rowScales = rowScales.data();
  p.inputZero = LineType::ofLargest(0).zero();
  if (lines) p.lines = reinterpret_cast<const CacheLine*>(blocked);
  std::vector<int64_t> steps(static_cast<size_t>(kPadded / unit));
  const int64_t step = inPlace ? kBlock : distance * (lines ? 1 : kBlock);
  for (size_t s = 0; s < steps.size(); ++s) steps[s] = static_cast<int64_t>(s) * step;
  p.rowStride = lines ? 1 : inPlace && m > 1 ? lda : kBlock;
  p.steps = steps.data();
  p.stepCount = static_cast<int64_t>(steps.size());
  p.depth = unit;
  if (lines && b.k % unit != 0) {
    p.tailSteps = 1;
    p.tailDepth = b.k % unit;
  }
  const int64_t wanted = std::clamp<int64_t>(static_cast<int64_t>(cost / 10), 1, 64);
  if (const int64_t ownPieces = std::min(tileCount, piecesOfRows(m, b, wanted)); ownPieces > 0) {
    parallelFor(ownPieces, threads, [&](int64_t i) {
      const Piece rows = pieceOf(tileCount, ownPieces, i);
      for (int64_t tile = inPlace ? rows.end : rows.begin; tile < rows.end; ++tile) blockTile(tile);
      runTiles(p, tiles.data() + rows.begin, rows.end - rows.begin, 0, panels, kNoPanel);
    });
    return;
  }
  if (p.a == blocked) parallelFor(tileCount, m * b.k < 64 * 1024 ? 1 : threads, blockTile);
  // Groups of four panels. Rows are split too where those are too few, and where rows outgrow the cache that they stay
  // in from panel to panel.
  const int64_t groups = (panels + 3) / 4;
  const int64_t panelPieces = std::min(groups, wanted);
  int64_t rowPieces = (m + kCachedRows - 1) / kCachedRows;
  if (panelPieces < kFewPieces) rowPieces = std::max(rowPieces, (wanted + panelPieces - 1) / panelPieces);
  rowPieces = std::min(tileCount, rowPieces);
  const int64_t pieces = panelPieces * rowPieces;
  auto groupOf = [&](int64_t piece) { return pieceOf(groups, panelPieces, piece / rowPieces); };
  parallelFor(pieces, threads, [&](int64_t i) {
    Piece group = groupOf(i), rows = pieceOf(tileCount, rowPieces, i % rowPieces);
    const int64_t after = chunkAfter(i);
    const Piece next = after >= 0 && after < pieces ? groupOf(after) : group;
    const int64_t following = next.begin != group.begin ? next.begin * 4 : kNoPanel;
    runTiles(p, tiles.data() + rows.begin, rows.end - rows.begin, group.begin * 4, std::min(panels, group.end * 4),
             following);
  });
}

}  // namespace

int64_t packedDepth(int64_t k, WeightStorage storage) {
  const bool lines = rowsTogether(storage) > 1 && storage != WeightStorage::Integers;
  return roundUp(std::max<int64_t>(k, 1), lines ? lineDepth(storage) : kBlock);
}

int64_t packedBytes(int64_t k, int64_t n, WeightStorage storage) {
  return PackedWeights{panelsOf(n), packedDepth(k, storage), storage}.bytes();
}

void packMatrix(int64_t k, int64_t n, const float* b, int64_t rowStride, int64_t columnStride, WeightStorage storage,
                void* packed) {
  PackedWeights{panelsOf(n), packedDepth(k, storage), storage}.pack(packed, [=](int64_t panel, int64_t row, float* to) {
    const int64_t column = panel * kBlock;
    gatherLanes(b + (row < k ? row : 0) * rowStride + column * columnStride, columnStride, row < k ? n - column : 0,
                to);
  });
}

void packColumns(int64_t k, int64_t n, FunctionRef<void(int64_t, int64_t, float*)> columns, WeightStorage storage,
                 void* packed) {
  std::vector<float> block(static_cast<size_t>(k * kBlock));
  int64_t known = -1;
  PackedWeights{panelsOf(n), packedDepth(k, storage), storage}.pack(packed, [&](int64_t panel, int64_t row, float* to) {
    const int64_t count = std::min<int64_t>(kBlock, n - panel * kBlock);
    if (panel != std::exchange(known, panel)) columns(panel * kBlock, count, block.data());
    gatherLanes(block.data() + (row < k ? row : 0), k, row < k ? count : 0, to);
  });
}

int64_t gemmWorkspace(int64_t m, const PackedMatrix& b) {
  const int64_t fixed = wantsFixedRows(m, b) ? fixedRowsBytes(m, packedDepth(b.k, b.storage)) : 0;
  if (isBlockedAsItIs(m, b)) return fixed;
  return std::max(fixed, (std::min(m, kRowBlock) + kMostTileRows) * packedDepth(b.k, b.storage) *
                             static_cast<int64_t>(sizeof(float)));
}

void gemm(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
          const Epilogue& epilogue, void* workspace, int threads) {
  if (b.n == 0) return;
  for (int64_t row = 0; row < m; row += kRowBlock) {
    Epilogue part = epilogue;
    if (part.residual) part.residual += row * ldc;
    gemmBlock(std::min(kRowBlock, m - row), a + row * lda, lda, b, c + row * ldc, ldc, part,
              static_cast<float*>(workspace), threads);
  }
}

}  // namespace tscompile
