#include "runtime/engine/layers/alone/pool_places_layer.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>
#include <limits>

namespace tscompile {
namespace {

int64_t sizeOf(const WindowGrid& grid) { return grid[0].in * grid[1].in * grid[2].in; }
int64_t windowsOf(const WindowGrid& grid) { return grid[0].out() * grid[1].out() * grid[2].out(); }

}  // namespace

void MaxPlacesLayer::pool(const float* in, float* out, int64_t* places) const {
  const auto& [depths, heights, widths] = grid_;
  for (const Window& z : depths.windows)
    for (const Window& y : heights.windows)
      for (const Window& x : widths.windows) {
        float most = -std::numeric_limits<float>::infinity();
        int64_t place = (z.begin * heights.in + y.begin) * widths.in + x.begin;
        for (int64_t d = z.begin; d < z.end; d += depths.step)
          for (int64_t h = y.begin; h < y.end; h += heights.step) {
            const int64_t row = (d * heights.in + h) * widths.in;
            for (int64_t w = x.begin; w < x.end; w += widths.step) {
              const float v = in[row + w];
              const bool is = v > most || v != v;
              most = is ? v : most;
              place = is ? row + w : place;
            }
          }
        *out++ = most;
        *places++ = place;
      }
}

void MaxPlacesLayer::run(Frame& frame) const {
  constexpr int64_t kParallel = 32 << 10;  // elements; fewer are looked at by one thread
  const int64_t size = sizeOf(grid_), windows = windowsOf(grid_), pieces = std::clamp<int64_t>(planes_, 1, 64);
  const float* in = frame.data<float>(inputs[0]);
  auto* out = frame.data<float>(outputs[0]);
  auto* places = frame.data<int64_t>(outputs[1]);
  parallelFor(pieces, planes_ * size < kParallel ? 1 : frame.threads(), [&](int64_t p) {
    const Piece piece = pieceOf(planes_, pieces, p);
    for (int64_t i = piece.begin; i < piece.end; ++i) pool(in + i * size, out + i * windows, places + i * windows);
  });
}

void addMaxPlaces(ConvertCall& call, WindowGrid grid, size_t spatial) {
  const Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  int64_t planes = 1;
  for (size_t d = 0; d + spatial < x.sizes().size(); ++d) planes *= x.sizes()[d];
  const TensorId input = contiguousOperand(call, 0), most = call.makeResult(0), places = call.makeResult(1);
  auto& layer = call.add<MaxPlacesLayer>(std::move(grid), planes);
  layer.inputs = {input};
  layer.outputs = {most, places};
}

}  // namespace tscompile
