// Convolutions with constant weights, in f32: those of one dimension, of volumes in groups and transposed ones
// are made of two-dimensional ones.
#pragma once

#include "runtime/engine/layers/integer_weights.h"
#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/layers/pixel_layers.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/kernels/conv.h"

#include <functional>
#include <string>

namespace tscompile {

// How weights of the graph become those of a two-dimensional convolution; forms of one name make the same of the same.
struct WeightForm {
  std::string name;
  std::function<Tensor(const Tensor&)> make;  // those of ConvTactic::pack; or none
};

class ConvLayer : public ProductLayer, public IntegerWeights, public LineLayer {
 public:
  ConvLayer(const Node* node, const ConvShape& shape, Tensor weight, WeightForm form = {})
      : ProductLayer(node), shape_(shape), weight_(std::move(weight)), form_(std::move(form)) {}
  std::string name() const override { return "conv " + std::string(tactic_ ? tactic_->name : "") + epilogueName(); }
  size_t workspace() const override {
    return tactic_ ? static_cast<size_t>(tactic_->workspace(shape_, kernelStorage(storage_))) : 0;
  }
  double flops() const override { return shape_.flops(); }
  void run(Frame& frame) const override;

  const ConvShape& shape() const { return shape_; }
  // The same convolution of an input without a margin of zeros: so much of it before and behind, in spatial dimensions
  // (one to three).
  void takeMargin(const Dims& before, const Dims& behind);
  // The shape whose result lacks so much before and behind, in spatial dimensions (one to three), or as much of that as
  // there is padding to leave out, which they are set to.
  ConvShape trimmed(Dims& before, Dims& behind) const;
  void setShape(const ConvShape& shape) { shape_ = shape; }
  // The same convolution without what stands at the edges of the kernel and sees nothing but padding.
  void dropIdleTaps();
  int64_t columns() const override { return shape_.outChannels; }
  void setTactic(const ConvTactic& tactic) { tactic_ = &tactic; }
  void setByPixels(bool input, bool output) {
    shape_.inByPixels = input;
    shape_.outByPixels = output;
  }
  void setRoundsInputs(bool rounds) { shape_.roundsInputs = rounds; }
  bool hasTactic() const { return tactic_; }
  const ConvTactic& tactic() const { return *tactic_; }
  void prepare(WeightStore& store, const ProductPrecision& precision) override;
  bool takesLines(const Network& network, const ProductPrecision& precision, TensorId tensor,
                  DType dtype) const override;
  bool sharesKind(const Network&, TensorId) const override { return tactic_->keepsKind; }
  void settle(const Network& network) override;

 private:
  WeightStorage kernelStorage(WeightStorage wanted) const {
    return exactStorage(wanted, tactic_->integers, tactic_->multipliesLines(shape_, WeightStorage::Bytes));
  }
  // The weights times their scale.
  Tensor scaled() const;

  ConvShape shape_;
  ElementType result_, residual_;
  Tensor weight_;  // contiguous
  WeightForm form_;
  const ConvTactic* tactic_ = nullptr;
  Tensor packed_;
  WeightStorage storage_ = WeightStorage::F32;
};

// A transposed convolution computes each channel for each place that a pixel can have among `places`: whether its
// columns are [place][channel], whose neighbours become pixels as they are, or [channel][place].
inline bool columnsArePlacesFirst(int64_t groups, int64_t channels) { return groups == 1 && channels >= kBlock; }

// How the arguments stand: aten::conv2d and its like; aten::_convolution, which may be transposed; conv_transpose2d.
enum class ConvForm : uint8_t { Forward, General, Transposed };
template <ConvForm kForm>
void convertConvolution(ConvertCall& call);

}  // namespace tscompile
