// Parts of tensors: select, narrow, slice, diagonal, unfold, and copies of a tensor with such a part replaced.
#include "ir/values/size_expression.h"
#include "runtime/call/owned_argument.h"
#include "runtime/engine/layers/move_layers.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/views/kept_memory.h"
#include "runtime/ops/views/part_uses.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

void requireDims(const InferCall& call, const TensorInfo& t) {
  call.require(t.rank() > 0, "{}() cannot be applied to a 0-dim tensor.", call.op().kind().name());
}

void resultResized(InferCall& call, const TensorInfo& t, int64_t dim, int64_t size) {
  Dims sizes(t.sizes);
  sizes[dim] = size;
  call.result(t.dtype, sizes);
}

void resultWithout(InferCall& call, const TensorInfo& t, int64_t dim) {
  Dims sizes(t.sizes);
  sizes.erase(static_cast<size_t>(dim));
  call.result(t.dtype, sizes);
}

// ---- select ----

void inferSelect(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  requireDims(call, *t);
  int64_t dim = call.dim(1, t->rank()), size = t->sizes[dim];
  const IValue* index = call.constant(2);
  if (index && isKnownSize(size)) {
    int64_t i = call.integer(2);
    call.require(i >= -size && i < size, "select(): index {} out of range for tensor of size {} at dimension {}", i,
                 dimsText(t->sizes), dim);
  }
  resultWithout(call, *t, dim);
}

Tensor selectedPart(const KernelCall& call, const Tensor& t, size_t first) {
  call.require(t.rank() > 0, "select() cannot be applied to a 0-dim tensor.");
  int64_t dim = call.dim(first, t.rank()), index = call.integer(first + 1), size = t.sizes()[dim];
  call.require(index >= -size && index < size, "select(): index {} out of range for tensor of size {} at dimension {}",
               index, dimsText(t.sizes()), dim);
  return selected(t, dim, index < 0 ? index + size : index);
}

// ---- narrow ----

void inferNarrow(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  requireDims(call, *t);
  int64_t dim = call.dim(1, t->rank());
  int64_t length = call.size(3);
  call.require(length >= 0 || isUnknownInteger(length), "narrow(): length must be non-negative.");
  resultResized(call, *t, dim, integerAsSize(length));
}

Tensor narrowedPart(const KernelCall& call, int64_t start) {
  Tensor t = call.tensor(0);
  int64_t dim = call.dim(1, t.rank()), length = call.integer(3), size = t.sizes()[dim];
  call.require(start >= -std::max<int64_t>(size, 1) && start <= size,
               "start out of range (expected to be in range of [{}, {}], but got {})", -size, size, start);
  if (start < 0) start = std::max<int64_t>(start + size, 0);
  call.require(length <= size - start, "start ({}) + length ({}) exceeds dimension size ({})", start, length, size);
  return narrowed(t, dim, start, length);
}
void narrowKernel(KernelCall& call) { call.setResult(narrowedPart(call, call.integer(2))); }
void narrowCopyKernel(KernelCall& call) {
  Tensor t = call.tensor(0), part = narrowedPart(call, call.integer(2));
  // The whole of a tensor keeps its strides.
  Tensor out = Dims(part.sizes()) == Dims(t.sizes()) ? emptyLike(t, t.dtype()) : Tensor::empty(t.dtype(), part.sizes());
  copyTensor(out, part);
  call.setResult(out);
}
void narrowByTensorKernel(KernelCall& call) {
  Tensor start = call.tensor(2);
  call.require(start.defined() && start.rank() == 0 && isIntegral(start.dtype(), false),
               "narrow: start must be a 0-dim integral tensor");
  call.setResult(narrowedPart(call, start.integer(0)));
}

// ---- slice ----

// The part of a dimension of this size that `[start:end:step]` means.
struct Slice {
  int64_t start, length, step;
};
Slice sliceOf(int64_t size, std::optional<int64_t> start, std::optional<int64_t> end, int64_t step) {
  auto place = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  int64_t from = start ? place(*start) : 0, to = std::max(from, end ? place(*end) : size);
  return {from, to == from ? 0 : (to - from - 1) / step + 1, step};
}

