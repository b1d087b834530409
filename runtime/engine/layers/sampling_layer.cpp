#include "runtime/engine/layers/sampling_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/kernels/taps.h"

namespace tscompile {
namespace {

constexpr int64_t kPlaces = 256;  // whose taps are found at once, for all channels

// The elements that are read for some places, and their weights.
struct Taps {
  int32_t index[kMostTaps][kPlaces];
  float weights[kMostTaps][kPlaces];
  int count;

  void set(int tap, int64_t place, float y, float x, float weight, int64_t height, int64_t width) {
    const bool inside = y >= 0 && x >= 0 && y <= static_cast<float>(height - 1) && x <= static_cast<float>(width - 1);
    index[tap][place] =
        inside ? static_cast<int32_t>(y) * static_cast<int32_t>(width) + static_cast<int32_t>(x) : kNoTap;
    weights[tap][place] = weight;
  }
};

}  // namespace

void GridSamplerLayer::run(Frame& frame) const {
  const Dims &in = frame.network()[inputs[0]].sizes, &out = frame.network()[outputs[0]].sizes;
  const int64_t channels = in[1], height = in[2], width = in[3], places = out[2] * out[3];
  const float *images = frame.data<float>(inputs[0]), *grid = frame.data<float>(inputs[1]);
  auto* to = frame.data<float>(outputs[0]);
  const int64_t pieces = (places + kPlaces - 1) / kPlaces;
  constexpr int64_t kParallel = 16 << 10;  // elements
  parallelFor(in[0] * pieces, places * channels < kParallel ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t image = i / pieces, first = i % pieces * kPlaces, count = std::min(kPlaces, places - first);
    Taps taps;
    taps.count = mode == GridMode::Nearest ? 1 : kMostTaps;
    const float* g = grid + (image * places + first) * 2;
    for (int64_t p = 0; p < count; ++p) {
      const float x = coordinates.source(g[2 * p], width), y = coordinates.source(g[2 * p + 1], height);
      if (mode == GridMode::Nearest) {
        taps.set(0, p, std::nearbyint(y), std::nearbyint(x), 1, height, width);
        continue;
      }
      const float x0 = std::floor(x), y0 = std::floor(y), e = x - x0, w = 1 - e, s = y - y0, n = 1 - s;
      taps.set(0, p, y0, x0, n * w, height, width);
      taps.set(1, p, y0, x0 + 1, n * e, height, width);
      taps.set(2, p, y0 + 1, x0, s * w, height, width);
      taps.set(3, p, y0 + 1, x0 + 1, s * e, height, width);
    }
    for (int64_t c = 0; c < channels; ++c) {
      const int64_t plane = image * channels + c;
      sumTaps(images + plane * height * width, taps.index[0], taps.weights[0], kPlaces, taps.count, count,
              to + plane * places + first);
    }
  });
}

void convertGridSampler(ConvertCall& call) {
  Tensor x = call.tensor(0), grid = call.tensor(1);
  if (!isF32(x) || !isF32(grid)) return convertToKernel(call, kNotF32);
  if (checkedNumel(call.spec().sizes) == 0) return convertToKernel(call, kEmpty);
  const auto mode = static_cast<GridMode>(call.integer(2));
  if (x.rank() != 4) return convertToKernel(call, "it has three dimensions");
  if (mode == GridMode::Bicubic) return convertToKernel(call, "it is bicubic");
  if (x.size(2) * x.size(3) > INT32_MAX) return convertToKernel(call, "the images are too large");
  TensorId image = contiguousOperand(call, 0), places = contiguousOperand(call, 1);
  TensorId output = call.makeResult();
  auto& layer = call.add<GridSamplerLayer>();
  layer.mode = mode;
  layer.coordinates = {static_cast<GridPadding>(call.integer(3)), call.flag(4), false};
  layer.inputs = {image, places};
  layer.outputs = {output};
}

}  // namespace tscompile
