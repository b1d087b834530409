// The steps of an LSTM or a GRU whose products are quantised dynamically: at each, the state of all sequences is
// brought to a grid of its own, and multiplied as integers. The input's part of the gates comes from outside.
#pragma once

#include "runtime/engine/layers/integer_weights.h"
#include "runtime/engine/layers/product_layer.h"
#include "runtime/kernels/gemm.h"
#include "runtime/kernels/recurrent.h"

namespace tscompile {

// One direction of one layer.
class QuantizedRecurrentLayer : public PackedLayer, public IntegerWeights {
 public:
  using PackedLayer::PackedLayer;
  std::string name() const override { return cell == RecurrentCell::Lstm ? "quantized_lstm" : "quantized_gru"; }
  size_t workspace() const override;
  double flops() const override;
  void prepare(WeightStore& store, const ProductPrecision& precision) override;
  void run(Frame& frame) const override;

  RecurrentCell cell = RecurrentCell::Lstm;
  int64_t steps = 0, batch = 0, hidden = 0;
  bool backwards = false;
  bool isReduced = false;  // the range of the state's integers
  Tensor weight;           // f32 [gates * hidden, hidden]; integers if there are scales
  Tensor scales;           // of its rows, f32; undefined where the state is multiplied as it is
  Tensor bias;             // f32; may be undefined
  // Inputs: the gates [steps, batch, gates * hidden], the hidden state [batch, hidden], of LSTM the cells' state.
  // Outputs: [steps, batch, hidden] and the states.

 private:
  int64_t gates() const { return gatesOf(cell) * hidden; }
  // The state's part of the gates.
  void multiply(Frame& frame, const float* state, float* parts) const;

  PackedMatrix packed_;
  Tensor memory_;      // of that
  Tensor columnSums_;  // of Bytes: int32 in whole blocks
};

}  // namespace tscompile
