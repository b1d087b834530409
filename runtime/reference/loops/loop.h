// One loop over the elements of several tensors of broadcast shape, in tiles.
#pragma once

#include "ir/values/tensor.h"
#include "runtime/reference/loops/tiles.h"

#include <span>

namespace tscompile {

inline constexpr int kMaxOperands = 6;

// A run of `n` elements of every operand, as arrays of their compute types. Outputs come first.
struct Tile {
  int64_t n;
  void* operand[kMaxOperands];
  const void* parameters;
};
using TileFunction = void (*)(const Tile&);

struct Operand {
  Tensor tensor;
  Compute compute;
  const void* number =
      nullptr;  // in place of an input tensor: one value of the compute type that stands for all elements
};

// Calls `f` on tiles that cover `sizes`. The first `outputs` operands are written and have exactly these sizes; the
// others are read and broadcast to them. An output may be the same tensor as an input (same sizes and strides).
void loopTiles(DimSpan sizes, std::span<const Operand> operands, int outputs, TileFunction f,
               const void* parameters = nullptr);

// The strides that PyTorch gives the output of an element-wise operator: dense, with the dimensions in the order that
// the inputs agree on, the first ones counting more.
Dims elementwiseStrides(DimSpan sizes, std::span<const Tensor* const> inputs);

}  // namespace tscompile
