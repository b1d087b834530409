// Convolutions whose weights are computed as well: modulated ones, mixtures of kernels, correlations with a template.
#pragma once

#include "runtime/engine/layers/conv_layer.h"
#include "runtime/engine/network/engine_options.h"

namespace tscompile {

// Reads the weights, f32 and contiguous, behind its input, and packs them in each run.
class InputConvLayer final : public ConvLayer {
 public:
  static constexpr size_t kWeights = 1;  // which of the inputs
  InputConvLayer(const Node* node, const ConvShape& shape) : ConvLayer(node, shape, Tensor()) {}
  std::string name() const override { return "input " + ConvLayer::name(); }
  size_t workspace() const override;
  void run(Frame& frame) const override;
  void prepare(WeightStore& store, const ProductPrecision& precision) override;
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return false; }

  // Takes the way that costs least, with packing.
  void chooseTactic(const EngineOptions& options);

 private:
  // What runs at a time: all, or one of the groups of an image.
  struct Part {
    ConvShape shape;
    int64_t count = 1;
  };
  // Bytes of its packed weights; none if the tactic takes them as they are.
  static int64_t packedBytes(const ConvTactic& tactic, const ConvShape& part);
  // Parts whose weights are packed together.
  static int64_t partsAtOnce(const ConvTactic& tactic, const Part& part);
  static int64_t workspaceOf(const ConvTactic& tactic, const Part& part);
  static double costOf(const ConvTactic& tactic, const Part& part);

  Part part_;
};

}  // namespace tscompile
