#include "runtime/reference/views.h"

#include "runtime/reference/copy.h"

namespace tscompile {

Tensor unsqueezed(const Tensor& t, int64_t dim) {
  Dims sizes(t.sizes()), strides(t.strides());
  int64_t stride = dim < t.rank() ? sizes[dim] * strides[dim] : 1;
  sizes.insert(static_cast<size_t>(dim), 1);
  strides.insert(static_cast<size_t>(dim), stride);
  return t.withGeometry(sizes, strides, t.offset());
}

Tensor squeezedAt(const Tensor& t, int64_t dim) {
  Dims sizes(t.sizes()), strides(t.strides());
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  return t.withGeometry(sizes, strides, t.offset());
}

Tensor transposed(const Tensor& t, int64_t a, int64_t b) {
  Dims sizes(t.sizes()), strides(t.strides());
  if (t.rank() > 0) {
    std::swap(sizes[a], sizes[b]);
    std::swap(strides[a], strides[b]);
  }
  return t.withGeometry(sizes, strides, t.offset());
}

Tensor narrowed(const Tensor& t, int64_t dim, int64_t start, int64_t length, int64_t step) {
  Dims sizes(t.sizes()), strides(t.strides());
  int64_t offset = t.offset() + start * strides[dim];
  sizes[dim] = length;
  strides[dim] *= step;
  return t.withGeometry(sizes, strides, offset);
}

Tensor selected(const Tensor& t, int64_t dim, int64_t index) {
  Dims sizes(t.sizes()), strides(t.strides());
  int64_t offset = t.offset() + index * strides[dim];
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  return t.withGeometry(sizes, strides, offset);
}

Tensor expandedTo(const Tensor& t, DimSpan sizes) {
  Dims strides(sizes.size(), 0);
  size_t offset = sizes.size() - static_cast<size_t>(t.rank());
  for (int d = 0; d < t.rank(); ++d)
    if (t.size(d) == sizes[offset + static_cast<size_t>(d)]) strides[offset + static_cast<size_t>(d)] = t.stride(d);
  return t.withGeometry(sizes, strides, t.offset());
}

std::optional<Dims> viewStrides(const Tensor& t, DimSpan sizes) {
  if (t.numel() == 0 || t.isContiguous()) return contiguousStrides(sizes);
  // Walk both shapes from the back; runs of old dimensions that continue each other can be cut anew.
  Dims strides(sizes.size());
  auto next = static_cast<int64_t>(sizes.size()) - 1;
  int64_t base = t.rank() ? t.stride(t.rank() - 1) : 1, have = 1, taken = 1;
  for (int d = t.rank() - 1; d >= 0; --d) {
    have *= t.size(d);
    bool runEnds = d == 0 || (t.size(d - 1) != 1 && t.stride(d - 1) != have * base);
    if (!runEnds) continue;
    while (next >= 0 && (taken < have || sizes[next] == 1)) {
      strides[next] = taken * base;
      taken *= sizes[next];
      --next;
    }
    if (taken != have) return std::nullopt;
    if (d > 0) {
      base = t.stride(d - 1);
      have = taken = 1;
    }
  }
  if (next >= 0) return std::nullopt;
  return strides;
}

Tensor reshaped(const Tensor& t, DimSpan sizes) {
  if (std::optional<Dims> strides = viewStrides(t, sizes)) return t.withGeometry(sizes, *strides, t.offset());
  Tensor copy = contiguous(t);
  return copy.withGeometry(sizes, contiguousStrides(sizes), copy.offset());
}

}  // namespace tscompile
