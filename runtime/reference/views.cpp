#include "runtime/reference/views.h"

#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"

// Strides that nothing is reached by (of sizes 0 and 1) may be any number, so arithmetic on strides wraps.

namespace tscompile {

Tensor aliased(const Tensor& t) { return t.withGeometry(t.sizes(), t.strides(), t.offset()); }

Tensor unsqueezed(const Tensor& t, int64_t dim) {
  Dims sizes(t.sizes()), strides(t.strides());
  int64_t stride = dim < t.rank() ? wrapMul(sizes[dim], strides[dim]) : 1;
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

Tensor squeezed(const Tensor& t) {
  Dims sizes, strides;
  for (int d = 0; d < t.rank(); ++d) {
    if (t.size(d) == 1) continue;
    sizes.push_back(t.size(d));
    strides.push_back(t.stride(d));
  }
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
  int64_t offset = wrapAdd(t.offset(), wrapMul(start, strides[dim]));
  sizes[dim] = length;
  strides[dim] = wrapMul(strides[dim], step);
  return t.withGeometry(sizes, strides, offset);
}

Tensor selected(const Tensor& t, int64_t dim, int64_t index) {
  Dims sizes(t.sizes()), strides(t.strides());
  int64_t offset = wrapAdd(t.offset(), wrapMul(index, strides[dim]));
  sizes.erase(static_cast<size_t>(dim));
  strides.erase(static_cast<size_t>(dim));
  return t.withGeometry(sizes, strides, offset);
}

Tensor diagonalOf(const Tensor& t, int64_t offset, int64_t dim1, int64_t dim2) {
  int64_t rows = t.sizes()[dim1], columns = t.sizes()[dim2];
  int64_t length =
      std::max<int64_t>(offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns), 0);
  int64_t start = t.offset();
  // An offset beyond the end leaves the empty tensor where it is.
  if (length > 0) start += offset >= 0 ? offset * t.strides()[dim2] : -offset * t.strides()[dim1];
  Dims sizes, strides;
  for (int64_t d = 0; d < t.rank(); ++d) {
    if (d == dim1 || d == dim2) continue;
    sizes.push_back(t.sizes()[d]);
    strides.push_back(t.strides()[d]);
  }
  sizes.push_back(length);
  strides.push_back(wrapAdd(t.strides()[dim1], t.strides()[dim2]));
  return t.withGeometry(sizes, strides, start);
}

Tensor unfolded(const Tensor& t, int64_t dim, int64_t size, int64_t step) {
  Dims sizes(t.sizes()), strides(t.strides());
  sizes.push_back(size);
  strides.push_back(t.rank() == 0 ? 1 : strides[dim]);
  if (t.rank() > 0) {
    sizes[dim] = (sizes[dim] - size) / step + 1;
    strides[dim] = wrapMul(strides[dim], step);
  }
  return t.withGeometry(sizes, strides, t.offset());
}

Tensor expandedTo(const Tensor& t, DimSpan sizes) {
  Dims strides(sizes.size(), 0);
  auto skip = static_cast<int64_t>(sizes.size()) - t.rank();
  for (auto d = static_cast<int64_t>(sizes.size()); t.rank() > 0 && d-- > 0;) {
    int64_t size = d >= skip ? t.sizes()[d - skip] : 1;
    int64_t stride = d >= skip ? t.strides()[d - skip] : wrapMul(sizes[d + 1], strides[d + 1]);
    strides[d] = size == sizes[d] ? stride : 0;
  }
  return t.withGeometry(sizes, strides, t.offset());
}

std::optional<Dims> viewStrides(DimSpan have, DimSpan lie, DimSpan sizes) {
  if (have.empty()) return Dims(sizes.size(), 1);
  if (std::ranges::find(have, 0) != have.end())
    return std::ranges::equal(sizes, have) ? Dims(lie) : contiguousStrides(sizes);
  // Walk both shapes from the back; runs of old dimensions that continue each other can be cut anew.
  Dims strides(sizes.size());
  size_t next = sizes.size();
  int64_t base = lie.back(), length = 1, taken = 1;
  for (size_t d = have.size(); d-- > 0;) {
    length *= have[d];
    bool runEnds = d == 0 || (have[d - 1] != 1 && lie[d - 1] != wrapMul(length, base));
    if (!runEnds) continue;
    while (next > 0 && (taken < length || sizes[next - 1] == 1)) {
      --next;
      strides[next] = wrapMul(taken, base);
      taken *= sizes[next];
    }
    if (taken != length) return std::nullopt;
    if (d > 0) {
      base = lie[d - 1];
      length = taken = 1;
    }
  }
  if (next > 0) return std::nullopt;
  return strides;
}
std::optional<Dims> viewStrides(const Tensor& t, DimSpan sizes) { return viewStrides(t.sizes(), t.strides(), sizes); }

Tensor reshaped(const Tensor& t, DimSpan sizes) {
  if (std::optional<Dims> strides = viewStrides(t, sizes)) return t.withGeometry(sizes, *strides, t.offset());
  Tensor copy = contiguous(t);
  return copy.withGeometry(sizes, contiguousStrides(sizes), copy.offset());
}

}  // namespace tscompile