// The same where the size or a limit is an expression. Limits that may count from the end are not known.
SizeExpression sliceLength(const InferCall& call, SizeExpression size) {
  auto limit = [&](size_t i, int64_t otherwise) -> SizeExpression {
    const IValue* v = call.constant(i);
    return v && v->isNone() ? otherwise : v && v->isInt() ? std::max(v->toInt(), INT64_MIN / 2) : call.size(i);
  };
  auto place = [&](SizeExpression i) { return i.isNumber() && i.integer() < 0 ? greatest(size + i, 0) : i; };
  SizeExpression start = limit(2, 0), end = limit(3, INT64_MAX), length = SizeExpression::unknown();
  if (end == SizeExpression(INT64_MAX))
    length =
        start.isNumber() && start.integer() < 0 ? least(size, SizeExpression(0) - start) : greatest(size - start, 0);
  else
    length = greatest(least(place(end), size) - place(start), 0);
  return ceilDiv(length, call.integer(4));
}

void inferSlice(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  requireDims(call, *t);
  int64_t dim = call.dim(1, t->rank()), size = t->sizes[dim];
  if (call.constant(4)) call.require(call.integer(4) > 0, "slice step must be positive");
  if (!isKnownSize(size) || !call.constant(2) || !call.constant(3) || !call.constant(4)) {
    resultResized(call, *t, dim, kUnknownSize);
    int64_t length = sliceLength(call, SizeExpression::ofSize(size)).size();
    call.inferred(0).tensor.sizes[dim] = length;
    return;
  }
  auto limit = [&](size_t i) { return call.isNone(i) ? std::nullopt : std::optional(call.integer(i)); };
  resultResized(call, *t, dim, sliceOf(size, limit(2), limit(3), call.integer(4)).length);
}

Tensor slicedPart(const KernelCall& call, const Tensor& t, size_t first) {
  call.require(t.rank() > 0, "slice() cannot be applied to a 0-dim tensor.");
  int64_t dim = call.dim(first, t.rank());
  auto limit = [&](size_t i) { return call.isNone(i) ? std::nullopt : std::optional(call.integer(i)); };
  call.require(call.integer(first + 3) > 0, "slice step must be positive");
  Slice s = sliceOf(t.sizes()[dim], limit(first + 1), limit(first + 2), call.integer(first + 3));
  return narrowed(t, dim, s.start, s.length, s.step);
}

// ---- diagonal ----

void inferDiagonal(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  int64_t dim1 = call.dim(2, t->rank()), dim2 = call.dim(3, t->rank());
  call.require(dim1 != dim2, "diagonal dimensions cannot be identical {}, {}", call.integer(2), call.integer(3));
  Dims sizes;
  for (size_t d = 0; d < t->rank(); ++d)
    if (static_cast<int64_t>(d) != dim1 && static_cast<int64_t>(d) != dim2) sizes.push_back(t->sizes[d]);
  int64_t rows = t->sizes[dim1], columns = t->sizes[dim2], length = kUnknownSize;
  if (isKnownSize(rows) && isKnownSize(columns) && call.constant(1)) {
    int64_t offset = call.integer(1);
    length = std::max<int64_t>(0, offset >= 0 ? std::min(rows, columns - offset) : std::min(rows + offset, columns));
  } else if (call.constant(1)) {
    SizeExpression offset = call.integer(1), r = SizeExpression::ofSize(rows), c = SizeExpression::ofSize(columns);
    length = greatest(offset.integer() >= 0 ? least(r, c - offset) : least(r + offset, c), 0).size();
  }
  sizes.push_back(length);
  call.result(t->dtype, sizes);
}

Tensor diagonalPart(const KernelCall& call, const Tensor& t, size_t first) {
  int64_t dim1 = call.dim(first + 1, t.rank()), dim2 = call.dim(first + 2, t.rank());
  call.require(t.rank() > 1 && dim1 != dim2, "diagonal dimensions cannot be identical {}, {}", dim1, dim2);
  return diagonalOf(t, call.integer(first), dim1, dim2);
}

