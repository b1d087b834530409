#include "runtime/engine/layers/sampling_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/taps.h"

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

void setImageTaps(Taps& taps, int64_t p, GridMode mode, const Grid& grid, const float* g, const Extent& e) {
  if (mode == GridMode::Bicubic) {
    const float x = grid.scaled(g[0], e.width), y = grid.scaled(g[1], e.height), x0 = std::floor(x), y0 = std::floor(y);
    float wx[4], wy[4];
    cubicWeights(x - x0, wx);
    cubicWeights(y - y0, wy);
    for (int i = 0; i < 4; ++i)
      for (int j = 0; j < 4; ++j)
        taps.set(i * 4 + j, p, 0, grid.bounded(y0 + static_cast<float>(i - 1), e.height),
                 grid.bounded(x0 + static_cast<float>(j - 1), e.width), wy[i] * wx[j], e);
    return;
  }
  const float x = grid.source(g[0], e.width), y = grid.source(g[1], e.height);
  if (mode == GridMode::Nearest) return taps.set(0, p, 0, std::nearbyint(y), std::nearbyint(x), 1, e);
  const float x0 = std::floor(x), y0 = std::floor(y), right = x - x0, left = 1 - right, down = y - y0, up = 1 - down;
  taps.set(0, p, 0, y0, x0, up * left, e);
  taps.set(1, p, 0, y0, x0 + 1, up * right, e);
  taps.set(2, p, 0, y0 + 1, x0, down * left, e);
  taps.set(3, p, 0, y0 + 1, x0 + 1, down * right, e);
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

}  // namespace

void GridSamplerLayer::run(Frame& frame) const {
  const Dims& in = frame.network()[inputs[0]].sizes;
  const NetTensor& out = frame.network()[outputs[0]];
  const bool isVolume = in.size() == 5;
  const int64_t channels = in[1], places = out.numel / (in[0] * channels), axes = isVolume ? 3 : 2;
  const Extent extent{isVolume ? in[2] : 1, in[in.size() - 2], in[in.size() - 1]};
  const float *images = frame.data<float>(inputs[0]), *grid = frame.data<float>(inputs[1]);
  auto* to = frame.data<float>(outputs[0]);
  const int64_t pieces = (places + kPlaces - 1) / kPlaces;
  constexpr int64_t kParallel = 16 << 10;  // elements
  parallelFor(in[0] * pieces, places * channels < kParallel ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t image = i / pieces, first = i % pieces * kPlaces, count = std::min(kPlaces, places - first);
    Taps taps;
    const float* g = grid + (image * places + first) * axes;
    for (int64_t p = 0; p < count; ++p, g += axes)
      isVolume ? setVolumeTaps(taps, p, mode, coordinates, g, extent)
               : setImageTaps(taps, p, mode, coordinates, g, extent);
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t plane = image * channels + c;
      sumTaps(images + plane * extent.count(), taps.index[0], taps.weights[0], kPlaces, tapsOf(mode, isVolume), count,
              to + plane * places + first);
    }
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

}  // namespace tscompile
