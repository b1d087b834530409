// Attention as one layer: softmax(q k^T * scale + mask) v.
#pragma once

#include "runtime/engine/layers/matmul_layer.h"
#include "runtime/kernels/attention.h"

namespace tscompile {

class AttentionLayer : public Layer {
 public:
  using Side = BatchedMatmulLayer::Side;
  using Layer::Layer;
  std::string name() const override { return shape.causal ? "attention (causal)" : "attention"; }
  double flops() const override {
    return 2.0 * static_cast<double>(shape.outer * shape.inner * shape.queries * shape.keys) *
           static_cast<double>(shape.depth + shape.valueDepth);
  }
  void run(Frame& frame) const override;

  AttentionShape shape;
  Side q, k, v, out;  // of inputs 0, 1, 2 and of the output
  // Masks; inputs after these three.
  struct Mask {
    size_t input = kNoInput;
    MaskStrides strides;
  };
  static constexpr size_t kNoInput = SIZE_MAX;
  Mask flags;  // bool: scores become `hidden` where they are `hides`
  bool hides = false;
  float hidden = -std::numeric_limits<float>::infinity();
  bool flagsLast = false;             // they hide sums with what is added, not scores
  Mask added[ScoreMask::kMostAdded];  // f32
};

// What a known mask of [queries, keys], alone for all pairs, comes to.
enum class KnownMask : uint8_t { Other, SeesAll, Causal };
KnownMask meaningOf(const Tensor& mask, int64_t queries, int64_t keys);

// aten::scaled_dot_product_attention in f32.
void convertAttention(ConvertCall& call);

}  // namespace tscompile
