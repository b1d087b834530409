// Variances and standard deviations over dimensions that lie next to each other.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/reductions.h"

namespace tscompile {

// Outputs: the variances or their roots, and the means if they are wanted.
class VarianceLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return shape.isRoot ? "std" : "var"; }
  void run(Frame& frame) const override;
  VarianceShape shape;
};

// Over these dimensions of the first argument, counted from the front.
void convertVariance(ConvertCall& call, Dims dims, double correction, bool isRoot);

}  // namespace tscompile
