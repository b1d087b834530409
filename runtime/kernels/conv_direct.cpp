// Direct convolution on blocked activations: for each output row, tiles of neighbouring outputs times panels of output
// channels, summed over input blocks and kernel positions by the register tile of matrix products. Padding and strides
// along the width are dealt with by one copy of the input, so that neighbouring outputs read neighbouring blocks. The
// first layer of a network does the same on rows of (x, channel). Products of integers copy always, into 16 bits, and
// so do products of lines.
#include "runtime/call/shared_work.h"
#include "runtime/call/thread_pool.h"
#include "runtime/kernels/conv.h"
#include "runtime/kernels/conv_bands.h"
#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"
#include "runtime/kernels/packed_weights.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <type_traits>
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
bool takesLines(const ConvShape& s, WeightStorage storage, DType dtype) {
  return areLines(s, storage) && storage == (dtype == DType::BFloat16 ? WeightStorage::BF16 : WeightStorage::I8);
}

// How the kernel finds its input: elements, or lines, between channel blocks, rows, and columns of equal phase (x mod
// stride).
struct InputView {
  int64_t height, width;  // of a frame, that the kernel may read; width per phase
  int64_t phases;         // stride along the width, once copied
  bool copied;
  int64_t pixel = kBlock;  // elements of a block
  int64_t step = 1;        // blocks between neighbouring outputs
  int64_t frames = 1;
  int64_t rows() const { return frames * height; }
  int64_t row() const { return phases * width * pixel; }
  int64_t frame() const { return height * row(); }
  int64_t plane() const { return frames * frame(); }
};

