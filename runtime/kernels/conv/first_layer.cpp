// Convolution of a plain image of few channels: products of rows of (x, channel), or of patches as rows of lines.
#include "runtime/kernels/conv/grid-inl.h"
#include "runtime/kernels/integer_product.h"
#include "runtime/kernels/lines/patches.h"

#include <cstddef>
#include <memory>
#include <utility>

namespace tscompile {
namespace {

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
// Patches are made as they are multiplied, some at a time that stay in the cache, unless several threads read them for
// panels of their own: as many weights as that is worth for.
bool makesPatchesOnce(const ConvShape& s, WeightStorage storage) {
  constexpr int64_t kFewWeights = 256 << 10;
  return firstWeights(s, storage).bytes() > kFewWeights;
}
// Bytes of the copy of an image: rows, and patches if they are made once.
int64_t firstCopyBytes(const ConvShape& s, WeightStorage storage) {
  const int64_t height = firstRows(s);
  if (!firstAreLines(s, storage)) return height * firstRow(s) * elementBytes(storage);
  const int64_t patches = makesPatchesOnce(s, storage) ? s.outArea() * linesOf(patchDepth(s), storage) : 0;
  return (patches + height * linesOf(firstRow(s), storage)) * kLineBytes;
}
// The last step of all may read one more, the last tile of lines rows that are not there.
int64_t firstWorkspace(const ConvShape& s, WeightStorage storage) {
  const int64_t bytes = firstCopyBytes(s, storage);
  const int64_t behind = !firstAreLines(s, storage)     ? elementBytes(storage)
                         : makesPatchesOnce(s, storage) ? linesBehind() * linesOf(patchDepth(s), storage)
                                                        : 0;
  return bytes * imagesAtOnce(s, bytes) + behind;
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
                     float* output, const Epilogue& e, CacheLine* copy, int threads) {
  const int64_t height = firstRows(s), outWidth = s.outWidth(), rowLines = linesOf(firstRow(s), storage);
  const int64_t count = linesOf(patchDepth(s), storage), element = 64 / lineDepth(storage), area = s.inArea();
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
  // Of outputs [begin, end) of an image, whose rows these are.
  auto makePatches = [&](const CacheLine* rows, int64_t begin, int64_t end, CacheLine* to) {
    for (int64_t at = begin, n; at < end; at += n, to += n * count) {
      const int64_t y = at / outWidth, x = at % outWidth, apart = s.strideWidth * pixel;
      n = std::min(end - at, outWidth - x);
      patchesToLines(reinterpret_cast<const std::byte*>(rows + y * s.strideHeight * rowLines) + x * apart, apart, n,
                     loads, to);
    }
  };
  std::vector<int64_t> steps;
  for (int64_t line = 0; line < count; ++line) steps.push_back(line);
  // A patch is a row of lines, so that all outputs may be one row.
  const std::vector<RowTile> tiles = longRowTiles(s.outArea(), count, maxLineRows());
  Product shared = productOf(s, steps, storage, e);
  shared.rowStride = count;
  shared.depth = lineDepth(storage);
  if (patchDepth(s) % shared.depth != 0) {
    shared.tailSteps = 1;
    shared.tailDepth = patchDepth(s) % shared.depth;
  }
  const Bands bands = bandsOf(s);
  const PackedWeights weights = firstWeights(s, storage);
  Grid grid = gridOf(s, images, bands, static_cast<int64_t>(tiles.size()), lineSpeed(storage));
  auto productAt = [&](int64_t i, int64_t band, const CacheLine* lines) {
    Product p = shared;
    readAs(p, types[static_cast<size_t>(i)]);
    readFrom(p, lines);
    enterUnit(bands, p, weights, packed, output, i, band);
    return p;
  };
  if (makesPatchesOnce(s, storage)) {
    CacheLine* patches = copy + images * height * rowLines;
    const int64_t image = s.outArea() * count;
    parallelFor(images * s.outHeight(), images * image < 1024 ? 1 : threads, [&](int64_t i) {
      makePatches(copy + i / s.outHeight() * height * rowLines, i % s.outHeight() * outWidth,
                  (i % s.outHeight() + 1) * outWidth, patches + i * outWidth * count);
    });
    return runGrid(
        images, bands, tiles, grid, threads,
        [&](int64_t i, int64_t band) { return productAt(i, band, patches + i * image); }, kPrepared);
  }
  grid.tilePieces = std::min<int64_t>(grid.tilePieces * grid.panelPieces, static_cast<int64_t>(tiles.size()));
  grid.panelPieces = 1;
  constexpr int64_t kStripLines = 640;
  const int64_t perStrip = std::max<int64_t>(2, kStripLines / (maxLineRows() * count) / 2 * 2);  // tiles
  runGrid(
      images, bands, tiles, grid, threads,
      [&](int64_t i, int64_t band) { return productAt(i, band, copy + i * height * rowLines); }, kPrepared,
      [&](Product p, Piece range, int64_t firstPanel, int64_t endPanel, const Following& following) {
        const auto strip =
            std::make_unique_for_overwrite<CacheLine[]>(static_cast<size_t>(perStrip * maxLineRows() * count));
        const CacheLine* rows = std::exchange(p.lines, strip.get());
        for (int64_t t = range.begin; t < range.end; t += perStrip) {
          const int64_t end = std::min(t + perStrip, range.end);
          std::vector<RowTile> some(tiles.begin() + t, tiles.begin() + end);
          const int64_t first = some[0].a;
          makePatches(rows, first / count, some.back().a / count + some.back().rows, strip.get());
          for (RowTile& tile : some) tile.a -= first;
          runTiles(p, some.data(), end - t, firstPanel, endPanel, following);
        }
      });
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
