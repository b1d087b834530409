// Sums, means, products and extremes over dimensions that lie next to each other, in f32.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/pointwise.h"
#include "runtime/kernels/reductions.h"

#include <array>
#include <vector>

namespace tscompile {

// [outer][count][inner] -> [outer][inner] of contiguous tensors.
class ReductionLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override;
  void run(Frame& frame) const override;
  RowReduction kind = RowReduction::Sum;
  bool isMean = false;
  int64_t outer = 1, count = 1, inner = 1;

  // What is reduced may be the result of a program (optimize/fuse_reductions.cpp), of at most so many elements in a
  // row; the layer's inputs are its operands then. Rows are [outer / innerRows][innerRows], each of
  // [count / innerCount][innerCount] elements; an operand has a step for each of the four.
  static constexpr int64_t kMostFused = 4096;
  using Steps = std::array<int64_t, 4>;
  PointwiseProgram program;
  std::vector<Steps> steps;
  int64_t innerRows = 1, innerCount = 1;
};

// (self) or (self, dimensions, keepdim), with or without a dtype behind.
enum class ReductionOf : uint8_t { Sum, Mean, Max, Min, Product };
template <ReductionOf kOf>
void convertReduction(ConvertCall& call);

}  // namespace tscompile