InputView viewOf(const ConvShape& s, WeightStorage storage) {
  const ConvFrames& f = s.frames;
  const bool padded = s.padTop || s.padLeft || s.padBottom || s.padRight || f.padFront || f.padBack,
             lines = areLines(s, storage);
  const int64_t pixel = lines ? 1 : kBlock;
  if (s.input.isLines()) {
    constexpr int64_t kMostStride = 2;  // so that a tile reads only a little past the input
    if (!padded && s.strideWidth <= kMostStride) return {s.inHeight, s.inWidth, 1, false, pixel, s.strideWidth, f.in};
    return {s.inHeight + s.padTop + s.padBottom,
            s.inWidth + s.padLeft + s.padRight,
            1,
            true,
            pixel,
            s.strideWidth,
            f.padded()};
  }
  // Floats are read where they are; those of outputs that lie apart are worth a copy if they are read several times.
  const bool converts = lines || areIntegers(storage);
  if (!padded && s.strideWidth == 1) return {s.inHeight, s.inWidth, 1, converts, pixel, 1, f.in};
  if (!padded && !converts && s.kernelWidth <= s.strideWidth)
    return {s.inHeight, s.inWidth, 1, false, pixel, s.strideWidth, f.in};
  int64_t height = (s.outHeight() - 1) * s.strideHeight + (s.kernelHeight - 1) * s.dilationHeight + 1;
  int64_t width = (s.outWidth() - 1) * s.strideWidth + (s.kernelWidth - 1) * s.dilationWidth + 1;
  const int64_t frames = (f.out() - 1) * f.stride + (f.kernel - 1) * f.dilation + 1;
  return {height, (width + s.strideWidth - 1) / s.strideWidth, s.strideWidth, true, pixel, 1, frames};
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

// Row y of all frames of the padded copy of one channel block. pixels(x, count, to) copies the input's pixels x, x +
// phases...
template <class T, class Pixels>
void copyRow(const ConvShape& s, const InputView& view, int64_t y, T nothing, T* to, Pixels&& pixels) {
  const int64_t inFrame = y / view.height - s.frames.padFront, inY = y % view.height - s.padTop;
  T* out = to + y * view.row();
  if (inFrame < 0 || inFrame >= s.frames.in || inY < 0 || inY >= s.inHeight) {
    std::fill_n(out, view.row(), nothing);
    return;
  }
  for (int64_t phase = 0; phase < view.phases; ++phase) {
    T* columns = out + phase * view.width * view.pixel;
    // x = i * phases + phase - padLeft lies inside for i in [begin, end).
    int64_t begin = std::max<int64_t>(0, (s.padLeft - phase + view.phases - 1) / view.phases);
    begin = std::min(s.padLeft - phase <= 0 ? 0 : begin, view.width);
    int64_t last = s.inWidth - 1 + s.padLeft - phase;
    int64_t end = std::clamp<int64_t>(last < 0 ? 0 : last / view.phases + 1, begin, view.width);
    std::fill_n(columns, begin * view.pixel, nothing);
    pixels((inFrame * s.inHeight + inY) * s.inWidth + begin * view.phases + phase - s.padLeft, end - begin,
           columns + begin * view.pixel);
    std::fill_n(columns + end * view.pixel, (view.width - end) * view.pixel, nothing);
  }
}

template <class T>
void copyBlockRow(const ConvShape& s, const InputView& view, const float* plane, int64_t y, T* to) {
  copyRow(s, view, y, T(0), to, [&](int64_t pixel, int64_t count, T* out) {
    const float* from = plane + pixel * kBlock;
    if (view.phases == 1) return toElements(from, count * kBlock, out);
    for (int64_t i = 0; i < count; ++i) toElements(from + i * view.phases * kBlock, kBlock, out + i * kBlock);
  });
}

// Of the first `channels` channels from a plane on, at most a line of them.
void copyLineRow(const ConvShape& s, const InputView& view, const float* plane, int64_t channels, int64_t y,
                 const LineType& type, CacheLine* to) {
  copyRow(s, view, y, type.zeros(), to, [&](int64_t pixel, int64_t count, CacheLine* out) {
    if (s.input.isLines())
      return std::memcpy(out, plane + pixel * kBlock, static_cast<size_t>(count) * sizeof(*out)), void();
    pixelsToLines(plane + pixel * kBlock, count, view.phases * kBlock, channels, s.inArea() * kBlock, type, out);
  });
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

// ---- blocked input ----

bool directAccepts(const ConvShape&) { return true; }

// Channels of a block of the input.
int64_t blockOf(const ConvShape& s, WeightStorage storage) {
  return areLines(s, storage) ? lineDepth(storage) : kBlock;
}

// Whether weights go by kernel rows first, so that outputs of which many lie in the margins are sums over the others:
// of transposed convolutions, and where dilation sets rows far apart. Says nothing of the input's size: plans for
// several share their weights.
bool goByRows(const ConvShape& s, WeightStorage storage) {
  constexpr int64_t kFewestRows = 4;  // of fewer, the order of blocks gains as much as what is left out
  constexpr int64_t kFarApart = 6;
  const bool floats = storage == WeightStorage::F32 || storage == WeightStorage::F16 || storage == WeightStorage::BF16;
  const int64_t padding = s.padTop + s.padBottom, reach = s.dilationHeight * (s.kernelHeight - 1);
  const bool hasMargins =
      s.dilationHeight >= kFarApart ? reach > 0 && padding >= reach : s.kernelHeight >= kFewestRows && padding > reach;
  return hasMargins && floats && !areLines(s, storage) && groupsAreBlocks(s) && s.inGroup() % kBlock == 0 &&
         !s.isVolume();
}

PackedWeights directWeights(const ConvShape& s, WeightStorage storage) {
  const int64_t unit = partOf(s, blockOf(s, storage));
  const Bands bands = bandsOf(s, unit);
  const bool whole = areLines(s, storage) || !groupsAreBlocks(s);
  const int64_t channels = whole ? bands.parts * unit : stepDepth(s.inGroup(), storage);
  return {bands.count * bands.panels, channels * s.taps(), storage};
}
int64_t directPackedBytes(const ConvShape& s, WeightStorage storage) { return directWeights(s, storage).bytes(); }

void directPack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t area = s.taps(), depth = s.inGroup() * area;
  const int64_t unit = partOf(s, blockOf(s, storage));
  const Bands bands = bandsOf(s, unit);
  const bool whole = groupsAreBlocks(s), lines = areLines(s, storage), byRows = goByRows(s, storage);
  const int64_t rowDepth = s.kernelWidth * unit, parts = s.inGroup() / unit;
  directWeights(s, storage).pack(packed, [&](int64_t panel, int64_t row, float* to) {
    // Rows go part of input channels, kernel position, channel in the part.
    if (byRows) {
      const int64_t ky = row / (parts * rowDepth), part = row / rowDepth % parts;
      row = (part * s.kernelHeight + ky) * rowDepth + row % rowDepth;
    }
    const int64_t part = partsOfBand(s, panel / bands.panels, unit).begin + row / (area * unit);
    const int64_t inside = row % (area * unit);
    const int64_t partDepth = lines ? unit : stepDepth(std::min(unit, s.inChannels - part * unit), storage);
    std::fill_n(to, kBlock, 0.0f);
    if (inside >= partDepth * area) return;
    const int64_t position = inside / partDepth, in = part * unit + inside % partDepth;
    if (in >= s.inChannels) return;
    const int64_t channel = panel * kBlock, left = s.outChannels - channel;
    const float* first = weights + channel * depth + in % s.inGroup() * area + position;
    if (whole) return gatherLanes(first, depth, left, to);
    for (int64_t lane = 0; lane < std::min<int64_t>(kBlock, left); ++lane)
      if ((channel + lane) / s.outGroup() == in / s.inGroup()) to[lane] = first[lane * depth];
  });
}

// Of an element of a copy.
int64_t elementBytes(WeightStorage storage) { return areIntegers(storage) ? 2 : 4; }

constexpr int64_t kLineBytes = static_cast<int64_t>(sizeof(CacheLine));
// That a tile of lines may read past the last one.
int64_t linesBehind() { return maxLineRows() * kLineBytes; }

int64_t copyBytes(const ConvShape& s, WeightStorage storage) {
  const InputView view = viewOf(s, storage);
  if (!view.copied) return 0;
  const int64_t unit = blockOf(s, storage), blocks = (s.inChannels + unit - 1) / unit;
  return blocks * view.plane() * (areLines(s, storage) ? kLineBytes : elementBytes(storage));
}
int64_t directWorkspace(const ConvShape& s, WeightStorage storage) {
  return copyBytes(s, storage) * imagesAtOnce(s, copyBytes(s, storage)) +
         (areLines(s, storage) ? linesBehind() * s.strideWidth : 0);
}

// 1 x 1 on the input as it is: all pixels are one row.
bool isPointwise(const ConvShape& s, const InputView& view) {
  return s.kernelHeight == 1 && s.kernelWidth == 1 && s.strideHeight == 1 && view.phases == 1 && view.step == 1 &&
         view.height == s.inHeight && view.width == s.inWidth && !s.padTop && !s.padLeft && s.frames.kernel == 1 &&
         s.frames.stride == 1 && !s.frames.padFront;
}

// From an output's first input to each one that it is a sum over: channels of these parts, of blocks of `perBlock`.
std::vector<int64_t> stepsOf(const ConvShape& s, const InputView& view, Piece parts, int64_t perBlock, bool byRows) {
  std::vector<int64_t> steps;
  auto addRow = [&](int64_t part, int64_t kz, int64_t ky) {
    for (int64_t kx = 0; kx < s.kernelWidth; ++kx) {
      int64_t x = kx * s.dilationWidth;
      steps.push_back(part / perBlock * view.plane() + part % perBlock * (kBlock / perBlock) +
                      kz * s.frames.dilation * view.frame() + ky * s.dilationHeight * view.row() +
                      (x % view.phases * view.width + x / view.phases) * view.pixel);
    }
  };
  if (byRows)
    for (int64_t ky = 0; ky < s.kernelHeight; ++ky)
      for (int64_t part = parts.begin; part < parts.end; ++part) addRow(part, 0, ky);
  else
    for (int64_t part = parts.begin; part < parts.end; ++part)
      for (int64_t kz = 0; kz < s.frames.kernel; ++kz)
        for (int64_t ky = 0; ky < s.kernelHeight; ++ky) addRow(part, kz, ky);
  return steps;
}

// Whether an output reads this row of a frame, and this frame.
bool isRead(const ConvShape& s, const InputView& view, int64_t row) {
  return (s.kernelHeight > 1 || row % view.height % s.strideHeight == 0) &&
         (s.frames.kernel > 1 || row / view.height % s.frames.stride == 0);
}

// The input as the products read it, image by image and block by block of `unit` channels.
template <class T>
void copyInput(const ConvShape& s, const InputView& view, int64_t images, int64_t unit, const Grid& grid,
               const std::vector<LineType>& types, const float* input, T* copy, int threads) {
  const int64_t blocks = (s.inChannels + unit - 1) / unit, plane = view.plane() / view.pixel * unit, area = s.inArea();
  // Rows of all channels together if they are multiplied so, and probably made so.
  const bool byRows = grid.tilePieces > grid.panelPieces;
  const int64_t pieces = std::max(byRows ? std::min<int64_t>(view.rows(), 4) : 1, plane / (32 * 1024));
  parallelFor(images * blocks * pieces, images * blocks * plane < 64 * 1024 ? 1 : threads, [&](int64_t i) {
    const Piece rows = pieceOf(view.rows(), pieces, byRows ? i / blocks % pieces : i % pieces);
    const int64_t block = byRows ? i % blocks : i / pieces % blocks, image = i / pieces / blocks;
    const int64_t channel = block * unit;
    const float* from = s.input.isLines() ? input + (image * blocks + block) * kBlock * area
                                          : input + (image * channelBlocks(s.inChannels) * kBlock + channel) * area;
    T* to = copy + (image * blocks + block) * view.plane();
    for (int64_t y = rows.begin; y < rows.end; ++y) {
      if (!isRead(s, view, y)) continue;
      if constexpr (std::is_same_v<T, CacheLine>)
        copyLineRow(s, view, from, std::min(unit, s.inChannels - channel), y, types[static_cast<size_t>(image)], to);
      else
        copyBlockRow(s, view, from, y, to);
    }
  });
}

template <class T>
void directImages(const ConvShape& s, int64_t images, const float* input, const void* packed, WeightStorage storage,
                  float* output, const Epilogue& e, T* copy, int threads) {
  constexpr bool kLines = std::is_same_v<T, CacheLine>;
  const InputView view = viewOf(s, storage);
  const int64_t unit = blockOf(s, storage), blocks = (s.inChannels + unit - 1) / unit;
  const int64_t part = partOf(s, unit), perBlock = unit / part;
  const Bands bands = bandsOf(s, part);
  const int64_t tileRows = kLines ? maxLineRows() : maxTileRows();
  const std::vector<RowTile> tiles =
      isPointwise(s, view)
          ? longRowTiles(s.outArea(), view.pixel, tileRows)
          : rowTiles(s, {s.frames.stride * view.frame(), s.strideHeight * view.row(), view.pixel * view.step}, tileRows,
                     kLines && takesWholeTiles());
  const Grid grid = gridOf(s, images, bands, static_cast<int64_t>(tiles.size()), kLines ? lineSpeed(storage) : 1);
  const std::vector<LineType> types = lineTypes(
      s, kLines ? images : 0, channelBlocks(s.inChannels), storage, threads, [&](int64_t image, int64_t block) {
        return largestOf(input + (image * channelBlocks(s.inChannels) + block) * s.inArea() * kBlock, s.inArea(),
                         std::min<int64_t>(kBlock, s.inChannels - block * kBlock), kBlock);
      });
  // The thread that multiplies some pixels makes their lines, so that they stay in its cache.
  const bool byPieces = kLines && view.copied && isPointwise(s, view) && grid.panelPieces == 1;
  if (view.copied && !byPieces) copyInput(s, view, images, unit, grid, types, input, copy, threads);
  const bool byRows = goByRows(s, storage);
  // Of bands that start with each part of a block.
  std::vector<std::vector<int64_t>> steps;
  for (int64_t first = 0; first < perBlock; ++first)
    steps.push_back(stepsOf(s, view, {first, first + bands.parts}, perBlock, byRows));
  Product shared = productOf(s, steps[0], storage, e);
  shared.rowStride = view.step * view.pixel;
  shared.depth = part;
  const PackedWeights weights = directWeights(s, storage);
  auto linesOfTiles = [&](int64_t image, int64_t band, Piece range) {
    if constexpr (kLines) {
      if (!byPieces) return;
      const RowTile &first = tiles[static_cast<size_t>(range.begin)], &last = tiles[static_cast<size_t>(range.end - 1)];
      const Piece seen = partsOfBand(s, band, unit);
      const int64_t plane = s.inArea(), count = last.a + last.rows - first.a;
      for (int64_t block = seen.begin; block < seen.end; ++block)
        pixelsToLines(input + (image * channelBlocks(s.inChannels) * kBlock + block * unit) * plane + first.a * kBlock,
                      count, kBlock, std::min(unit, s.inChannels - block * unit), plane * kBlock,
                      types[static_cast<size_t>(image)], copy + (image * blocks + block) * view.plane() + first.a);
    }
  };
  auto productAt = [&](int64_t image, int64_t band) {
    Product p = shared;
    if constexpr (kLines) readAs(p, types[static_cast<size_t>(image)]);
    const Piece seen = partsOfBand(s, band, part);
    const int64_t at = (image * blocks + seen.begin / perBlock) * view.plane();
    using Input = std::conditional_t<kLines, CacheLine, float>;
    view.copied ? readFrom(p, copy + at) : readFrom(p, reinterpret_cast<const Input*>(input) + at);
    p.steps = steps[static_cast<size_t>(seen.begin % perBlock)].data();
    p.stepCount = (seen.end - seen.begin) * s.taps();
    if (seen.end * part > s.inChannels) {
      p.tailSteps = s.taps();
      p.tailDepth = stepDepth(s.inChannels % part, storage);
    }
    enterUnit(bands, p, weights, packed, output, image, band);
    return p;
  };
  const std::vector<SeenRows> seen = byRows ? seenRows(s) : std::vector<SeenRows>();
  if (seen.empty()) return runGrid(images, bands, tiles, grid, threads, productAt, linesOfTiles);
  runGrid(images, bands, tiles, grid, threads, productAt, linesOfTiles,
          [&](const Product& p, Piece range, int64_t firstPanel, int64_t endPanel, const Following&) {
            runSeen(s, p, seen, tiles, range, firstPanel, endPanel);
          });
}

// Where the results of image n are, and what happens to them from there on.
int64_t outputStart(const ConvShape& s, int64_t n, const Epilogue& e) {
  return blockedSize(n, s.outChannels, s.outArea(), e.resultType);
}
Epilogue epilogueFrom(const ConvShape& s, int64_t n, Epilogue e) {
  if (e.residual) e.residual += blockedSize(n, s.outChannels, s.outArea(), e.residualType);
  return e;
}

void directRun(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
               const Epilogue& epilogue, void* workspace, int threads) {
  threads = threadsWorth(directCost(s), threads);
  const int64_t atOnce = imagesAtOnce(s, copyBytes(s, storage));
  for (int64_t n = 0; n < s.batch; n += atOnce) {
    const int64_t in = blockedSize(n, s.inChannels, s.inArea(), s.input), out = outputStart(s, n, epilogue);
    const Epilogue e = epilogueFrom(s, n, epilogue);
    auto run = [&](auto* copy) {
      directImages(s, std::min(atOnce, s.batch - n), input + in, packed, storage, output + out, e, copy, threads);
    };
    if (areLines(s, storage))
      run(static_cast<CacheLine*>(workspace));
    else if (areIntegers(storage))
      run(static_cast<int16_t*>(workspace));
    else
      run(static_cast<float*>(workspace));
  }
}

// ---- plain input of few channels ----

// The input of up to four channels is an image, which would have to be brought into blocks for other ways; more
// channels mostly come in blocks.
double firstCost(const ConvShape& s) { return directCost(s) * (s.inChannels <= 4 ? 0.8 : 1.2); }

// Of products of lines: a patch of the input is one row, positions and then channels.
int64_t patchDepth(const ConvShape& s) { return s.taps() * s.inChannels; }
// Patches of lines are made of frames alone, and take longer to make than the smallest products of floats take; those
// of bytes are always multiplied so.
bool firstAreLines(const ConvShape& s, WeightStorage storage) {
  constexpr int64_t kSmall = 320;
  return !s.isVolume() && areLines(s, storage) &&
         (storage == WeightStorage::Bytes || patchDepth(s) * s.outChannels >= kSmall);
}
bool firstMakesLines(const ConvShape& s, WeightStorage storage, DType dtype) {
  return firstAreLines(s, storage) && makesLines(s, storage, dtype);
}

// Neighbouring kernel positions of a row are one step, unless dilation sets them apart.
struct FirstSteps {
  int64_t perRow, positions, depth;  // steps of a kernel's row, kernel positions of each, what it reads
};
FirstSteps firstSteps(const ConvShape& s, WeightStorage storage) {
  const int64_t positions = s.dilationWidth == 1 ? s.kernelWidth : 1;
  return {s.kernelWidth / positions, positions, stepDepth(positions * s.inChannels, storage)};
}

PackedWeights firstWeights(const ConvShape& s, WeightStorage storage) {
  if (firstAreLines(s, storage))
    return {channelBlocks(s.outChannels), linesOf(patchDepth(s), storage) * lineDepth(storage), storage};
  const FirstSteps steps = firstSteps(s, storage);
  return {channelBlocks(s.outChannels), s.frames.kernel * s.kernelHeight * steps.perRow * steps.depth, storage};
}
int64_t firstPackedBytes(const ConvShape& s, WeightStorage storage) { return firstWeights(s, storage).bytes(); }

void firstPack(const ConvShape& s, const float* weights, WeightStorage storage, void* packed) {
  const int64_t area = s.taps();
  FirstSteps steps = firstSteps(s, storage);
  if (firstAreLines(s, storage)) steps = {1, area, lineDepth(storage) * linesOf(patchDepth(s), storage)};
  firstWeights(s, storage).pack(packed, [&](int64_t panel, int64_t row, float* to) {
    const int64_t inStep = row % steps.depth, channel = panel * kBlock, in = inStep % s.inChannels;
    const int64_t position = row / steps.depth * steps.positions + inStep / s.inChannels;
    if (inStep >= steps.positions * s.inChannels) return std::fill_n(to, kBlock, 0.0f), void();
    gatherLanes(weights + (channel * s.inChannels + in) * area + position, s.inChannels * area, s.outChannels - channel,
                to);
  });
}

// Elements of one padded row of (x, channel).
int64_t firstRow(const ConvShape& s) { return (s.inWidth + s.padLeft + s.padRight) * s.inChannels; }
// Padded rows of a frame, and of all.
int64_t firstHeight(const ConvShape& s) { return s.inHeight + s.padTop + s.padBottom; }
int64_t firstRows(const ConvShape& s) { return s.frames.padded() * firstHeight(s); }
// Bytes of the copy of an image: rows, and patches if products are of lines.
int64_t firstCopyBytes(const ConvShape& s, WeightStorage storage) {
  const int64_t height = firstRows(s);
  if (!firstAreLines(s, storage)) return height * firstRow(s) * elementBytes(storage);
  const int64_t patches = s.outArea() * linesOf(patchDepth(s), storage);
  return (patches + height * linesOf(firstRow(s), storage)) * kLineBytes;
}
// The last step of all may read one more.
int64_t firstWorkspace(const ConvShape& s, WeightStorage storage) {
  const int64_t bytes = firstCopyBytes(s, storage);
  return bytes * imagesAtOnce(s, bytes) + (firstAreLines(s, storage) ? 2 * linesBehind() : elementBytes(storage));
}

// Row y of the padded frames, pixel by pixel.
void interleaveRow(const ConvShape& s, const float* image, int64_t y, float* to) {
  const int64_t inFrame = y / firstHeight(s) - s.frames.padFront, inY = y % firstHeight(s) - s.padTop;
  const int64_t channels = s.inChannels;
  if (inFrame < 0 || inFrame >= s.frames.in || inY < 0 || inY >= s.inHeight)
    return std::fill_n(to, firstRow(s), 0.0f), void();
  float* end = std::fill_n(to, s.padLeft * channels, 0.0f) + s.inWidth * channels;
  interleaveRows(image + (inFrame * s.inHeight + inY) * s.inWidth, s.inArea(), channels, s.inWidth,
                 end - s.inWidth * channels);
  std::fill_n(end, s.padRight * channels, 0.0f);
}
void interleaveRow(const ConvShape& s, const float* image, int64_t y, int16_t* to) {
  std::vector<float> row(static_cast<size_t>(firstRow(s)));
  interleaveRow(s, image, y, row.data());
  toElements(row.data(), firstRow(s), to);
}

// Calls row(image, y of it, y of all) for the rows of the padded images.
template <class Row>
void forEachRow(const ConvShape& s, int64_t images, const float* input, int threads, Row&& doRow) {
  const int64_t height = firstRows(s), row = firstRow(s);
  const int64_t pieces = std::max<int64_t>(1, height * row / (16 * 1024));
  parallelFor(images * pieces, images * height * row < 32 * 1024 ? 1 : threads, [&](int64_t i) {
    Piece rows = pieceOf(height, pieces, i % pieces);
    const float* image = input + i / pieces * s.inChannels * s.inArea();
    for (int64_t y = rows.begin; y < rows.end; ++y) doRow(image, y, i / pieces * height + y);
  });
}

void firstLineImages(const ConvShape& s, int64_t images, const float* input, const void* packed, WeightStorage storage,
                     float* output, const Epilogue& e, CacheLine* patches, int threads) {
  const int64_t height = firstRows(s), outHeight = s.outHeight(), outWidth = s.outWidth();
  const int64_t count = linesOf(patchDepth(s), storage), image = outHeight * outWidth * count;
  const int64_t element = 64 / lineDepth(storage), rowLines = linesOf(firstRow(s), storage);
  CacheLine* copy = patches + images * image + maxLineRows();
  const int64_t area = s.inArea();
  const std::vector<LineType> types =
      lineTypes(s, images, s.inChannels, storage, threads, [&](int64_t i, int64_t channel) {
        return largestOf(input + (i * s.inChannels + channel) * area, s.inHeight, s.inWidth, s.inWidth);
      });
  forEachRow(s, images, input, threads, [&](const float* from, int64_t y, int64_t at) {
    std::vector<float> row(static_cast<size_t>(firstRow(s)));
    interleaveRow(s, from, y, row.data());
    toLines(row.data(), firstRow(s), types[static_cast<size_t>(at / height)], copy + at * rowLines, 1);
  });
  const int64_t together = s.dilationWidth == 1 ? s.kernelWidth : 1, pixel = s.inChannels * element;
  const std::vector<std::vector<PatchLoad>> loads =
      patchLoads({s.kernelHeight, s.kernelWidth / together, s.dilationHeight * rowLines * kLineBytes,
                  s.dilationWidth * pixel, together * pixel},
                 count);
  // Of outputs [begin, end) of image i.
  auto makePatches = [&](int64_t i, int64_t begin, int64_t end) {
    for (int64_t at = begin; at < end; ++at) {
      const int64_t row = i * height + at / outWidth * s.strideHeight;
      patchToLines(reinterpret_cast<const std::byte*>(copy + row * rowLines) + at % outWidth * s.strideWidth * pixel,
                   loads, patches + i * image + at * count);
    }
  };
  std::vector<int64_t> steps;
  for (int64_t line = 0; line < count; ++line) steps.push_back(line);
  // A patch is a row of lines, so that all outputs may be one row.
  const std::vector<RowTile> tiles = longRowTiles(outHeight * outWidth, count, maxLineRows());
  Product shared = productOf(s, steps, storage, e);
  shared.rowStride = count;
  shared.depth = lineDepth(storage);
  if (patchDepth(s) % shared.depth != 0) {
    shared.tailSteps = 1;
    shared.tailDepth = patchDepth(s) % shared.depth;
  }
  const Bands bands = bandsOf(s);
  const PackedWeights weights = firstWeights(s, storage);
  const Grid grid = gridOf(s, images, bands, static_cast<int64_t>(tiles.size()), lineSpeed(storage));
  // The thread that multiplies patches makes them, unless several do.
  if (grid.panelPieces > 1)
    parallelFor(images * outHeight, images * image < 1024 ? 1 : threads, [&](int64_t i) {
      makePatches(i / outHeight, i % outHeight * outWidth, (i % outHeight + 1) * outWidth);
    });
  auto patchesOf = [&](int64_t i, int64_t, Piece range) {
    const RowTile &first = tiles[static_cast<size_t>(range.begin)], &last = tiles[static_cast<size_t>(range.end - 1)];
    makePatches(i, first.a / count, last.a / count + last.rows);
  };
  auto productAt = [&](int64_t i, int64_t band) {
    Product p = shared;
    readAs(p, types[static_cast<size_t>(i)]);
    readFrom(p, patches + i * image);
    enterUnit(bands, p, weights, packed, output, i, band);
    return p;
  };
  runGrid(images, bands, tiles, grid, threads, productAt, patchesOf);
}

template <class T>
void firstImages(const ConvShape& s, int64_t images, const float* input, const void* packed, WeightStorage storage,
                 float* output, const Epilogue& e, T* copy, int threads) {
  const int64_t height = firstRows(s), row = firstRow(s), frame = firstHeight(s) * row;
  forEachRow(s, images, input, threads,
             [&](const float* from, int64_t y, int64_t at) { interleaveRow(s, from, y, copy + at * row); });
  const FirstSteps counts = firstSteps(s, storage);
  std::vector<int64_t> steps;
  for (int64_t kz = 0; kz < s.frames.kernel; ++kz)
    for (int64_t ky = 0; ky < s.kernelHeight; ++ky)
      for (int64_t kx = 0; kx < counts.perRow; ++kx)
        steps.push_back(kz * s.frames.dilation * frame + ky * s.dilationHeight * row +
                        kx * s.dilationWidth * s.inChannels);
  const int64_t column = s.strideWidth * s.inChannels;
  std::vector<RowTile> tiles = rowTiles(s, {s.frames.stride * frame, s.strideHeight * row, column}, maxTileRows());
  Product shared = productOf(s, steps, storage, e);
  shared.rowStride = column;
  shared.depth = counts.depth;
  const Bands bands = bandsOf(s);
  const PackedWeights weights = firstWeights(s, storage);
  auto productAt = [&](int64_t image, int64_t band) {
    Product p = shared;
    readFrom(p, copy + image * height * row);
    enterUnit(bands, p, weights, packed, output, image, band);
    return p;
  };
  const Grid grid = gridOf(s, images, bands, static_cast<int64_t>(tiles.size()), 1);
  runGrid(images, bands, tiles, grid, threads, productAt, kPrepared);
}

void firstRun(const ConvShape& s, const float* input, const void* packed, WeightStorage storage, float* output,
              const Epilogue& epilogue, void* workspace, int threads) {
  threads = threadsWorth(directCost(s), threads);
  const bool lines = firstAreLines(s, storage);
  const int64_t atOnce = imagesAtOnce(s, firstCopyBytes(s, storage));
  for (int64_t n = 0; n < s.batch; n += atOnce) {
    const int64_t out = outputStart(s, n, epilogue);
    const Epilogue e = epilogueFrom(s, n, epilogue);
    auto run = [&](auto&& images, auto* copy) {
      images(s, std::min(atOnce, s.batch - n), input + n * s.inChannels * s.inArea(), packed, storage, output + out, e,
             copy, threads);
    };
    if (lines)
      run(firstLineImages, static_cast<CacheLine*>(workspace));
    else if (areIntegers(storage))
      run(firstImages<int16_t>, static_cast<int16_t*>(workspace));
    else
      run(firstImages<float>, static_cast<float*>(workspace));
  }
}

}  // namespace

const ConvTactic kDirectConv = {.name = "direct",
                                .input = ActivationLayout::Blocked,
                                .output = ActivationLayout::Blocked,
                                .integers = true,
                                .lines = areLines,
                                .takesLines = takesLines,
                                .makesLines = makesLines,
                                .accepts = directAccepts,
                                .cost = directCost,
                                .packedBytes = directPackedBytes,
                                .pack = directPack,
                                .workspace = directWorkspace,
                                .run = directRun};
const ConvTactic kFirstLayerConv = {.name = "first_layer",
                                    .input = ActivationLayout::Plain,
                                    .output = ActivationLayout::Blocked,
                                    .integers = true,
                                    .lines = firstAreLines,
                                    .makesLines = firstMakesLines,
                                    .accepts = firstAccepts,
                                    .cost = firstCost,
                                    .packedBytes = firstPackedBytes,
                                    .pack = firstPack,
                                    .workspace = firstWorkspace,
                                    .run = firstRun};

}  // namespace tscompile
