// Layers before and after convolutions that move elements between channels, frames and pixels.
#pragma once

#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/layout.h"

#include <string>

namespace tscompile {

// Volumes -> an image for each depth of the result, with the depths of the kernel as
// channels: [N][C][D][H][W] -> [N * outDepth][C * kernelDepth][H][W].
class FramesLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "frames"; }
  void run(Frame& frame) const override;
  int64_t outDepth = 0, kernelDepth = 0, stride = 1, dilation = 1, padding = 0;
};

// Channels -> pixels: [N][C * stepZ * stepY * stepX][D][H][W] -> [N][C][outDepth][outHeight][outWidth], where pixel
// (z, y, x) is that of place ((z + front) % stepZ, (y + top) % stepY, (x + left) % stepX) at ((z + front) / stepZ,
// (y + top) / stepY, (x + left) / stepX). Channels are [C][place], or [place][C]. Images have no depth.
class ChannelsToPixelsLayer : public Layer, public LineLayer {
 public:
  using Layer::Layer;
  std::string name() const override { return "channels_to_pixels"; }
  void run(Frame& frame) const override;
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return blocked; }
  bool sharesKind(const Network&, TensorId) const override { return true; }
  bool sharesGrid() const override { return true; }
  bool movesElements() const override { return true; }
  void settle(const Network&) override {}
  int64_t stepZ = 1, stepY = 1, stepX = 1, front = 0, top = 0, left = 0;
  bool placesFirst = false;
  bool blocked = false;  // input and output are; then placesFirst is set

 private:
  void runOnBlocks(Frame& frame) const;
};

// aten::col2im: what a sliding kernel would meet, [N][C * kernel][blocks], added up where it lies in the image.
class ColumnsToImageLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "columns_to_image"; }
  void run(Frame& frame) const override;
  struct Side {
    int64_t kernel = 1, dilation = 1, padding = 0, stride = 1, blocks = 1;
  };
  Side height, width;
};

// aten::pixel_shuffle
void convertPixelShuffle(ConvertCall& call);

}  // namespace tscompile
