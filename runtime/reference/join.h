// Tensors joined along a dimension that they have: what aten::cat means, for all the operators that are made of it.
#pragma once

#include "runtime/call/kernel_call.h"

#include <vector>

namespace tscompile {

// What joining tensors of these dtypes and sizes gives. `dim` counts from either end; it is counted from the front
// afterwards. Fails if they do not fit. Empty 1-dimensional tensors are passed over, as PyTorch does for old programs.
TensorSpec joinedSpec(const InferCall& call, const std::vector<TensorSpec>& tensors, int64_t& dim);
// The joined tensor; `dim` counts from the front. Its memory is in channels-last order if that of all of them is.
Tensor joined(const TensorSpec& spec, const std::vector<Tensor>& tensors, int64_t dim);

}  // namespace tscompile
