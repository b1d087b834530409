// Sums, means, products, extremes, logarithms of sums of exponentials, and truth over dimensions that lie next to each
// other.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/pointwise.h"
#include "runtime/kernels/reductions.h"
#include "runtime/kernels/wide/wide_reductions.h"

#include <array>
#include <vector>

namespace tscompile {

// [outer][count][inner] -> [outer][inner] of contiguous tensors of f32.
class ReductionLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override;
  void run(Frame& frame) const override;
  RowReduction kind = RowReduction::Sum;
  bool isMean = false;
  int64_t outer = 1, count = 1, inner = 1;

  // Of activations in blocks of channels (runtime/kernels/layout.h): over some of the dimensions behind the channels,
  // which gives such activations, or plain ones where one pixel is left; or over the channels, which gives plain ones.
  enum class Blocks : uint8_t { None, Pixels, Channels };
  Blocks blocks() const { return blocks_; }
  // Whether such a tensor can be read as it is; then it is from now on.
  bool takeBlocks(const NetTensor& blocked);
  size_t workspace() const override;

  // What is reduced may be the result of a program (optimize/fuse_reductions.cpp), of at most so many elements in a
  // row; the layer's inputs are its operands then. Rows are [outer / innerRows][innerRows], each of
  // [count / innerCount][innerCount] elements; an operand has a step for each of the four.
  static constexpr int64_t kMostFused = 4096;
  using Steps = std::array<int64_t, 4>;
  PointwiseProgram program;
  std::vector<Steps> steps;
  int64_t innerRows = 1, innerCount = 1;

 private:
  void runOnBlocks(Frame& frame, float divisor) const;
  Blocks blocks_ = Blocks::None;
  int64_t batch_ = 1, channels_ = 1;  // of the blocks
};

// The same of integers, bools and f64, and what is asked of any elements.
class WideReductionLayer : public Layer {
 public:
  WideReductionLayer(const Node* node, WideReduction kind, WideReducer reduce)
      : Layer(node), kind_(kind), reduce_(reduce) {}
  std::string name() const override;
  void run(Frame& frame) const override;
  int64_t outer = 1, count = 1, inner = 1;

 private:
  WideReduction kind_;
  WideReducer reduce_;
};

// (self) or (self, dimensions, keepdim), with or without a dtype behind.
template <WideReduction kOf>
void convertReduction(ConvertCall& call);

}  // namespace tscompile
