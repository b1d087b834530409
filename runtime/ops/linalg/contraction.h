// Sums of products over shared dimensions: what einsum, tensordot and bilinear forms come down to.
#pragma once

#include "runtime/call/kernel_call.h"

namespace tscompile {

// The sum over `dims`, which stay with size 1; integers are summed up as int64.
Tensor sumOver(const KernelCall& call, const Tensor& t, DimSpan dims);

// The product of all operands, which have the same number of dimensions and are broadcast, summed up over the
// dimensions from `kept` on, which the result does not have. Two operands at a time become one: the first two, or as
// `path` says (two positions for each step; the product goes to the end).
Tensor contract(const KernelCall& call, std::vector<Tensor> operands, size_t kept, DimSpan path = {});

}  // namespace tscompile
