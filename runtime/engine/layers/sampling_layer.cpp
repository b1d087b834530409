#include "runtime/engine/layers/sampling_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/sampling/taps.h"

#include <fmt/core.h>

#include <numeric>

namespace tscompile {
namespace {

constexpr int64_t kPlaces = 128;  // whose taps are found at once, for all channels

struct Extent {
  int64_t depth, height, width;
  int64_t count() const { return depth * height * width; }
};

// The elements that are read for some places, and their weights.
struct Taps {
  int32_t index[kMostTaps][kPlaces];
  float weights[kMostTaps][kPlaces];

  void set(int tap, int64_t place, float z, float y, float x, float weight, const Extent& e) {
    auto inside = [](float v, int64_t size) { return v >= 0 && v <= static_cast<float>(size - 1); };
    const bool isThere = inside(z, e.depth) && inside(y, e.height) && inside(x, e.width);
    index[tap][place] =
        isThere ? static_cast<int32_t>((static_cast<int64_t>(z) * e.height + static_cast<int64_t>(y)) * e.width +
                                       static_cast<int64_t>(x))
                : kNoTap;
    weights[tap][place] = weight;
  }
};

int tapsOf(GridMode mode, bool isVolume) {
  return mode == GridMode::Nearest ? 1 : mode == GridMode::Bicubic ? 16 : isVolume ? 8 : 4;
}

using Grid = GridCoordinates<float>;

// Places in an image.
struct Places {
  float y[kPlaces], x[kPlaces];
};

// What is no row or column of an image has no pixel.
int32_t lineAt(float v, int64_t size) {
  const bool isThere = (v >= 0) & (v <= static_cast<float>(size - 1));
  return static_cast<int32_t>(isThere ? v : -1.0f);
}

// Of some lines around each place, where they are and what they weigh.
template <int kCount>
struct Lines {
  int32_t at[kCount][kPlaces];
  float weights[kCount][kPlaces];
};
// Loops over places, one after the other, so that they become vectors.
template <int kCount>
void setTaps(Taps& taps, const Lines<kCount>& rows, const Lines<kCount>& columns, int64_t count, const Extent& e) {
  const auto width = static_cast<int32_t>(e.width);
  for (int tap = 0; tap < kCount * kCount; ++tap) {
    const int i = tap / kCount, j = tap % kCount;
    for (int64_t p = 0; p < count; ++p) {
      const int32_t row = rows.at[i][p], column = columns.at[j][p], at = row * width + column;
      taps.index[tap][p] = (row | column) < 0 ? kNoTap : at;
      taps.weights[tap][p] = rows.weights[i][p] * columns.weights[j][p];
    }
  }
}

void setNearest(Lines<1>& lines, const float* places, int64_t count, int64_t size) {
  for (int64_t p = 0; p < count; ++p) {
    lines.at[0][p] = lineAt(std::nearbyint(places[p]), size);
    lines.weights[0][p] = 1;
  }
}
void setLinear(Lines<2>& lines, const float* places, int64_t count, int64_t size) {
  for (int64_t p = 0; p < count; ++p) {
    const float before = std::floor(places[p]), rest = places[p] - before;
    lines.at[0][p] = lineAt(before, size);
    lines.at[1][p] = lineAt(before + 1, size);
    lines.weights[0][p] = 1 - rest;
    lines.weights[1][p] = rest;
  }
}
// Each line is brought into the image by itself.
void setCubic(Lines<4>& lines, const float* places, int64_t count, int64_t size, const Grid& grid) {
  for (int64_t p = 0; p < count; ++p) {
    float weights[4];
    cubicWeights(places[p] - std::floor(places[p]), weights);
    for (int i = 0; i < 4; ++i) lines.weights[i][p] = weights[i];
  }
  for (int i = 0; i < 4; ++i)
    for (int64_t p = 0; p < count; ++p)
      lines.at[i][p] = lineAt(grid.bounded(std::floor(places[p]) + static_cast<float>(i - 1), size), size);
}

// Between the four pixels around each place; what is outside of the image is 0.
void setPixelTaps(Taps& taps, const Places& places, int64_t count, const Extent& e) {
  Lines<2> rows, columns;
  setLinear(rows, places.y, count, e.height);
  setLinear(columns, places.x, count, e.width);
  setTaps(taps, rows, columns, count, e);
}

// The padding is known where this is compiled, so that its loops become vectors.
template <GridPadding kPadding>
void setImageTaps(Taps& taps, GridMode mode, Grid grid, const float* g, int64_t count, const Extent& e) {
  grid.padding = kPadding;
  grid.isVolume = false;
  Places places{};
  for (int64_t p = 0; p < count; ++p) {
    places.x[p] = grid.scaled(g[2 * p], e.width);
    places.y[p] = grid.scaled(g[2 * p + 1], e.height);
  }
  if (mode == GridMode::Bicubic) {
    Lines<4> rows, columns;
    setCubic(rows, places.y, count, e.height, grid);
    setCubic(columns, places.x, count, e.width, grid);
    return setTaps(taps, rows, columns, count, e);
  }
  for (int64_t p = 0; p < count; ++p) {
    places.x[p] = grid.bounded(places.x[p], e.width);
    places.y[p] = grid.bounded(places.y[p], e.height);
  }
  if (mode == GridMode::Bilinear) return setPixelTaps(taps, places, count, e);
  Lines<1> rows, columns;
  setNearest(rows, places.y, count, e.height);
  setNearest(columns, places.x, count, e.width);
  setTaps(taps, rows, columns, count, e);
}

void setVolumeTaps(Taps& taps, int64_t p, GridMode mode, const Grid& grid, const float* g, const Extent& e) {
  const float x = grid.source(g[0], e.width), y = grid.source(g[1], e.height), z = grid.source(g[2], e.depth);
  if (mode == GridMode::Nearest) return taps.set(0, p, std::nearbyint(z), std::nearbyint(y), std::nearbyint(x), 1, e);
  const float x0 = std::floor(x), y0 = std::floor(y), z0 = std::floor(z);
  const float wx[] = {x0 + 1 - x, x - x0}, wy[] = {y0 + 1 - y, y - y0}, wz[] = {z0 + 1 - z, z - z0};
  for (int corner = 0; corner < 8; ++corner) {
    const int dx = corner & 1, dy = corner >> 1 & 1, dz = corner >> 2;
    taps.set(corner, p, z0 + static_cast<float>(dz), y0 + static_cast<float>(dy), x0 + static_cast<float>(dx),
             wx[dx] * wy[dy] * wz[dz], e);
  }
}

void setTaps(Taps& taps, GridMode mode, const Grid& grid, const float* g, int64_t count, const Extent& e) {
  if (grid.isVolume) {
    for (int64_t p = 0; p < count; ++p) setVolumeTaps(taps, p, mode, grid, g + p * 3, e);
    return;
  }
  switch (grid.padding) {
    case GridPadding::Zeros:
      return setImageTaps<GridPadding::Zeros>(taps, mode, grid, g, count, e);
    case GridPadding::Border:
      return setImageTaps<GridPadding::Border>(taps, mode, grid, g, count, e);
    case GridPadding::Reflection:
      return setImageTaps<GridPadding::Reflection>(taps, mode, grid, g, count, e);
  }
}

constexpr int64_t kForOneThread = 16 << 10;  // elements

}  // namespace

bool GridSamplerLayer::gainsByBlocks(const Network& network) const {
  const Dims &in = network[inputs[0]].sizes, &out = network[outputs[0]].sizes;
  auto area = [](const Dims& sizes) {
    return std::accumulate(sizes.begin() + 2, sizes.end(), 1.0, std::multiplies<>());
  };
  return in[1] >= kBlock && area(out) * tapsOf(mode, in.size() == 5) >= 2 * area(in);
}

void GridSamplerLayer::run(Frame& frame) const {
  const Dims& in = frame.network()[inputs[0]].sizes;
  const NetTensor& out = frame.network()[outputs[0]];
  const bool isVolume = in.size() == 5;
  const int64_t channels = in[1], places = out.numel / (in[0] * channels), axes = isVolume ? 3 : 2;
  const int64_t planes = blocked ? channelBlocks(channels) : channels, lanes = blocked ? kBlock : 1;
  const Extent extent{isVolume ? in[2] : 1, in[in.size() - 2], in[in.size() - 1]};
  const float *images = frame.data<float>(inputs[0]), *grid = frame.data<float>(inputs[1]);
  auto* to = frame.data<float>(outputs[0]);
  const int64_t pieces = (places + kPlaces - 1) / kPlaces;
  parallelFor(in[0] * pieces, places * channels < kForOneThread ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t image = i / pieces, first = i % pieces * kPlaces, count = std::min(kPlaces, places - first);
    Taps taps;
    setTaps(taps, mode, coordinates, grid + (image * places + first) * axes, count, extent);
    for (int64_t plane = image * planes; plane < (image + 1) * planes; ++plane)
      (blocked ? sumTapsOfBlock : sumTaps)(images + plane * extent.count() * lanes, taps.index[0], taps.weights[0],
                                           kPlaces, tapsOf(mode, isVolume), count,
                                           to + (plane * places + first) * lanes);
  });
}

