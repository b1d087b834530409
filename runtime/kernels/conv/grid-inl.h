// What convolutions as products of gathered rows share: tiles of outputs, the grid of work, where units read and write.
#pragma once

#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/conv/bands.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tscompile {
namespace {

bool areIntegers(WeightStorage storage) { return storage == WeightStorage::Integers; }

bool firstAccepts(const ConvShape& s) { return s.groups == 1 && s.inChannels <= 8; }

// Whether a group's channels are whole lines, and the machine multiplies them.
bool areLines(const ConvShape& s, WeightStorage storage) {
  if (storage != WeightStorage::BF16 && storage != WeightStorage::I8 && storage != WeightStorage::Bytes) return false;
  if (s.isVolume() && firstAccepts(s) && !s.input.isLines()) return false;  // lines would be all but empty
  return (s.roundsInputs || storage == WeightStorage::Bytes) && hasLineProducts(storage) &&
         (s.groups == 1 || (s.inGroup() % lineDepth(storage) == 0 && s.outGroup() % kBlock == 0));
}

// Whether results, in bands of panels, are whole lines.
bool makesLines(const ConvShape& s, WeightStorage storage, DType dtype) {
  return storage != WeightStorage::Bytes && areLines(s, storage) &&
         (dtype != DType::BFloat16 || hasLineProducts(WeightStorage::BF16)) &&
         (s.groups == 1 || s.outGroup() % ElementType{dtype}.channels() == 0);
}
// Images whose copies are in the workspace at a time.
int64_t imagesAtOnce(const ConvShape& s, int64_t bytesPerImage) {
  constexpr int64_t kWorkspace = 8 << 20;
  return std::clamp<int64_t>(kWorkspace / std::max<int64_t>(bytesPerImage, 1), 1, s.batch);
}

double directCost(const ConvShape& s) {
  double bytes = 4.0 * static_cast<double>(s.batch * (s.inChannels * s.inArea() + s.outChannels * s.outArea()) +
                                           s.outChannels * s.inGroup() * s.taps());
  return s.flops() / usedShare(s) / 100e3 + bytes / 20e3;
}

// Where the inputs of neighbouring outputs start: of frames, rows and columns.
struct Apart {
  int64_t frame, row, column;
};
// Tiles of neighbouring outputs.
std::vector<RowTile> rowTiles(const ConvShape& s, const Apart& a, int64_t tileRows, bool mayHaveGaps = false) {
  const int64_t rows = s.outHeight(), width = s.outWidth(), perRow = (width + tileRows - 1) / tileRows;
  std::vector<RowTile> tiles;
  if (mayHaveGaps && s.frames.out() == 1 && a.row % a.column == 0)
    tiles = gappedTiles(rows, width, a.row / a.column, a.column, tileRows);
  if (!tiles.empty()) return tiles;
  tiles.reserve(static_cast<size_t>(s.frames.out() * rows * perRow));
  for (int64_t y = 0; y < s.frames.out() * rows; ++y)
    for (int64_t i = 0; i < perRow; ++i) {
      Piece x = pieceOf(width, perRow, i);
      tiles.push_back({y / rows * a.frame + y % rows * a.row + x.begin * a.column, (y * width + x.begin) * kBlock,
                       static_cast<int>(x.end - x.begin)});
    }
  return tiles;
}
// Those of outputs that are one long row.
std::vector<RowTile> longRowTiles(int64_t width, int64_t aColumn, int64_t tileRows) {
  const int64_t count = (width + tileRows - 1) / tileRows;
  std::vector<RowTile> tiles;
  for (int64_t i = 0; i < count; ++i) {
    Piece x = pieceOf(width, count, i);
    tiles.push_back({x.begin * aColumn, x.begin * kBlock, static_cast<int>(x.end - x.begin)});
  }
  return tiles;
}

// The work on some images: units (image, band) x pieces of panels x pieces of tiles.
struct Grid {
  int64_t unitPieces, panelPieces, tilePieces;
};
Grid gridOf(const ConvShape& s, int64_t images, const Bands& bands, int64_t tiles, double speed) {
  const double cost = directCost(s) * static_cast<double>(images) / static_cast<double>(s.batch) / speed;
  const int64_t wanted = piecesWorth(cost, 64);
  const int64_t seen = std::min(bands.parts * bands.unit, s.inChannels), units = images * bands.count;
  const int64_t inputBytes = seen * s.inArea() * 4;
  const int64_t weights = seen * bands.panels * kBlock * s.taps() * 4;
  const int64_t groups = (bands.panels + 1) / 2;  // the register tile takes two panels
  Grid grid{std::min(units, wanted), 1, 1};
  auto rest = [&] {
    return (wanted + grid.unitPieces * grid.panelPieces * grid.tilePieces - 1) /
           (grid.unitPieces * grid.panelPieces * grid.tilePieces);
  };
  // What is read by all pieces should be the smaller of the two, and what a piece holds should stay in its cache: the
  // inputs that it reads once for each group of panels, and the panels that the pieces after it read too.
  constexpr int64_t kKeptInputs = 256 << 10, kKeptWeights = 512 << 10;
  if (weights > inputBytes) {
    grid.panelPieces = std::min(groups, rest());
    grid.tilePieces = std::min(tiles, rest());
  } else {
    grid.panelPieces = std::min(groups, (weights + kKeptWeights - 1) / kKeptWeights);
    grid.tilePieces = std::min(tiles, std::max(rest(), inputBytes / kKeptInputs));
    grid.panelPieces *= std::min(groups / grid.panelPieces, rest());
  }
  return grid;
}

// Runs the product of each (image, band); `unit` fills in where it reads and writes. prepare(image, band, tiles) comes
// before the first product of these tiles, unless several threads share them; multiply(product, tiles, first panel, end
// panel, following panel) is it.
template <class Unit, class Prepare, class Multiply>
void runGrid(int64_t images, const Bands& bands, const std::vector<RowTile>& tiles, const Grid& grid, int threads,
             Unit&& unit, Prepare&& prepare, Multiply&& multiply) {
  const int64_t units = images * bands.count, tileCount = static_cast<int64_t>(tiles.size());
  const int64_t groups = (bands.panels + 1) / 2;
  const int64_t pieces = grid.unitPieces * grid.panelPieces * grid.tilePieces;
  auto groupOf = [&](int64_t i) { return pieceOf(groups, grid.panelPieces, i / grid.tilePieces % grid.panelPieces); };
  parallelFor(pieces, threads, [&](int64_t i) {
    Piece range = pieceOf(tileCount, grid.tilePieces, i % grid.tilePieces);
    const Piece group = groupOf(i);
    // Bands have weights of their own.
    const int64_t after = chunkAfter(i, grid.tilePieces);
    Following following{kNoPanel, i % grid.tilePieces, grid.tilePieces};
    if (bands.count == 1 && grid.panelPieces > 1 && after >= 0 && after < pieces)
      following.panel = groupOf(after).begin * 2;
    Piece which = pieceOf(units, grid.unitPieces, i / grid.tilePieces / grid.panelPieces);
    for (int64_t u = which.begin; u < which.end; ++u) {
      if (grid.panelPieces == 1) prepare(u / bands.count, u % bands.count, range);
      multiply(unit(u / bands.count, u % bands.count), range, group.begin * 2, std::min(bands.panels, group.end * 2),
               following);
    }
  });
}
template <class Unit, class Prepare>
void runGrid(int64_t images, const Bands& bands, const std::vector<RowTile>& tiles, const Grid& grid, int threads,
             Unit&& unit, Prepare&& prepare) {
  runGrid(images, bands, tiles, grid, threads, unit, prepare,
          [&](const Product& p, Piece range, int64_t firstPanel, int64_t endPanel, const Following& following) {
            runTiles(p, tiles.data() + range.begin, range.end - range.begin, firstPanel, endPanel, following);
          });
}
constexpr auto kPrepared = [](int64_t, int64_t, Piece) {};

Product productOf(const ConvShape& s, const std::vector<int64_t>& steps, WeightStorage storage, const Epilogue& e) {
  Product p{};
  p.rowStride = kBlock;
  p.steps = steps.data();
  p.stepCount = static_cast<int64_t>(steps.size());
  p.storage = storage;
  p.cRow = kBlock;
  p.cPanel = s.outArea() * kBlock;
  p.columns = s.outGroup();
  p.paddedColumns = true;
  p.epilogue = e;
  return p;
}

// Of one band: where its packed weights, scales, outputs, bias and residual start.
void enterUnit(const Bands& bands, Product& p, const PackedWeights& weights, const void* packed, float* output,
               int64_t image, int64_t band) {
  const int64_t panel = band * bands.panels;
  auto startOf = [&](const ElementType& type) {
    const int64_t parts = type.channels() / kBlock, blocks = (bands.panels + parts - 1) / parts;
    return (image * bands.count + band) * blocks * p.cPanel;
  };
  p.b = weights.values(packed, panel);
  p.scales = weights.scales(packed, panel);
  p.sums = weights.sums(packed, panel);
  p.c = output + startOf(p.epilogue.resultType);
  if (p.epilogue.residual) p.epilogue.residual += startOf(p.epilogue.residualType);
  if (p.epilogue.bias) p.epilogue.bias += panel * kBlock;
  if (p.epilogue.factors) p.epilogue.factors += panel * kBlock;
  if (p.epilogue.integerBias) p.epilogue.integerBias += panel * kBlock;
}

// How the lines of each image are made; largest(image, part) is the largest magnitude of one of its parts.
template <class Largest>
std::vector<LineType> lineTypes(const ConvShape& s, int64_t images, int64_t parts, WeightStorage storage, int threads,
                                Largest&& largest) {
  if (s.input.isLines()) return std::vector<LineType>(static_cast<size_t>(images), LineType::of(s.input));
  if (storage != WeightStorage::I8) return std::vector<LineType>(static_cast<size_t>(images), {storage, s.least});
  std::vector<float> found(static_cast<size_t>(images * parts));
  parallelFor(images * parts, images * s.inChannels * s.inArea() < 64 * 1024 ? 1 : threads,
              [&](int64_t i) { found[static_cast<size_t>(i)] = largest(i / parts, i % parts); });
  std::vector<LineType> types;
  for (auto from = found.begin(); from != found.end(); from += parts) {
    float most = 0;
    for (int64_t i = 0; i < parts; ++i) most = from[i] <= most ? most : from[i];
    for (int64_t i = 0; i < parts; ++i) most = std::isnan(from[i]) ? from[i] : most;
    types.push_back(LineType::ofLargest(most));
  }
  return types;
}

void readFrom(Product& p, const float* a) { p.a = a; }
void readFrom(Product& p, const int16_t* a) { p.integers = a; }
void readFrom(Product& p, const CacheLine* a) { p.lines = a; }
void readAs(Product& p, const LineType& type) {
  p.inputScale = type.scale();
  p.inputZero = type.zero();
}

// Depth of a step that reads so much.
int64_t stepDepth(int64_t depth, WeightStorage storage) { return areIntegers(storage) ? (depth + 1) / 2 * 2 : depth; }

// Of an element of a copy.
int64_t elementBytes(WeightStorage storage) { return areIntegers(storage) ? 2 : 4; }

constexpr int64_t kLineBytes = static_cast<int64_t>(sizeof(CacheLine));
// That a tile of lines may read past the last one.
int64_t linesBehind() { return maxLineRows() * kLineBytes; }

// Where the results of image n are, and what happens to them from there on.
int64_t outputStart(const ConvShape& s, int64_t n, const Epilogue& e) {
  return blockedSize(n, s.outChannels, s.outArea(), e.resultType);
}
Epilogue epilogueFrom(const ConvShape& s, int64_t n, Epilogue e) {
  if (e.residual) e.residual += blockedSize(n, s.outChannels, s.outArea(), e.residualType);
  return e;
}

}  // namespace
}  // namespace tscompile
