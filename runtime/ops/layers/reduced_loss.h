// What losses have in common: a reduction of the losses of elements, and the dtype and sizes of the result.
#pragma once

#include "runtime/ops/call_op.h"

namespace tscompile {

// With PyTorch's numbers, as graphs have them.
enum class LossReduction : int64_t { None = 0, Mean = 1, Sum = 2 };

// The argument `reduction`; None if it is another number.
LossReduction lossReduction(const InferCall& call, size_t i);
LossReduction lossReduction(const KernelCall& call, size_t i);

// The result of a loss whose losses of elements have these sizes: without dimensions if they are reduced.
void resultLoss(InferCall& call, DType dtype, LossReduction reduction, DimSpan sizes);

// Reduces losses, or leaves them as they are.
Tensor reducedLoss(const KernelCall& call, const Tensor& losses, LossReduction reduction);

}  // namespace tscompile
