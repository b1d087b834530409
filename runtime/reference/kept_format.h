// Kernels whose results lie as PyTorch's do where the channels of an image are innermost in memory ("channels last").
#pragma once

#include "ir/operators/op_def.h"
#include "runtime/call/kernel_call.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/views.h"

namespace tscompile {

// The format that one of the first arguments has, if not all lie in rows.
inline MemoryFormat formatOfArguments(const KernelCall& call, size_t arguments) {
  for (size_t i = 0; i < arguments; ++i)
    if (MemoryFormat format = suggestedFormat(call.tensor(i)); format != MemoryFormat::Contiguous) return format;
  return MemoryFormat::Contiguous;
}

// Brings results of as many dimensions into this format.
inline void layOutResults(KernelCall& call, MemoryFormat format, size_t results) {
  const int rank = format == MemoryFormat::ChannelsLast ? 4 : 5;
  for (size_t i = 0; i < std::min(results, call.resultCount()); ++i) {
    const Tensor rows = call.out(i);
    if (rows.rank() != rank) continue;
    if (isContiguousIn(rows, format)) {  // strides of dimensions of one element tell the format, too
      call.setResult(i, rows.withGeometry(rows.sizes(), formatStrides(rows.sizes(), format), rows.offset()));
      continue;
    }
    Tensor made = emptyLike(rows, rows.dtype(), format);
    copyTensor(made, rows);
    call.setResult(i, made);
  }
}

// A kernel that gives rows, whose first results get the format of the first arguments.
template <KernelFunction kKernel, size_t kResults = 1, size_t kArguments = 1>
void keepingFormat(KernelCall& call) {
  const bool isGiven = call.isInPlace() || call.hasOut();
  (*kKernel)(call);
  const MemoryFormat format = isGiven ? MemoryFormat::Contiguous : formatOfArguments(call, kArguments);
  if (format != MemoryFormat::Contiguous) layOutResults(call, format, kResults);
}

// The same for series, which PyTorch takes for images of one row; without a batch their results are rows.
template <KernelFunction kKernel, size_t kResults = 1>
void keepingFormatOfSeries(KernelCall& call) {
  const bool isGiven = call.hasOut();
  (*kKernel)(call);
  const Tensor x = call.tensor(0);
  if (isGiven || x.rank() != 3 || suggestedFormat(unsqueezed(x, 2)) == MemoryFormat::Contiguous) return;
  for (size_t i = 0; i < std::min(kResults, call.resultCount()); ++i) {
    const Tensor rows = call.out(i),
                 made = emptyLike(rows.permuted(Dims{0, 2, 1}), rows.dtype(), MemoryFormat::Contiguous);
    const Tensor result = made.permuted(Dims{0, 2, 1});
    copyTensor(result, rows);
    call.setResult(i, result);
  }
}

}  // namespace tscompile
