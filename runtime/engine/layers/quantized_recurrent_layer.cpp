#include "runtime/engine/layers/quantized_recurrent_layer.h"

#include "runtime/engine/layers/operands.h"
#include "runtime/engine/layers/quantized_layer.h"
#include "runtime/kernels/layout.h"
#include "runtime/kernels/line_product.h"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

namespace tscompile {

// The state's part of the gates, the state's integers, the bias of bytes, and what the product needs.
size_t QuantizedRecurrentLayer::workspace() const {
  return floatBytes(batch * gates()) + floatBytes(batch * hidden) + floatBytes(channelBlocks(gates()) * kBlock) +
         static_cast<size_t>(gemmWorkspace(batch, packed_));
}

double QuantizedRecurrentLayer::flops() const {
  return 2.0 * static_cast<double>(steps * batch) * static_cast<double>(hidden * gates());
}

void QuantizedRecurrentLayer::prepare(WeightStore& store, const ProductPrecision&) {
  const WeightStorage storage = exactStorage(WeightStorage::F32, true, hasLineProducts(WeightStorage::Bytes));
  const auto* elements = weight.data<float>();
  packed_ = {.k = hidden, .n = gates(), .storage = storage, .roundsRows = false};
  if (storage == WeightStorage::Bytes) {
    columnSums_ = Tensor::zeros(DType::Int32, Dims{channelBlocks(gates()) * kBlock});
    for (int64_t i = 0; i < weight.numel(); ++i)
      columnSums_.data<int32_t>()[i / hidden] += static_cast<int32_t>(elements[i]);
  }
  memory_ = store.get(
      keyOf(fmt::format("recurrent {}x{}{}", hidden, gates(), storage == WeightStorage::Bytes ? ", bytes" : "")),
      sourceOf(weight), [&] {
        Tensor made = store.buffer(packedBytes(hidden, gates(), storage));
        packMatrix(hidden, gates(), elements, 1, hidden, storage, made.raw());
        return made;
      });
  packed_.data = memory_.raw();
  weight = Tensor();
}

void QuantizedRecurrentLayer::multiply(Frame& frame, const float* state, float* parts) const {
  std::byte* at = frame.workspace() + floatBytes(batch * gates());
  auto* integers = reinterpret_cast<float*>(std::exchange(at, at + floatBytes(batch * hidden)));
  auto* sums = reinterpret_cast<int32_t*>(std::exchange(at, at + floatBytes(channelBlocks(gates()) * kBlock)));
  PackedMatrix weights = packed_;
  Epilogue epilogue;
  float scale = 1;
  if (scales.defined()) {
    const DynamicGrid grid = dynamicGrid(extremes(state, batch * hidden), isReduced);
    scale = grid.scale;
    weights.least = grid.range.least;
    requantize(std::exchange(state, integers), batch * hidden, 1.0f / scale, grid.range, integers);
    if (columnSums_.defined()) {
      for (int64_t i = 0; i < columnSums_.numel(); ++i)
        sums[i] = static_cast<int32_t>(weights.least) * columnSums_.data<int32_t>()[i];
      epilogue.integerBias = sums;
    }
  }
  gemm(batch, state, hidden, weights, parts, gates(), epilogue, at, frame.threads());
  const float *factors = dataOrNull(scales), *added = dataOrNull(bias);
  for (int64_t row = 0; row < batch; ++row, parts += gates()) {
    for (int64_t i = 0; factors && i < gates(); ++i) parts[i] *= factors[i] * scale;
    for (int64_t i = 0; added && i < gates(); ++i) parts[i] += added[i];
  }
}

void QuantizedRecurrentLayer::run(Frame& frame) const {
  const int64_t size = batch * hidden;
  const float *input = frame.data<float>(inputs[0]), *state = frame.data<float>(inputs[1]);
  auto *out = frame.data<float>(outputs[0]), *parts = reinterpret_cast<float*>(frame.workspace());
  float* memory = cell == RecurrentCell::Lstm ? frame.data<float>(outputs[2]) : nullptr;
  if (memory) std::copy_n(frame.data<float>(inputs[2]), size, memory);
  for (int64_t t = 0; t < steps; ++t) {
    const int64_t at = backwards ? steps - 1 - t : t;
    multiply(frame, state, parts);
    for (int64_t row = 0; row < batch; ++row)
      recurrentStep(cell, input + (at * batch + row) * gates(), parts + row * gates(), hidden, state + row * hidden,
                    out + at * size + row * hidden, memory ? memory + row * hidden : nullptr);
    state = out + at * size;
  }
  std::copy_n(state, size, frame.data<float>(outputs[1]));
}

}  // namespace tscompile
