// Matrix products: with constant right sides, packed once, and batches of products of two tensors.
#pragma once

#include "runtime/engine/layers/indexing_layer.h"
#include "runtime/engine/layers/integer_weights.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/kernels/batched_gemm.h"
#include "runtime/kernels/gemm.h"

namespace tscompile {

// [m, k] x constant [k, n]
class MatmulLayer : public ProductLayer, public IntegerWeights {
 public:
  // The weight's element [i, j] is at i * rowStride + j * columnStride of `weight`.
  MatmulLayer(const Node* node, Tensor weight, int64_t m, int64_t k, int64_t n, int64_t rowStride, int64_t columnStride,
              int64_t lda)
      : ProductLayer(node),
        weight_(std::move(weight)),
        m_(m),
        k_(k),
        n_(n),
        rowStride_(rowStride),
        columnStride_(columnStride),
        lda_(lda) {}
  std::string name() const override { return "matmul" + epilogueName(); }
  size_t workspace() const override {
    return static_cast<size_t>(gemmWorkspace(m_, packed_)) +
           (takesLeast() ? static_cast<size_t>(columnSums_.numel()) * sizeof(int32_t) : 0);
  }
  double flops() const override {
    return 2.0 * static_cast<double>(m_) * static_cast<double>(k_) * static_cast<double>(n_);
  }
  void run(Frame& frame) const override;

  int64_t columns() const override { return n_; }
  // Of integers: what none of A's is less than, or more than 255 above, comes with the run.
  void takeLeast(TensorId least) {
    leastAt_ = inputs.size();
    inputs.push_back(least);
  }
  void prepare(WeightStore& store, const ProductPrecision& precision) override;

 private:
  WeightStorage heldOr(WeightStorage wanted) const;
  void pack(WeightStorage storage, void* packed) const;
  Tensor scaled() const;  // the weight, or its columns by their factors
  bool takesLeast() const { return packed_.storage == WeightStorage::Bytes && leastAt_ != kNoResidual; }

  Tensor weight_;
  int64_t m_, k_, n_, rowStride_, columnStride_, lda_;
  Tensor data_;                   // of the packed matrix
  size_t leastAt_ = kNoResidual;  // which of the inputs
  Tensor columnSums_;             // int32, in whole blocks, where they are wanted
  PackedMatrix packed_;
};

// Products of pairs of matrices, under two batch dimensions.
class BatchedMatmulLayer : public Layer {
 public:
  struct Side {
    int64_t outer = 0, inner = 0, row = 0, column = 0;  // strides
  };
  using Layer::Layer;
  std::string name() const override { return "batched_matmul"; }
  double flops() const override { return 2.0 * static_cast<double>(outer * inner * m) * static_cast<double>(n * k); }
  size_t workspace() const override { return placesBytes() + batchedWorkspace(outer * inner, m, n, k, b.column); }
  void run(Frame& frame) const override;

  int64_t outer = 1, inner = 1, m = 0, n = 0, k = 0;
  float alpha = 1;
  Side a, b;  // of inputs 0 and 1
  // The matrices of a side may be picked from its input (optimize/fuse_picks.cpp), by numbers that are further inputs.
  struct Picked {
    PickedBlocks which;
    size_t first = 0;  // of these inputs
  };
  Picked picked[2];
  Side c;  // of the output; its column stride is 1

 private:
  // What of the workspace holds the places of picked matrices: whole lines.
  size_t placesBytes() const { return (picked[0].which.bytes() + picked[1].which.bytes() + 63) / 64 * 64; }
};

// The same of f64.
class DoubleMatmulLayer : public Layer {
 public:
  using Side = BatchedMatmulLayer::Side;
  using Layer::Layer;
  std::string name() const override { return "batched_matmul"; }
  double flops() const override { return 2.0 * static_cast<double>(outer * inner * m) * static_cast<double>(n * k); }
  void run(Frame& frame) const override;

  int64_t outer = 1, inner = 1, m = 0, n = 0, k = 0;
  Side a, b;  // of inputs 0 and 1; the output is contiguous
};

// aten::linear, matmul, mm, bmm, addmm, baddbmm in f32 and f64.
void convertLinear(ConvertCall& call);
void convertMatmul(ConvertCall& call);
void convertAddmm(ConvertCall& call);
void convertBaddbmm(ConvertCall& call);
// Why a sum with an alpha of 0 is none of layers.
constexpr std::string_view kNoProduct = "the factor of the product is 0, which leaves out infinities and NaN of it";
// The result is beta * argument `added` + alpha * product.
void setSum(ConvertCall& call, IValue product, size_t added, double beta, double alpha);

}  // namespace tscompile
