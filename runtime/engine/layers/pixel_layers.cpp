#include "runtime/engine/layers/pixel_layers.h"

#include "runtime/call/thread_pool.h"
#include "runtime/engine/layers/operands.h"

#include <algorithm>
#include <vector>

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

void ColumnsToImageLayer::run(Frame& frame) const {
  const Space image = spaceOf(frame.network()[outputs[0]].sizes);
  const int64_t area = image.height * image.width, planes = frame.network()[outputs[0]].numel / area,
                columns = height.blocks * width.blocks, taps = height.kernel * width.kernel, step = width.stride,
                most = (image.width + step - 1) / step;
  // Of each column of the kernel: where its blocks begin among the pixels of a row, and which of them are in the image.
  struct Column {
    int64_t at, begin, end;
  };
  std::vector<Column> across;
  for (int64_t k = 0; k < width.kernel; ++k) {
    const int64_t left = k * width.dilation - width.padding, phase = (left % step + step) % step,
                  first = (left - phase) / step, pixels = (image.width - phase + step - 1) / step;
    across.push_back({phase * most + first, std::max<int64_t>(0, -first), std::min(width.blocks, pixels - first)});
  }
  const float* from = frame.data<float>(inputs[0]);
  auto* to = frame.data<float>(outputs[0]);
  parallelFor(planes, planes * taps * columns < kParallelPixels ? 1 : frame.threads(), [&](int64_t plane) {
    // The pixels of a row: those that lie as many steps apart follow each other.
    std::vector<float> phases(static_cast<size_t>(step * most));
    for (int64_t y = 0; y < image.height; ++y) {
      float* row = to + plane * area + y * image.width;
      float* sums = step == 1 ? row : phases.data();
      std::fill_n(sums, step * most, 0.0f);
      for (int64_t k = 0; k < height.kernel; ++k) {
        const int64_t above = y + height.padding - k * height.dilation, block = above / height.stride;
        if (above < 0 || block >= height.blocks || block * height.stride != above) continue;
        const float* column = from + ((plane * taps + k * width.kernel) * height.blocks + block) * width.blocks;
        for (const Column& c : across) {
          for (int64_t b = c.begin; b < c.end; ++b) sums[c.at + b] += column[b];
          column += columns;
        }
      }
      int64_t pairs = step == 2 ? image.width / 2 : 0;  // as all but always
      for (int64_t x = 0; x < pairs; ++x) row[2 * x] = sums[x], row[2 * x + 1] = sums[most + x];
      for (int64_t p = 0; p < step && step > 1; ++p)
        for (int64_t x = p + pairs * step, i = p * most + pairs; x < image.width; x += step) row[x] = sums[i++];
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
