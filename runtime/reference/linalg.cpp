#include "runtime/reference/linalg.h"

#include "ir/values/shape.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/views.h"

#include <cstring>

namespace tscompile {

void requireSameDType(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "expected both tensors to have the same dtype, but got {} and {}", pythonName(a.dtype),
               pythonName(b.dtype));
}
void requireSameScalarType(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "expected scalar type {} but found {}", graphName(a.dtype), graphName(b.dtype));
}

void requireExpandable(const InferCall& call, DimSpan from, DimSpan to) {
  call.require(from.size() <= to.size(), "the sizes {} cannot be expanded to {}", dimsText(from), dimsText(to));
  for (size_t i = 1; i <= from.size(); ++i) {
    const int64_t have = from[from.size() - i], want = to[to.size() - i];
    call.require(
        have == 1 || !differ(have, want),
        "the expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  "
        "Target sizes: {}.  Tensor sizes: {}",
        want, have, to.size() - i, dimsText(to), dimsText(from));
  }
}

TensorInfo matrixArgument(const InferCall& call, size_t i, const char* name) {
  TensorInfo t = call.rankedTensor(i);
  if (t.rank() < 2)
    call.fail("{}: The input tensor {} must have at least 2 dimensions.", linalgName(call.op().kind().name()), name);
  return t;
}

TensorInfo squareArgument(const InferCall& call, size_t i, const char* name) {
  TensorInfo t = matrixArgument(call, i, name);
  int64_t rows = t.sizes[t.rank() - 2], columns = t.sizes[t.rank() - 1];
  if (differ(rows, columns))
    call.fail("{}: {} must be batches of square matrices, but they are {} by {} matrices",
              linalgName(call.op().kind().name()), name, rows, columns);
  return t;
}

Dims broadcastBatches(DimSpan a, DimSpan b) {
  Dims sizes;
  if (!broadcastInto(sizes, batchOf(a)) || !broadcastInto(sizes, batchOf(b))) refuseBroadcast(batchOf(a), batchOf(b));
  return sizes;
}

Tensor emptyColumns(DType dtype, DimSpan sizes) {
  Dims swapped(sizes);
  size_t rank = sizes.size();
  std::swap(swapped[rank - 2], swapped[rank - 1]);
  return transposed(Tensor::empty(dtype, swapped), static_cast<int64_t>(rank) - 2, static_cast<int64_t>(rank) - 1);
}

Tensor zeroColumns(DType dtype, DimSpan sizes) {
  Tensor t = emptyColumns(dtype, sizes);
  if (size_t bytes = t.storage()->bytes()) std::memset(t.raw(), 0, bytes);
  return t;
}

Tensor copyColumns(const Tensor& t) { return copyColumns(t, t.sizes()); }

Tensor copyColumns(const Tensor& t, DimSpan sizes) {
  Tensor out = emptyColumns(t.dtype(), sizes);
  copyTensor(out, t);
  return out;
}

std::vector<int64_t> batchOffsets(const Tensor& t, DimSpan batch, int inner) {
  // Strides of the batch dimensions: 0 where the tensor is broadcast.
  Dims strides(batch.size(), 0);
  int own = t.rank() - inner;
  size_t offset = batch.size() - static_cast<size_t>(own);
  for (int d = 0; d < own; ++d)
    if (t.size(d) == batch[offset + static_cast<size_t>(d)]) strides[offset + static_cast<size_t>(d)] = t.stride(d);
  std::vector<int64_t> offsets{0};
  for (size_t d = 0; d < batch.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(offsets.size() * static_cast<size_t>(batch[d]));
    for (int64_t base : offsets)
      for (int64_t i = 0; i < batch[d]; ++i) next.push_back(base + i * strides[d]);
    offsets = std::move(next);
  }
  return offsets;
}

std::string batchPrefix(const KernelCall& call, const Tensor& t, int64_t index) {
  return linalgName(call.op().kind().name()) + (t.rank() > 2 ? fmt::format(": (Batch element {}): ", index) : ": ");
}

void multiplyElements(const Tensor& out, const Tensor& a, const Tensor& b) {
  mapTensors<kNumbers>(
      out.dtype(), [](auto x, auto y) { return times(x, y); }, out, a, b);
}

Tensor conjugated(const Tensor& t) {
  if (!isComplex(t.dtype())) return t;
  Tensor out = Tensor::empty(t.dtype(), t.sizes());
  mapTensors<kC128>(
      t.dtype(), [](auto x) { return std::conj(x); }, out, t);
  return out;
}

Tensor adjoint(const Tensor& t) { return conjugated(transposed(t, t.rank() - 2, t.rank() - 1)); }

}  // namespace tscompile
