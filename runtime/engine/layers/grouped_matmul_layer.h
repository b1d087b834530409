// Products of groups of rows, each with a matrix of its own: the experts of a mixture.
#pragma once

#include "runtime/engine/layers/product_layer.h"
#include "runtime/kernels/gemm.h"

#include <vector>

namespace tscompile {

// [rows, k] by a constant [groups, k, n]; input 1 has the row, int32 or int64, behind each group. Rows behind the last
// are zero.
class GroupedMatmulLayer : public PackedLayer {
 public:
  GroupedMatmulLayer(const Node* node, Tensor weight, int64_t rows, int64_t lda)
      : PackedLayer(node), weight_(std::move(weight)), rows_(rows), lda_(lda) {}
  std::string name() const override { return "grouped_matmul"; }
  size_t workspace() const override;
  double flops() const override;
  void run(Frame& frame) const override;
  void prepare(WeightStore& store, const ProductPrecision& precision) override;

 private:
  int64_t depth() const { return weight_.size(1); }
  int64_t columns() const { return weight_.size(2); }

  Tensor weight_;
  int64_t rows_, lda_;
  Tensor data_;                       // of the packed matrices
  std::vector<PackedMatrix> packed_;  // by group
};

// aten::_grouped_mm of rows by constant matrices, in f32.
void convertGroupedMatmul(ConvertCall& call);

}  // namespace tscompile
