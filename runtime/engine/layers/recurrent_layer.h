// LSTM, GRU and plain recurrent networks with constant weights, all layers and directions, in f32.
#pragma once

#include "runtime/engine/layers/product_layer.h"
#include "runtime/kernels/recurrent.h"

namespace tscompile {

class RecurrentLayer : public PackedLayer {
 public:
  // One direction of one layer. Biases and the projection may be undefined.
  struct Direction {
    Tensor input, hidden, inputBias, hiddenBias, projection;
    Tensor bias, stateBias;  // of the input's part of the gates, of the state's
    PackedMatrix packedInput, packedHidden, packedProjection;
    Tensor memory[3];  // of those
  };

  using PackedLayer::PackedLayer;
  std::string name() const override;
  size_t workspace() const override;
  double flops() const override;
  void prepare(WeightStore& store, const ProductPrecision& precision) override;
  void run(Frame& frame) const override;

  RecurrentCell cell = RecurrentCell::Lstm;
  int64_t steps = 1, batch = 0, features = 0, hidden = 0, output = 0;
  int64_t layers = 1, directions = 1;
  bool batchFirst = false;       // the order of sequences and steps in input and output
  bool givesSequence = true;     // a cell gives its state only
  std::vector<Direction> parts;  // of layer 0 forwards, backwards, of layer 1 ...
  // Inputs: the sequences, the hidden state, of LSTM the cells' state. Outputs: the sequence if it is given, the
  // states.

 private:
  int64_t gates() const { return gatesOf(cell) * hidden; }
  int64_t productBytes() const;
};

// aten::lstm, gru, rnn_tanh, rnn_relu on padded sequences, and their cells.
template <RecurrentCell kCell>
void convertRecurrent(ConvertCall& call);
template <RecurrentCell kCell>
void convertRecurrentCell(ConvertCall& call);

}  // namespace tscompile
