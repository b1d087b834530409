#include "runtime/reference/loops/memory_format.h"

#include "ir/values/error.h"
#include "runtime/reference/loops/numbers.h"

namespace tscompile {
namespace {

// The dimensions of a channels-last tensor, innermost first.
constexpr int64_t kOrder2d[] = {1, 3, 2, 0};
constexpr int64_t kOrder3d[] = {1, 4, 3, 2, 0};

DimSpan channelsLastOrder(size_t rank) {
  return rank == 4 ? DimSpan(kOrder2d) : rank == 5 ? DimSpan(kOrder3d) : DimSpan();
}

// Whether the strides grow in that order. Where a size of 1 leaves it open, row-major wins.
bool looksChannelsLast(const Tensor& t) {
  int64_t least = 0;
  if (t.stride(1) == 0) return false;
  for (int64_t d : channelsLastOrder(t.sizes().size())) {
    int64_t size = t.sizes()[d], stride = t.strides()[d];
    if (size == 0 || stride < least) return false;
    if (d == 0 && least == t.stride(1)) return false;
    least = size > 1 ? wrapMul(stride, size) : stride;
  }
  return true;
}

}  // namespace

Dims formatStrides(DimSpan sizes, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return contiguousStrides(sizes);
  size_t rank = format == MemoryFormat::ChannelsLast ? 4 : 5;
  if (sizes.size() != rank)
    throw ExecutionError(ErrorKind::Model, "the memory format channels_last" + std::string(rank == 5 ? "_3d" : "") +
                                               " needs " + std::to_string(rank) + " dimensions, not " +
                                               std::to_string(sizes.size()));
  Dims strides(rank);
  int64_t step = 1;
  for (int64_t d : channelsLastOrder(rank)) {
    strides[d] = step;
    step = wrapMul(step, sizes[d]);  // wraps only where a tensor is empty
  }
  return strides;
}

bool isContiguousIn(const Tensor& t, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve) return t.isContiguous();
  if (t.rank() != (format == MemoryFormat::ChannelsLast ? 4 : 5)) return false;
  int64_t step = 1;
  for (int64_t d : channelsLastOrder(t.sizes().size())) {
    if (t.sizes()[d] == 1) continue;
    if (t.strides()[d] != step) return false;
    step = wrapMul(step, t.sizes()[d]);
  }
  return true;
}

MemoryFormat suggestedFormat(const Tensor& t) {
  if (t.rank() == 4 && looksChannelsLast(t)) return MemoryFormat::ChannelsLast;
  if (t.rank() == 5 && looksChannelsLast(t)) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

Dims denseStrides(DimSpan sizes, DimSpan strides) {
  Dims order = sortDimensions(sizes.size(), [&](int64_t a, int64_t b) {
    if (strides[a] == 0 || strides[b] == 0) return 0;
    if (strides[a] != strides[b]) return strides[a] < strides[b] ? -1 : 1;
    return sizes[a] > sizes[b] ? 1 : 0;
  });
  Dims out(sizes.size());
  int64_t step = 1;
  for (int64_t d : order) {
    out[d] = step;
    if (sizes[d] > 1) step = wrapMul(step, sizes[d]);
  }
  return out;
}

Dims preservedStrides(const Tensor& t) {
  if (isNonOverlappingAndDense(t.sizes(), t.strides())) return Dims(t.strides());
  return denseStrides(t.sizes(), t.strides());
}

Tensor emptyLike(const Tensor& t, DType dtype, MemoryFormat format) {
  if (format != MemoryFormat::Preserve) return Tensor::emptyStrided(dtype, t.sizes(), formatStrides(t.sizes(), format));
  return Tensor::emptyStrided(dtype, t.sizes(), preservedStrides(t));
}

}  // namespace tscompile