void convertGridSampler(ConvertCall& call) {
  Tensor x = call.tensor(0), grid = call.tensor(1);
  if (!isF32(x) || !isF32(grid)) return convertToKernel(call, kNotF32);
  if (checkedNumel(call.spec().sizes) == 0) return convertToKernel(call, kEmpty);
  const auto mode = static_cast<GridMode>(call.integer(2));
  if (x.numel() / (x.size(0) * x.size(1)) > INT32_MAX) return convertToKernel(call, "the images are too large");
  TensorId image = contiguousOperand(call, 0), places = contiguousOperand(call, 1);
  TensorId output = call.makeResult();
  auto& layer = call.add<GridSamplerLayer>();
  layer.mode = mode;
  layer.coordinates = {static_cast<GridPadding>(call.integer(3)), call.flag(4), x.rank() == 5};
  layer.inputs = {image, places};
  layer.outputs = {output};
}

void DeformedColumnsLayer::run(Frame& frame) const {
  const Dims& in = frame.network()[inputs[0]].sizes;
  const NetTensor& out = frame.network()[outputs[0]];
  const int64_t channels = in[1], taps = kernelHeight * kernelWidth, places = out.numel / (in[0] * channels * taps);
  const int64_t channelsOfGroup = channels / offsetGroups;
  const Extent extent{1, in[2], in[3]};
  const float *images = frame.data<float>(inputs[0]), *offsets = frame.data<float>(inputs[1]);
  const float* factors = inputs.size() > 2 ? frame.data<float>(inputs[2]) : nullptr;
  auto* to = frame.data<float>(outputs[0]);
  const int64_t pieces = (places + kPlaces - 1) / kPlaces;
  // A block of places at one tap of the kernel, for the channels that share their offsets.
  parallelFor(in[0] * offsetGroups * taps * pieces, out.numel < kForOneThread ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t first = i % pieces * kPlaces, count = std::min(kPlaces, places - first), tapOfGroup = i / pieces;
    const int64_t tap = tapOfGroup % taps, group = tapOfGroup / taps;
    const float *down = offsets + 2 * tapOfGroup * places + first, *across = down + places;
    const int64_t top = tap / kernelWidth * dilation[0] - pad[0], left = tap % kernelWidth * dilation[1] - pad[1];
    const auto height = static_cast<float>(extent.height), width = static_cast<float>(extent.width);
    int64_t row = first / outWidth, column = first % outWidth;
    Places read;
    for (int64_t p = 0; p < count; ++p) {
      const float y = static_cast<float>(row * step[0] + top) + down[p];
      const float x = static_cast<float>(column * step[1] + left) + across[p];
      // Nothing is read further away.
      const bool reads = y > -1 && y < height && x > -1 && x < width;
      read.y[p] = reads ? y : -2;
      read.x[p] = reads ? x : -2;
      if (++column == outWidth) column = 0, ++row;
    }
    Taps pixels;
    setPixelTaps(pixels, read, count, extent);
    for (int64_t c = 0; c < channelsOfGroup; ++c) {
      const int64_t plane = group * channelsOfGroup + c;
      float* columns = to + (plane * taps + tap) * places + first;
      sumTaps(images + plane * extent.count(), pixels.index[0], pixels.weights[0], kPlaces, 4, count, columns);
      if (!factors) continue;
      const float* by = factors + tapOfGroup * places + first;
      for (int64_t p = 0; p < count; ++p) columns[p] *= by[p];
    }
  });
}

