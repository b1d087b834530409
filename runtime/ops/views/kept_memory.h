// Copies that lie in memory as the tensor does, what is between its elements included: parts of them are replaced.
#pragma once

#include "runtime/reference/loops/copy.h"

#include <algorithm>

namespace tscompile {

// One past the last element of the storage that such a view has; no stride is negative, no size is 0.
inline int64_t endInStorage(DimSpan sizes, DimSpan strides, int64_t offset) {
  int64_t last = offset;
  for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * strides[d];
  return last + 1;
}

// With the elements of its storage from `first` to at least `end`. Where a stride of 0 makes one element stand for
// several, the copy has each of them: it is to be written.
inline Tensor cloneWithGaps(const Tensor& t, int64_t first, int64_t end) {
  const auto isNegative = [](int64_t stride) { return stride < 0; };
  if (t.numel() == 0 || repeatsElements(t.sizes(), t.strides()) || std::ranges::any_of(t.strides(), isNegative))
    return cloneTensor(t);
  end = std::max(end, endInStorage(t.sizes(), t.strides(), t.offset()));
  const Tensor run = cloneTensor(t.withGeometry(Dims{end - first}, Dims{1}, first));
  return run.withGeometry(t.sizes(), t.strides(), t.offset() - first);
}

}  // namespace tscompile
