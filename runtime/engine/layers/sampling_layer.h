// Images and volumes read at the places that a grid, offsets or regions tell, in f32.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/sampling/regions.h"
#include "runtime/reference/grid_coordinates.h"

namespace tscompile {

// Input 0 is [batch][channels][height][width], input 1 [batch][places][x, y]; both are contiguous. Volumes have a depth
// before the height, and places a z behind y. Where images are blocked, so is the output.
class GridSamplerLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "grid_sampler"; }
  void run(Frame& frame) const override;

  // Whether pixels that are read as vectors of channels are worth the two changes of the layout.
  bool gainsByBlocks(const Network& network) const;

  bool blocked = false;
  GridMode mode = GridMode::Bilinear;
  GridCoordinates<float> coordinates = {};
};

void convertGridSampler(ConvertCall& call);

// What the kernel of a deformable convolution sees at each place of its result. Input 0 is [batch][channels][height]
// [width], input 1 [batch][offset groups][taps][y, x][places], input 2, which may be missing, factors [batch]
// [offset groups][taps][places]; the output is [batch][channels][taps][places].
class DeformedColumnsLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "deformed_columns"; }
  void run(Frame& frame) const override;

  int64_t kernelHeight = 1, kernelWidth = 1, outWidth = 1, offsetGroups = 1;
  int64_t step[2] = {}, pad[2] = {}, dilation[2] = {};  // down and across
};

// Inputs: images and regions; outputs: what is pooled of them and, but for Align, the places. All are contiguous.
class RegionsLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override;
  size_t workspace() const override { return regionsWorkspace(shape); }
  void run(Frame& frame) const override;
  RegionShape shape;
};

// (input, rois, scale, pooled height, pooled width), and for samples their ratio, and whether corners are aligned
template <RegionPooling kPooling>
void convertRegions(ConvertCall& call);

}  // namespace tscompile
