// Direct convolution on blocked activations: for each output row, tiles of neighbouring outputs times panels of output
// channels, summed over input blocks and kernel positions by the register tile of matrix products. Padding and strides
// along the width are dealt with by one copy of the input, so that neighbouring outputs read neighbouring blocks.
// Products of integers copy always, into 16 bits, and so do products of lines.
#include "runtime/kernels/conv/grid-inl.h"
#include "runtime/kernels/integer_product.h"

#include <cstring>
#include <type_traits>

namespace tscompile {
namespace {

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

}  // namespace tscompile
