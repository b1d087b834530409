#include "runtime/reference/resized_memory.h"

#include "ir/values/error.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace tscompile {

void resizeInPlace(const Tensor& t, DimSpan sizes, DimSpan strides) {
  if (fitsStorage(t.dtype(), sizes, strides, t.offset(), t.storage()->bytes()))
    return t.impl()->setGeometry(sizes, strides, t.offset());
  if (!t.storage()->unique())
    throw ExecutionError(ErrorKind::Unsupported, "a tensor that shares its memory is not made larger than that");
  const int64_t count = Tensor::empty(t.dtype(), sizes).numel();
  if (t.offset() > std::numeric_limits<int64_t>::max() - count)
    throw ExecutionError(ErrorKind::Model, "the size " + dimsText(sizes) + " is too large");
  Tensor memory = Tensor::zeros(t.dtype(), Dims{t.offset() + count});
  std::memcpy(memory.storage()->data(), t.storage()->data(), std::min(memory.storage()->bytes(), t.storage()->bytes()));
  t.impl()->setStorage(memory.storage(), sizes, strides, t.offset());
}

}  // namespace tscompile