std::string RegionsLayer::name() const {
  static constexpr std::string_view kNames[] = {"roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool"};
  return std::string(kNames[static_cast<size_t>(shape.pooling)]);
}

void RegionsLayer::run(Frame& frame) const {
  const auto* regions = frame.data<float>(inputs[1]);
  if (const int64_t stray = strayRegion(shape, regions); stray >= 0)
    throw ExecutionError(ErrorKind::Model,
                         fmt::format("region {} is of none of the {} images, or too large", stray, shape.images));
  poolRegions(shape, frame.data<float>(inputs[0]), regions, frame.data<float>(outputs[0]),
              outputs.size() > 1 ? frame.data<int32_t>(outputs[1]) : nullptr, frame.workspace(), frame.threads());
}

template <RegionPooling kPooling>
void convertRegions(ConvertCall& call) {
  const Tensor x = call.tensor(0), regions = call.tensor(1);
  if (!isF32(x) || !isF32(regions)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0 || checkedNumel(call.spec().sizes) == 0) return convertToKernel(call, kEmpty);
  if (x.size(1) * x.size(2) * x.size(3) > INT32_MAX) return convertToKernel(call, "the images are too large");
  auto layer = std::make_unique<RegionsLayer>(call.node());
  layer->inputs = {contiguousOperand(call, 0), contiguousOperand(call, 1)};
  for (size_t i = 0; i < call.resultCount(); ++i) layer->outputs.push_back(call.makeResult(i));
  constexpr bool kSamples = kPooling == RegionPooling::Align || kPooling == RegionPooling::PositionAlign;
  layer->shape = {.pooling = kPooling,
                  .images = x.size(0),
                  .channels = x.size(1),
                  .height = x.size(2),
                  .width = x.size(3),
                  .regions = regions.size(0),
                  .pooledHeight = call.integer(3),
                  .pooledWidth = call.integer(4),
                  .scale = static_cast<float>(call.number(2)),
                  .ratio = kSamples ? call.integer(5) : 0,
                  .aligned = kPooling == RegionPooling::Align && call.flag(6)};
  call.network().layers.push_back(std::move(layer));
}
template void convertRegions<RegionPooling::Align>(ConvertCall& call);
template void convertRegions<RegionPooling::Max>(ConvertCall& call);
template void convertRegions<RegionPooling::PositionAlign>(ConvertCall& call);
template void convertRegions<RegionPooling::PositionMean>(ConvertCall& call);

}  // namespace tscompile
