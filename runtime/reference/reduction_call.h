// What reductions have in common: the arguments `dim`, `keepdim` and `dtype`, where a schema has them.
#pragma once

#include "runtime/call/kernel_call.h"

namespace tscompile {

// The position of an argument by its name; past the end if there is none.
size_t argumentIndex(const Operator& op, std::string_view name);

// One result: sizes by `dim` (None, the empty list but in overloads `dims`, or no such argument: all dimensions) and
// `keepdim`.
void inferReduction(InferCall& call, DType dtype);
// The same as a further result of operators that have several.
void inferReductions(InferCall& call, std::initializer_list<DType> dtypes);
// The argument `dtype`, or what `otherwise` makes of the input's dtype.
DType reductionDType(const InferCall& call, DType (*otherwise)(DType));

// The dimensions that a call reduces, counted from the front.
Dims reducedDims(const KernelCall& call, int rank);

// The operands of a reduction to one result.
struct ReductionCall {
  explicit ReductionCall(KernelCall& call) : in(call.tensor(0)), dims(reducedDims(call, in.rank())), out(call.out()) {}
  Tensor in;
  Dims dims;
  Tensor out;
};

}  // namespace tscompile
