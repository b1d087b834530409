#include "runtime/reference/linalg.h"

#include "ir/shape.h"
#include "runtime/reference/copy.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loop.h"
#include "runtime/reference/views.h"

#include <cstring>

namespace tscompile {

void requireSameDType(const InferCall& call, const TensorInfo& a, const TensorInfo& b) {
  call.require(a.dtype == b.dtype || a.dtype == DType::Undefined || b.dtype == DType::Undefined,
               "expected both tensors to have the same dtype, but got {} and {}", pythonName(a.dtype),
               pythonName(b.dtype));
}

void requireExpandable(const InferCall& call, DimSpan from, DimSpan to) {
  bool fits = from.size() <= to.size();
  for (size_t i = 1; fits && i <= from.size(); ++i)
    fits = from[from.size() - i] == 1 || !differ(from[from.size() - i], to[to.size() - i]);
  call.require(fits, "the sizes {} cannot be expanded to {}", dimsText(from), dimsText(to));
}

TensorInfo matrixArgument(const InferCall& call, size_t i, const char* name) {
  TensorInfo t = call.rankedTensor(i);
  call.require(t.rank() >= 2, "{} must have at least 2 dimensions, but it has {}", name, t.rank());
  return t;
}

TensorInfo squareArgument(const InferCall& call, size_t i, const char* name) {
  TensorInfo t = matrixArgument(call, i, name);
  int64_t rows = t.sizes[t.rank() - 2], columns = t.sizes[t.rank() - 1];
  call.require(!differ(rows, columns), "{} must be batches of square matrices, but they are {} by {} matrices", name,
               rows, columns);
  return t;
}

Dims broadcastBatches(const InferCall& call, DimSpan a, DimSpan b) {
  Dims sizes;
  bool fits = broadcastInto(sizes, batchOf(a)) && broadcastInto(sizes, batchOf(b));
  call.require(fits, "the batch dimensions of {} and {} cannot be broadcast", dimsText(a), dimsText(b));
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

namespace {

struct Multiply {
  template <class A>
  static auto apply(const A& a, const A& b) {
    return a * b;
  }
};
inline constexpr TileSet kMultiply{.f32 = binaryTile<Multiply, float>,
                                   .f64 = binaryTile<Multiply, double>,
                                   .i64 = binaryTile<Multiply, uint64_t>,
                                   .c128 = binaryTile<Multiply, std::complex<double>>};

void conjugateTile(const Tile& t) {
  auto* out = static_cast<std::complex<double>*>(t.operand[0]);
  auto* in = static_cast<const std::complex<double>*>(t.operand[1]);
  for (int64_t i = 0; i < t.n; ++i) out[i] = std::conj(in[i]);
}

}  // namespace

void multiplyElements(const Tensor& out, const Tensor& a, const Tensor& b) {
  Compute c = computeTypeOf(out.dtype());
  Operand operands[] = {{out, c}, {a, c}, {b, c}};
  loopTiles(out.sizes(), operands, 1, kMultiply.of(c));
}

Tensor conjugated(const Tensor& t) {
  if (!isComplex(t.dtype())) return t;
  Tensor out = Tensor::empty(t.dtype(), t.sizes());
  Operand operands[] = {{out, Compute::C128}, {t, Compute::C128}};
  loopTiles(t.sizes(), operands, 1, conjugateTile);
  return out;
}

}  // namespace tscompile
