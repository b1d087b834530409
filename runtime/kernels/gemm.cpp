// Products of packed panels (Goto, van de Geijn 2008). A is brought into blocks of 16 k's, as B is when it is packed:
// then one register tile serves products of all shapes and convolutions. Few rows: the work is the reading of B, so the
// threads share its panels. Few rows and int8 weights are multiplied as integers where the processor can; more rows and
// bf16 weights in bf16.
#include "runtime/kernels/gemm.h"

#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/few_columns.h"
#include "runtime/kernels/fixed_rows.h"
#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
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
constexpr int64_t kNarrow = 64;             // of results: more vectors would hardly be fewer together
constexpr double kActivationCost = 0.5e-3;  // microseconds
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

// Results still have to be changed where they lie.
bool isActivatedLater(const Epilogue& e) {
  return !e.factors && e.activation != Activation::None && !isClamp(e.activation);
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

// What fills up the last block of rows of f32 that lie where they are is not multiplied.
bool isCutShort(const PackedMatrix& b) {
  constexpr int64_t kDeepest = 1024;  // of a step
  return b.storage == WeightStorage::F32 && b.k > 0 && b.k < kDeepest && b.k % kBlock != 0;
}
// Rows of floats, with nothing to fill up.
bool areWhole(int64_t m, const PackedMatrix& b) {
  return isCutShort(b) ||
         (b.k == packedDepth(b.k, b.storage) && b.storage != WeightStorage::Integers && !wantsLines(m, b));
}
bool isBlockedAsItIs(int64_t m, const PackedMatrix& b) { return m == 1 && areWhole(m, b); }
// Whether rows are read where they lie. Many columns read them so often that the copy gains more than it costs; rows
// that share lines of the cache push each other out.
bool liesWell(int64_t m, const PackedMatrix& b, int64_t lda) {
  constexpr int64_t kMostColumns = 384;
  return areWhole(m, b) && (m == 1 || (b.n <= kMostColumns && lda % kSameLines != 0));
}

// Pieces of the rows, each times all of B: many rows and a small B. What a core reads of A is then what it reads next
// to it in the products before and after. 0: the columns are to be cut.
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
  const int64_t pieces = std::min(groups, piecesWorth(cost, 64));
  parallelFor(pieces, threadsWorth(cost, threads), [&](int64_t i) {
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

void gemmOfFewColumns(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
                      const Epilogue& epilogue, double cost, int threads) {
  const FewColumns columns(static_cast<const float*>(b.data), b.k, b.n);
  const int64_t most = std::clamp<int64_t>(m / kFewestRows, 1, 64);
  const int64_t pieces = piecesWorth(cost, most);
  parallelFor(pieces, threads, [&](int64_t i) {
    const Piece rows = pieceOf(m, pieces, i);
    Epilogue e = epilogue;
    if (e.residual) e.residual += rows.begin * ldc;
    columns.run(rows.end - rows.begin, a + rows.begin * lda, lda, c + rows.begin * ldc, ldc, e);
  });
}

// A product whose rows lie in tiles: where they are, or brought together in `blocked`, so that what a tile reads at a
// time is one piece of memory.
class TiledGemm {
 public:
  TiledGemm(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
            const Epilogue& epilogue, float* blocked)
      : m_(m),
        a_(a),
        lda_(lda),
        ldc_(ldc),
        b_(b),
        lines_(wantsLines(m, b)),
        inPlace_(liesWell(m, b, lda)),
        blocked_(lines_ ? alignedToLines(blocked) : blocked),
        unit_(lines_ ? lineDepth(b.storage) : kBlock),
        padded_(packedDepth(b.k, b.storage)) {
    const int64_t tileRows = lines_ ? maxLineRows() : maxTileRows();
    tileCount_ = (m + tileRows - 1) / tileRows;
    distance_ = (m + tileCount_ - 1) / tileCount_;
    tiles_ = tilesOf(m, tileCount_, inPlace_ ? lda : 0, distance_ * (lines_ ? padded_ / unit_ : padded_), ldc);
    if (lines_ && b.storage == WeightStorage::I8) rowScales_.resize(static_cast<size_t>(m));
    describe(c, epilogue);
    activatesRows_ = ldc == b.n && b.n < kNarrow && b.n % kBlock != 0 && isActivatedLater(epilogue);
    activation_ = activatesRows_ ? std::exchange(p_.epilogue.activation, Activation::None) : Activation::None;
  }

  void run(double cost, int threads) {
    const int64_t wanted = piecesWorth(cost, 64);
    if (const int64_t pieces = std::min(tileCount_, piecesOfRows(m_, b_, wanted)); pieces > 0)
      return runRows(pieces, threads);
    if (!inPlace_) parallelFor(tileCount_, m_ * b_.k < 64 * 1024 ? 1 : threads, [&](int64_t i) { blockTile(i); });
    runGroups(wanted, threads);
  }

 private:
  static float* alignedToLines(float* at) {
    return reinterpret_cast<float*>(roundUp(static_cast<int64_t>(reinterpret_cast<uintptr_t>(at)), sizeof(CacheLine)));
  }

  void describe(float* c, const Epilogue& epilogue) {
    p_ = productOf(b_, c, ldc_, epilogue);
    p_.a = inPlace_ ? a_ : blocked_;
    if (b_.storage == WeightStorage::Integers) p_.integers = reinterpret_cast<int16_t*>(blocked_);
    if (!rowScales_.empty()) p_.rowScales = rowScales_.data();
    p_.inputZero = LineType::ofLargest(0).zero();
    if (lines_) p_.lines = reinterpret_cast<const CacheLine*>(blocked_);
    steps_.resize(static_cast<size_t>(padded_ / unit_));
    const int64_t step = inPlace_ ? kBlock : distance_ * (lines_ ? 1 : kBlock);
    for (size_t s = 0; s < steps_.size(); ++s) steps_[s] = static_cast<int64_t>(s) * step;
    p_.rowStride = lines_ ? 1 : inPlace_ && m_ > 1 ? lda_ : kBlock;
    p_.steps = steps_.data();
    p_.stepCount = static_cast<int64_t>(steps_.size());
    p_.depth = unit_;
    if (inPlace_ && isCutShort(b_)) {
      p_.stepCount = 1;
      p_.depth = b_.k;
      p_.panelDepth = padded_;
    }
    if (lines_ && b_.k % unit_ != 0) {
      p_.tailSteps = 1;
      p_.tailDepth = b_.k % unit_;
    }
  }

  // Brings the rows of a tile together.
  void blockTile(int64_t i) {
    const RowTile& tile = tiles_[static_cast<size_t>(i)];
    const float* from = a_ + pieceOf(m_, tileCount_, i).begin * lda_;
    if (lines_) return toLineTile(tile, from);
    if (b_.storage == WeightStorage::Integers)
      blockRows(from, lda_, tile.rows, b_.k, padded_, distance_, reinterpret_cast<int16_t*>(blocked_) + tile.a);
    else
      blockRows(from, lda_, tile.rows, b_.k, padded_, distance_, blocked_ + tile.a);
  }
  void toLineTile(const RowTile& tile, const float* from) {
    CacheLine* to = reinterpret_cast<CacheLine*>(blocked_) + tile.a;
    for (int r = 0; r < tile.rows; ++r) {
      LineType type{b_.storage, b_.least};
      if (b_.storage == WeightStorage::I8) {
        type = LineType::ofLargest(largestOf(from + r * lda_, 1, b_.k, 0));
        rowScales_[static_cast<size_t>(tile.c / ldc_ + r)] = type.scale();
      }
      toLines(from + r * lda_, b_.k, type, to + r, distance_);
    }
  }

  // Rows that are no whole vectors are activated as one, once all of their columns are there.
  void activate(const Piece& tiles) {
    if (!activatesRows_) return;
    const int64_t first = pieceOf(m_, tileCount_, tiles.begin).begin, end = pieceOf(m_, tileCount_, tiles.end - 1).end;
    Product p = p_;
    p.c += first * ldc_;
    p.epilogue.activation = activation_;
    activateColumns(p, end - first, 0, b_.n);
  }

  // Each thread brings rows together and multiplies them with all panels.
  void runRows(int64_t pieces, int threads) {
    parallelFor(pieces, threads, [&](int64_t i) {
      const Piece rows = pieceOf(tileCount_, pieces, i);
      for (int64_t tile = inPlace_ ? rows.end : rows.begin; tile < rows.end; ++tile) blockTile(tile);
      runTiles(p_, tiles_.data() + rows.begin, rows.end - rows.begin, 0, panelsOf(b_.n));
      activate(rows);
    });
  }

  // Groups of four panels. Rows are split too where those are too few, and where rows outgrow the cache that they stay
  // in from panel to panel.
  void runGroups(int64_t wanted, int threads) {
    const int64_t panels = panelsOf(b_.n), groups = (panels + 3) / 4;
    const int64_t panelPieces = std::min(groups, wanted);
    int64_t rowPieces = (m_ + kCachedRows - 1) / kCachedRows;
    if (panelPieces < kFewPieces) rowPieces = std::max(rowPieces, (wanted + panelPieces - 1) / panelPieces);
    rowPieces = std::min(tileCount_, rowPieces);
    const int64_t pieces = panelPieces * rowPieces;
    auto groupOf = [&](int64_t piece) { return pieceOf(groups, panelPieces, piece / rowPieces); };
    parallelFor(pieces, threads, [&](int64_t i) {
      Piece group = groupOf(i), rows = pieceOf(tileCount_, rowPieces, i % rowPieces);
      const int64_t after = chunkAfter(i, rowPieces);
      Following following{kNoPanel, i % rowPieces, rowPieces};
      if (after >= 0 && after < pieces) following.panel = groupOf(after).begin * 4;
      runTiles(p_, tiles_.data() + rows.begin, rows.end - rows.begin, group.begin * 4, std::min(panels, group.end * 4),
               following);
      activate(rows);  // if there are so few columns that they are one group
    });
  }

  const int64_t m_;
  const float* const a_;
  const int64_t lda_, ldc_;
  const PackedMatrix& b_;
  const bool lines_, inPlace_;
  float* const blocked_;
  const int64_t unit_, padded_;  // of the depth: a step, and in whole blocks
  int64_t tileCount_ = 0, distance_ = 0;
  std::vector<RowTile> tiles_;
  std::vector<float> rowScales_;
  std::vector<int64_t> steps_;
  bool activatesRows_ = false;
  Activation activation_ = Activation::None;
  Product p_;
};

void gemmBlock(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
               const Epilogue& epilogue, float* blocked, int threads) {
  if (gemmOfFixedRows(m, a, lda, b, c, ldc, epilogue, blocked, threads)) return;
  double cost = gemmCost(m, b.n, b.k);
  if (isActivatedLater(epilogue)) cost += kActivationCost * static_cast<double>(m * b.n);
  if (b.storage == WeightStorage::F32 && wantsFewColumns(b.n, b.k))
    return gemmOfFewColumns(m, a, lda, b, c, ldc, epilogue, cost, threadsWorth(cost, threads));
  TiledGemm(m, a, lda, b, c, ldc, epilogue, blocked).run(cost, threadsWorth(cost, threads));
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
