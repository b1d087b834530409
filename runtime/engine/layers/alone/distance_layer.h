// Distances of all pairs of rows.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/engine/network/frame.h"

namespace tscompile {

// Inputs, contiguous and of one dtype, f32 or f64: [batch][rows][depth], and [batch][depth][others], whose columns are
// the other rows. The output is [batch][rows][others] or, of pairs once, each row's distances to those after it.
class DistanceLayer : public Layer {
 public:
  using Layer::Layer;
  std::string name() const override { return "distance"; }
  void run(Frame& frame) const override;
  int64_t batch = 1, rows = 0, others = 0, depth = 0;
  double exponent = 2;
  bool pairsOnce = false;

 private:
  template <class V>
  void runOf(Frame& frame) const;
};

// Result 0: of `rows`, [..., rows, depth], to `columns`, [..., depth, others] with the same batches.
void addDistances(ConvertCall& call, const Tensor& rows, const Tensor& columns, double exponent, bool pairsOnce);

}  // namespace tscompile
