// Recurrent networks over sequences: what depends on the step before. The input's part of the gates is a matrix product
// of all steps at once, and comes from outside. Results do not depend on the number of threads.
#pragma once

#include "runtime/kernels/gemm.h"

#include <cstdint>
#include <span>

namespace tscompile {

enum class RecurrentCell : uint8_t { Lstm, Gru, Tanh, Relu };
inline int64_t gatesOf(RecurrentCell cell) {
  return cell == RecurrentCell::Lstm ? 4 : cell == RecurrentCell::Gru ? 3 : 1;
}

// One direction of one layer, over sequences of one length. Rows of a state are of one sequence each.
struct RecurrentRun {
  RecurrentCell cell;
  int64_t steps, batch;
  int64_t hidden, output;  // numbers of a cell, and of what it gives, which a projection may make fewer
  bool backwards;
  PackedMatrix weights;     // [output] x [gates * hidden]
  const float* bias;        // of the hidden part, in whole blocks of 16; or null
  PackedMatrix projection;  // [hidden] x [output], or without data
  const float* gates;       // the input's part, [gates * hidden] of each step and sequence
  int64_t gatesStep, gatesRow;
  float* out;  // [output] of each step and sequence; or null
  int64_t outStep, outRow;
  const float *firstHidden, *firstCell;  // [batch][output], [batch][hidden]; cells of LSTM alone have the second
  float *lastHidden, *lastCell;
};

// One step of one sequence: x is the input's part of the gates, `state` that of the hidden state `before`, with biases;
// `now` and, of LSTM, `memory` become the new state. `now` may be `before`.
void recurrentStep(RecurrentCell cell, const float* x, const float* state, int64_t hidden, const float* before,
                   float* now, float* memory);

// Runs that do not depend on each other.
void runRecurrent(std::span<const RecurrentRun> runs, int threads);

}  // namespace tscompile
