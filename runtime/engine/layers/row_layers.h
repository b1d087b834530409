// Softmax and normalisation over the last dimension, pooling, joining, changes of layout.
#pragma once

#include "runtime/engine/layers/line_layer.h"
#include "runtime/engine/layers/move_layers.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/pool2d.h"

#include <vector>

namespace tscompile {

class SoftmaxLayer : public Layer {
 public:
  SoftmaxLayer(const Node* node, bool logarithm) : Layer(node), logarithm(logarithm) {}
  std::string name() const override { return logarithm ? "log_softmax" : "softmax"; }
  void run(Frame& frame) const override;
  const bool logarithm;
  int64_t count = 1, inner = 1;  // elements that belong together, and how far they are apart
};

class LayerNormLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "layer_norm"; }
  void run(Frame& frame) const override;
  int64_t count = 0;
  Tensor weight, bias;  // may be undefined
  double epsilon = 0;
};

class Pool2dLayer : public Layer, public LineLayer {
 public:
  enum class Mode : uint8_t { Max, Average, Global };
  using Layer::Layer;
  std::string name() const override;
  void run(Frame& frame) const override;
  Mode mode = Mode::Max;
  PoolShape shape;
  bool countPadding = true;
  int64_t divisor = 0;
  bool blocked = false;  // the input is, and but for Global the output
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return true; }
  bool sharesKind(const Network&, TensorId) const override { return mode != Mode::Global; }
  bool sharesGrid() const override { return mode != Mode::Global; }
  void settle(const Network& network) override { elements_ = network[inputs[0]].elements; }

 private:
  void runOfLines(Frame& frame) const;
  ElementType elements_;
};

// Between plain and blocked activations, or those that lie pixel by pixel; which way, the tensors tell.
class ReorderLayer : public Layer, public LineLayer {
 public:
  using Layer::Layer;
  std::string name() const override { return "reorder"; }
  void run(Frame& frame) const override;
  bool takesLines(const Network&, const ProductPrecision&, TensorId tensor, DType) const override {
    return tensor == inputs[0] && !byPixels;
  }
  bool movesElements() const override { return true; }
  void settle(const Network&) override {}
  bool byPixels = false;  // what is not blocked is [N][pixels][C]
};

// Some channels of each input, one input behind the other: parts and joins of blocked activations that split blocks.
class ChannelsLayer : public Layer, public LineLayer {
 public:
  using Layer::Layer;
  std::string name() const override { return "channels"; }
  void run(Frame& frame) const override;
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return true; }
  bool sharesKind(const Network&, TensorId) const override { return true; }
  bool sharesGrid() const override { return true; }
  bool movesElements() const override { return true; }
  void settle(const Network&) override {}
  struct Part {
    int64_t first, count;
  };
  std::vector<Part> parts;  // of each input
  int64_t zerosBefore = 0;  // channels in front of them
  bool fills = false;       // channels that no part is moved to are zeros
};

// Joins tensors along one dimension, which need not be among theirs (stack). Those that already lie where
// they belong are left alone.
class CatLayer : public Layer, public LineLayer {
 public:
  CatLayer(const Node* node, int64_t dim) : Layer(node), dim(dim) {}
  std::string name() const override { return "cat"; }
  void run(Frame& frame) const override;
  bool takesLines(const Network&, const ProductPrecision&, TensorId, DType) const override { return true; }
  bool sharesKind(const Network&, TensorId) const override { return true; }
  bool sharesGrid() const override { return true; }
  void settle(const Network& network) override;
  // In how many pieces each input is laid into the output.
  int64_t outer(const Network& network) const;
  // After inputs have become views with strides of their own.
  void findViews(const Network& network);
  // Whether it joins lines within which one input ends and the next begins.
  bool splitsLines() const { return splitsLines_; }
  const int64_t dim;

 private:
  struct View {
    size_t input;
    StridedCopy copy;
    int64_t to;  // bytes from the start of the output on
  };

  bool splitsLines_ = false;
  std::vector<View> views_;  // inputs that are not contiguous
};

template <bool kLogarithm>
void convertSoftmax(ConvertCall& call);
void convertLayerNorm(ConvertCall& call);
void convertBatchNorm(ConvertCall& call);
template <size_t kSpatial>  // one or two
void convertMaxPool(ConvertCall& call);
template <size_t kSpatial>  // one or two
void convertAveragePool(ConvertCall& call);
void convertMaxPoolVolume(ConvertCall& call);
void convertAveragePoolVolume(ConvertCall& call);
template <size_t kSpatial>
void convertAdaptiveAveragePool(ConvertCall& call);
void convertCat(ConvertCall& call);
void convertStack(ConvertCall& call);

}  // namespace tscompile
