// Sums, means and extremes over dimensions that lie next to each other, in f32.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"
#include "runtime/kernels/reductions.h"

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
};

// (self) or (self, dimensions, keepdim), with or without a dtype behind.
enum class ReductionOf : uint8_t { Sum, Mean, Max, Min };
template <ReductionOf kOf>
void convertReduction(ConvertCall& call);

}  // namespace tscompile
