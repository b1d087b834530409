// A product with a small constant matrix over a dimension that lies outermost.
#pragma once

#include "runtime/engine/layers/operands.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/batched_gemm.h"

#include <fmt/core.h>

#include <optional>

namespace tscompile {

class MixLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return fmt::format("mix {}x{}", mix.in, mix.out); }
  double flops() const override {
    return 2.0 * static_cast<double>(mix.images * mix.area) * static_cast<double>(mix.in * mix.out);
  }
  void run(Frame& frame) const override {
    mixPlanes(mix, frame.data<float>(inputs[0]), weights.data<float>(), dataOrNull(bias), frame.data<float>(outputs[0]),
              frame.threads());
  }

  PlaneMix mix{};
  Tensor weights, bias;  // [out, in]; of the outputs, or undefined
};

// The planes of which `x` has one for each element of its last dimension, `out` of which are to be made; nothing if
// rows are better.
std::optional<PlaneMix> planesOf(const Tensor& x, int64_t out);
// Adds the layer for x * weights^T + bias, and a copy that brings its result in row-major order.
void addMix(ConvertCall& call, size_t xAt, const PlaneMix& mix, const Tensor& weights, const Tensor& bias);

}  // namespace tscompile
