// The arguments that operators which make or convert tensors share: dtype, layout, device, memory format; and what
// their shape functions have in common.
#pragma once

#include "runtime/call/kernel_call.h"
#include "runtime/reference/loops/memory_format.h"

namespace tscompile {

// Every device is the CPU, but nothing can stand for `meta`; tensors are strided. Others are refused.
void checkDevice(const InferCall& call, size_t i);
void checkLayout(const InferCall& call, size_t i);
// The dtype at position `first`, after which stand layout, device and pin_memory.
DType optionsDType(const InferCall& call, size_t first, DType otherwise);
MemoryFormat formatArgument(const KernelCall& call, size_t i, MemoryFormat otherwise = MemoryFormat::Preserve);

// Argument 0 if its rank is known. Otherwise nothing, and the result is said to have its dtype.
std::optional<TensorInfo> rankedSelf(InferCall& call);
// A list of sizes that are not negative; during analysis they may be unknown.
Dims sizesArgument(const InferCall& call, size_t i);

// Shape functions of (..., sizes, ..., dtype, layout, device, pin_memory), where these stand at kSizes and kDType.
template <size_t kDType, size_t kSizes = 0>
void inferOfSizes(InferCall& call) {
  call.result(optionsDType(call, kDType, DType::Float32), sizesArgument(call, kSizes));
}
// Of (self, ..., dtype, layout, device, pin_memory, memory_format).
template <size_t kDType>
void inferLike(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, optionsDType(call, kDType, t.dtype));
}

}  // namespace tscompile
