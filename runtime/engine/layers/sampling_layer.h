// Images and volumes read at the places that a grid tells, in f32.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/reference/grid_coordinates.h"

namespace tscompile {

// Input 0 is [batch][channels][height][width], input 1 [batch][places][x, y]; both are contiguous. Volumes have a depth
// before the height, and places a z behind y.
class GridSamplerLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "grid_sampler"; }
  void run(Frame& frame) const override;

  GridMode mode = GridMode::Bilinear;
  GridCoordinates<float> coordinates = {};
};

void convertGridSampler(ConvertCall& call);

}  // namespace tscompile
