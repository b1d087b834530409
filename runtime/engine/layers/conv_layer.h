// Convolutions with constant weights, in f32.
#pragma once

#include "runtime/engine/layers/product_layer.h"
#include "runtime/kernels/conv.h"

namespace tscompile {

class ConvLayer : public ProductLayer {
 public:
  ConvLayer(const Node* node, const ConvShape& shape, Tensor weight)
      : ProductLayer(node), shape_(shape), weight_(std::move(weight)) {}
  std::string name() const override { return "conv " + std::string(tactic_ ? tactic_->name : "") + epilogueName(); }
  size_t workspace() const override { return tactic_ ? static_cast<size_t>(tactic_->workspace(shape_)) : 0; }
  double flops() const override { return shape_.flops(); }
  void run(Frame& frame) const override;

  const ConvShape& shape() const { return shape_; }
  int64_t columns() const override { return shape_.outChannels; }
  void setTactic(const ConvTactic& tactic) { tactic_ = &tactic; }
  const ConvTactic& tactic() const { return *tactic_; }
  void prepare(WeightStore& store, WeightStorage storage) override;

 private:
  // The weights times their scale.
  Tensor scaled() const;

  ConvShape shape_;
  Tensor weight_;  // contiguous
  const ConvTactic* tactic_ = nullptr;
  Tensor packed_;
  WeightStorage storage_ = WeightStorage::F32;
};

// aten::conv1d and conv2d; `kGeneral`: aten::_convolution, which may be transposed.
template <bool kGeneral>
void convertConvolution(ConvertCall& call);

}  // namespace tscompile