// ---- unfold ----

void inferUnfold(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  int64_t dim = call.dim(1, t->rank()), size = call.integer(2), step = call.integer(3);
  int64_t have = t->rank() ? t->sizes[dim] : 1;
  call.require(size >= 0, "size is {} but must be >= 0", size);
  call.require(step > 0, "step is {} but must be > 0", step);
  if (isKnownSize(have))
    call.require(size <= have, "maximum size for tensor at dimension {} is {} but size is {}", dim, have, size);
  Dims sizes(t->sizes);
  sizes.push_back(size);
  if (t->rank()) sizes[dim] = (floorDiv(SizeExpression::ofSize(have) - size, step) + 1).size();
  call.result(t->dtype, sizes);
}
void unfoldKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.setResult(unfolded(t, call.dim(1, t.rank()), call.integer(2), call.integer(3)));
}

// ---- views, and copies with the part replaced ----

using Part = Tensor (*)(const KernelCall&, const Tensor&, size_t);

template <Part kPart>
void partKernel(KernelCall& call) {
  call.setResult(kPart(call, call.tensor(0), 1));
}

// (self, src, ...): the arguments of the part begin after `src`.
template <Part kPart>
void scatterKernel(KernelCall& call) {
  const bool isOwned = OwnedArgument::canBecomeResult(call.argument(0));
  const Tensor self = call.tensor(0), source = call.tensor(1);
  Tensor out = isOwned                                                  ? self
               : isNonOverlappingAndDense(self.sizes(), self.strides()) ? cloneTensor(self)
                                                                        : cloneWithGaps(self, self.offset(), 0);
  Tensor part = kPart(call, out, 2);
  call.require(source.defined() && Dims(part.sizes()) == Dims(source.sizes()),
               "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
               source.defined() ? dimsText(source.sizes()) : "None", dimsText(part.sizes()));
  copyTensor(part, source);
  call.setResult(out);
}
template <Part kPart>
void convertScatter(ConvertCall& call) {
  const Tensor self = call.tensor(0), source = call.tensor(1);
  if (self.numel() == 0 || source.numel() == 0) return convertToKernel(call, kEmpty);
  if (self.dtype() != source.dtype()) return convertToKernel(call, "the part has another dtype");
  const Tensor out = call.makeTensor(self.dtype(), self.sizes()), part = kPart(call, out, 2);
  if (Dims(part.sizes()) != Dims(source.sizes())) return convertToKernel(call, "the part has other sizes");
  const bool isWhole = part.numel() == out.numel() && Dims(source.sizes()) == Dims(self.sizes());
  if (isWhole && isCopiedByUsers(call)) return call.setResult(source);
  addWritePart(call, out, part);
}

}  // namespace

void registerSlicingOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .dtypes = kMovedTypes,
             .traits = traits | TraitSet{Trait::MovesElements}});
  };
  add("aten::select.int", inferSelect, partKernel<selectedPart>, {Trait::NumberIsIndex});
  add("aten::narrow", inferNarrow, narrowKernel);
  add("aten::narrow.Tensor", inferNarrow, narrowByTensorKernel);
  add("aten::narrow_copy", inferNarrow, narrowCopyKernel);
  add("aten::slice.Tensor", inferSlice, partKernel<slicedPart>);
  for (auto name : {"aten::diagonal", "aten::linalg_diagonal"}) add(name, inferDiagonal, partKernel<diagonalPart>);
  add("aten::unfold", inferUnfold, unfoldKernel);
  auto addScatter = [&](std::string_view schema, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = schema,
             .infer = inferSameAsSelf,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMovedTypes,
             .traits = {Trait::OwnStrides}});
  };
  addScatter("aten::select_scatter", scatterKernel<selectedPart>, convertScatter<selectedPart>);
  addScatter("aten::slice_scatter", scatterKernel<slicedPart>, convertScatter<slicedPart>);
  addScatter("aten::diagonal_scatter", scatterKernel<diagonalPart>, convertScatter<diagonalPart>);
}

}  // namespace tscompile
