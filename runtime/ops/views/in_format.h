// Shape function of operators that keep sizes and dtype and are told a memory format. Engines and rewrites leave out
// what only lays tensors out, so that a format which does not fit is told here.
#pragma once

#include "ir/operators/infer_call.h"
#include "runtime/reference/loops/memory_format.h"

namespace tscompile {

template <size_t kFormat>
void inferInFormat(InferCall& call) {
  const TensorInfo t = call.tensor(0);
  const IValue* given = kFormat < call.size() ? call.constant(kFormat) : nullptr;
  if (given && given->isInt()) {
    const int64_t number = given->toInt();
    call.require(number >= 0 && number <= 3, "{} is not the number of a memory format", number);
    const auto format = static_cast<MemoryFormat>(number);
    if (t.hasRank && format != MemoryFormat::Preserve) (void)formatStrides(t.sizes, format);
  }
  call.result(t);
}

}  // namespace tscompile
