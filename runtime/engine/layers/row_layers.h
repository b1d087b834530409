// Softmax and normalisation over the last dimension, pooling, joining, attention, changes of layout.
#pragma once

#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/attention.h"
#include "runtime/kernels/pool2d.h"

namespace tscompile {

class SoftmaxLayer : public Layer {
 public:
  SoftmaxLayer(const Node* node, bool logarithm) : Layer(node), logarithm(logarithm) {}
  std::string name() const override { return logarithm ? "log_softmax" : "softmax"; }
  void run(Frame& frame) const override;
  const bool logarithm;
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

class Pool2dLayer : public Layer {
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
};

// Between plain and blocked activations; which way, the tensors tell.
class ReorderLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "reorder"; }
  void run(Frame& frame) const override;
};

// Joins contiguous tensors along one dimension, which need not be among theirs (stack). Those that already lie where
// they belong are left alone.
class CatLayer : public Layer {
 public:
  CatLayer(const Node* node, int64_t dim) : Layer(node), dim(dim) {}
  std::string name() const override { return "cat"; }
  void run(Frame& frame) const override;
  // In how many pieces each input is laid into the output.
  int64_t outer(const Network& network) const;
  const int64_t dim;
};

// softmax(q k^T * scale + mask) v
class AttentionLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return shape.causal ? "attention (causal)" : "attention"; }
  double flops() const override {
    return 2.0 * static_cast<double>(shape.outer * shape.inner * shape.queries * shape.keys) *
           static_cast<double>(shape.depth + shape.valueDepth);
  }
  void run(Frame& frame) const override;
  AttentionShape shape;
  BatchedMatmulLayer::Side q, k, v, mask, out;  // of inputs 0, 1, 2, 3 (if there are four) and of the output
};

template <bool kLogarithm>
void convertSoftmax(ConvertCall& call);
void convertLayerNorm(ConvertCall& call);
void convertBatchNorm(ConvertCall& call);
void convertMaxPool(ConvertCall& call);
void convertAveragePool(ConvertCall& call);
void convertAdaptiveAveragePool(ConvertCall& call);
void convertCat(ConvertCall& call);
void convertStack(ConvertCall& call);

}  // namespace tscompile
