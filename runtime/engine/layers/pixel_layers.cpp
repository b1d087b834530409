#include "runtime/engine/layers/pixel_layers.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>

namespace tscompile {
namespace {

constexpr int64_t kParallelPixels = 64 << 10;  // copies of less are done by one thread

// Spatial sizes of images and volumes.
struct Space {
  int64_t depth, height, width;
};
Space spaceOf(const Dims& sizes) {
  const size_t rank = sizes.size();
  return {rank == 5 ? sizes[2] : 1, sizes[rank - 2], sizes[rank - 1]};
}

}  // namespace

void FramesLayer::run(Frame& frame) const {
  const Dims& in = frame.network()[inputs[0]].sizes;
  const int64_t channels = in[1], depth = in[2], area = in[3] * in[4];
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  const int64_t planes = in[0] * outDepth * channels;
  parallelFor(planes, planes * kernelDepth * area < kParallelPixels ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t image = i / channels / outDepth, out = i / channels % outDepth, channel = i % channels;
    for (int64_t k = 0; k < kernelDepth; ++k) {
      const int64_t at = out * stride + k * dilation - padding;
      float* plane = to + (i * kernelDepth + k) * area;
      if (at < 0 || at >= depth)
        std::fill_n(plane, area, 0.0f);
      else
        std::copy_n(from + ((image * channels + channel) * depth + at) * area, area, plane);
    }
  });
}

void ChannelsToPixelsLayer::runOnBlocks(Frame& frame) const {
  const NetTensor &source = frame.network()[inputs[0]], &made = frame.network()[outputs[0]];
  const ElementType& type = made.elements;
  const Space in = spaceOf(source.sizes), out = spaceOf(made.sizes);
  const int64_t channels = made.sizes[1], inArea = in.depth * in.height * in.width,
                outArea = out.depth * out.height * out.width, rows = made.sizes[0] * out.depth * out.height;
  const float* from = frame.blocks(inputs[0]);
  float* to = frame.blocks(outputs[0]);
  const bool few = rows * out.width * channelBlocks(channels, type.channels()) * kBlock < kParallelPixels;
  parallelFor(rows, few ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t image = i / out.height / out.depth, z = i / out.height % out.depth + front, y = i % out.height + top;
    const float* inImage = from + blockedSize(image, source.sizes[1], inArea, type);
    float* outImage = to + blockedSize(image, channels, outArea, type);
    const int64_t row = (z / stepZ * in.height + y / stepY) * in.width,
                  outRow = i % (out.depth * out.height) * out.width;
    for (int64_t p = 0; p < stepX; ++p) {
      // The first pixel of this phase.
      const int64_t first = (p - left % stepX + stepX) % stepX, pixels = (out.width - first + stepX - 1) / stepX;
      const int64_t place = (z % stepZ * stepY + y % stepY) * stepX + p;
      moveLanes({inImage, inArea, row + (first + left) / stepX}, place * channels,
                {outImage, outArea, outRow + first, stepX}, 0, channels, pixels, type);
    }
    fillLanes({outImage, outArea, outRow}, channels, out.width, type);
  });
}

void ChannelsToPixelsLayer::run(Frame& frame) const {
  if (blocked) return runOnBlocks(frame);
  const Dims& outSizes = frame.network()[outputs[0]].sizes;
  const Space in = spaceOf(frame.network()[inputs[0]].sizes), out = spaceOf(outSizes);
  const int64_t channels = outSizes[1], places = stepZ * stepY * stepX, frames = outSizes[0] * channels * out.depth;
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  parallelFor(frames, frames * out.height * out.width < kParallelPixels ? 1 : frame.threads(), [&](int64_t i) {
    const int64_t plane = i / out.depth, z = i % out.depth + front;
    for (int64_t y = top; y < out.height + top; ++y) {
      const int64_t place = (z % stepZ * stepY + y % stepY) * stepX;
      float* line = to + (i * out.height + y - top) * out.width;
      for (int64_t p = 0; p < stepX; ++p) {
        // The first pixel of this phase.
        const int64_t first = (p - left % stepX + stepX) % stepX;
        const int64_t channel = placesFirst ? (plane / channels * places + place + p) * channels + plane % channels
                                            : plane * places + place + p;
        const int64_t row = (channel * in.depth + z / stepZ) * in.height + y / stepY;
        const float* pixels = from + row * in.width + (first + left) / stepX;
        for (int64_t x = first; x < out.width; x += stepX) line[x] = *pixels++;
      }
    }
  });
}

void convertPixelShuffle(ConvertCall& call) {
  Tensor x = call.tensor(0);
  if (!isF32(x)) return convertToKernel(call, kNotF32);
  if (x.rank() != 4) return convertToKernel(call, "it has no batch");
  if (x.numel() == 0) return convertToKernel(call, kEmpty);
  TensorId input = contiguousOperand(call, 0);
  TensorId output = call.makeResult();
  auto& layer = call.add<ChannelsToPixelsLayer>();
  layer.stepY = layer.stepX = call.integer(1);
  layer.inputs = {input};
  layer.outputs = {output};
}

}  // namespace tscompile
