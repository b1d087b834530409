// Shape function of operators that keep sizes and dtype and are told a memory format. Engines and rewrites leave out
// what only lays tensors out, so that a format which does not fit is told here.
#pragma once

#include "ir/operators/infer_call.h"
#include "runtime/reference/loops/memory_format.h"

namespace tscompile {

// That the format of argument `at`, if it is known, is one for the tensor.
inline void requireFormat(const InferCall& call, size_t at) {
  const IValue* given = at < call.size() ? call.constant(at) : nullptr;
  if (!given || !given->isInt()) return;
  const TensorInfo t = call.tensor(0);
  const int64_t number = given->toInt();
  call.require(number >= 0 && number <= 3, "{} is not the number of a memory format", number);
  const auto format = static_cast<MemoryFormat>(number);
  if (t.hasRank && format != MemoryFormat::Preserve) (void)formatStrides(t.sizes, format);
}

template <size_t kFormat>
void inferInFormat(InferCall& call) {
  requireFormat(call, kFormat);
  call.result(call.tensor(0));
}

}  // namespace tscompile
