// Indexing one dimension with a vector: index_select, index_fill, index_copy, index_add, index_reduce.
#include "ir/support/text.h"
#include "runtime/engine/layers/indexing_layer.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/indexing.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

std::string_view nameOf(const InferCall& call) { return call.op().kind().name(); }

[[noreturn]] void failIndex(const InferCall& call, const TensorInfo& index) {
  std::string_view name = call.op().kind().name();
  if (name == "index_select") call.fail("index_select(): Index is supposed to be a vector");
  if (name == "index_fill" || name == "index_fill_") call.fail("index has to be a vector/scalar");
  if (name.ends_with('_')) name.remove_suffix(1);
  if (name == "index_copy") call.fail("index_copy_(): Index should have dimension 1 or 0 (got {})", index.rank());
  call.fail("{}_(): Index is supposed to be a vector, but got dim: {} with type: {} and size: {}", name, index.rank(),
            graphName(index.dtype), dimsText(index.sizes));
}

// Checks the index at position 2 and returns how many there are.
int64_t indexCount(const InferCall& call, bool allowInt32) {
  TensorInfo index = call.tensor(2);
  bool fits =
      index.dtype == DType::Int64 || (allowInt32 && index.dtype == DType::Int32) || index.dtype == DType::Undefined;
  // It is index_fill_ of a copy.
  if (!fits && nameOf(call).starts_with("index_fill")) call.fail("index_fill_(): Expected dtype int64 for index.");
  call.require(fits, "{}(): expected dtype {} for index", nameOf(call), allowInt32 ? "int32 or int64" : "int64");
  if (!index.hasRank) return kUnknownSize;
  if (index.rank() > 1) failIndex(call, index);
  return index.rank() ? index.sizes[0] : 1;
}

// Byte offsets of the indices along `dim`.
Tensor indexOffsets(const KernelCall& call, const Tensor& self, int64_t dim, bool allowNegative) {
  Tensor index = convertTensor(call.tensor(2), DType::Int64), out = Tensor::empty(DType::Int64, Dims{index.numel()});
  int64_t size = self.rank() ? self.size(static_cast<int>(dim)) : 1;
  int64_t stride = self.rank() ? self.stride(static_cast<int>(dim)) * static_cast<int64_t>(itemSize(self.dtype())) : 0;
  for (int64_t i = 0; i < index.numel(); ++i)
    out.data<int64_t>()[i] = checkedIndex(index.data<int64_t>()[i], size, dim, allowNegative) * stride;
  return out;
}
// Whether there is nothing to write, so that no index is looked at: another dimension than this one is empty.
bool isEmptyBeside(const Tensor& t, int64_t dim) {
  for (int d = 0; d < t.rank(); ++d)
    if (d != dim && t.size(d) == 0) return true;
  return false;
}
IndexedView indexedAlong(const Tensor& t, int64_t dim) {
  return IndexedView(t, static_cast<int>(dim), t.rank() ? 1 : 0);
}

// ---- index_select ----

void inferIndexSelect(InferCall& call) {
  TensorInfo self = call.rankedTensor(0);
  int64_t dim = call.dim(1, self.rank()), count = indexCount(call, true);
  Dims sizes(self.sizes);
  if (self.rank())
    sizes[static_cast<size_t>(dim)] = count;
  else
    call.require(count == 1 || !isKnownSize(count),
                 "index_select(): Index to scalar can have only 1 value, got {} value(s)", count);
  call.result(self.dtype, sizes);
}

void indexSelectKernel(KernelCall& call) {
  Tensor self = call.tensor(0), out = call.out();
  int64_t dim = call.dim(1, self.rank());
  Tensor offsets = indexOffsets(call, self, dim, false);
  if (self.rank() == 0) return copyTensor(out, self);
  gatherBlocks(indexedAlong(self, dim), asSpan(offsets), out);
}

// ---- index_fill ----

void inferIndexFill(InferCall& call) {
  TensorInfo self = call.tensor(0);
  if (self.hasRank) call.dim(1, self.rank());
  indexCount(call, false);
  if (call.isTensor(3)) {
    TensorInfo value = call.tensor(3);
    call.require(!value.hasRank || value.rank() == 0,
                 "index_fill: the value must be a tensor without dimensions, not one with {}", value.rank());
  }
  const bool isComplexValue = isComplex(call.isTensor(3) ? call.tensor(3).dtype : call.scalarType(3));
  call.require(!isComplexValue || self.dtype == DType::Undefined || isComplex(self.dtype),
               "index_fill_(): Converting complex Scalar to non-complex type is not supported");
  call.result(self);
}

void indexFillKernel(KernelCall& call) {
  Tensor self = updatedSelf(call, Repeats::Written);
  int64_t dim = call.dim(1, self.rank());
  const IValue& value = call.argument(3);
  Tensor element = elementOf(value.isTensor() ? numberOf(call.tensor(3)) : value, self.dtype());
  if (isEmptyBeside(self, dim)) return;
  Tensor offsets = indexOffsets(call, self, dim, true);
  updateBlocks(indexedAlong(self, dim), asSpan(offsets), element, Update::Assign);
}

// ---- index_copy, index_add, index_reduce ----

void checkSource(const InferCall& call, bool allowInt32) {
  TensorInfo self = call.tensor(0), source = call.tensor(3);
  int64_t count = indexCount(call, allowInt32);
  call.require(self.dtype == source.dtype || self.dtype == DType::Undefined || source.dtype == DType::Undefined,
               "{}(): self ({}) and source ({}) must have the same scalar type", nameOf(call), graphName(self.dtype),
               graphName(source.dtype));
  if (!self.hasRank) return;
  int64_t dim = call.dim(1, self.rank());
  if (!source.hasRank) return;
  call.require(dim == 0 || dim < static_cast<int64_t>(source.rank()), "{}: dimension {} is out of bounds of the source",
               nameOf(call), dim);
  int64_t along = source.rank() ? source.sizes[static_cast<size_t>(dim)] : 1;
  call.require(!differ(count, along),
               "{}(): number of indices ({}) should be equal to source.size(dim): ({}), for dim: {}", nameOf(call),
               count, along, dim);
}

std::string spaced(const Dims& sizes) {
  return join(sizes, " ", [](int64_t s) { return std::to_string(s); });
}

bool mayBeSame(const Dims& a, const Dims& b) {
  bool same = a.size() == b.size();
  for (size_t d = 0; same && d < a.size(); ++d) same = !differ(a[d], b[d]);
  return same;
}

void inferIndexAdd(InferCall& call) {
  checkSource(call, true);
  const TensorInfo self = call.tensor(0), source = call.tensor(3);
  if (self.hasRank && source.hasRank) {
    Dims a(self.sizes), b(source.sizes);
    const auto dim = static_cast<size_t>(call.dim(1, self.rank()));
    if (!a.empty() && !b.empty()) a.erase(dim), b.erase(dim);
    call.require(
        mayBeSame(a, b),
        "source tensor shape must match self tensor shape, excluding the specified dimension. Got self.shape = "
        "{} source.shape = {}",
        dimsText(self.sizes), dimsText(source.sizes));
  }
  call.result(call.tensor(0));
}

void inferIndexCopy(InferCall& call) {
  checkSource(call, false);
  TensorInfo self = call.tensor(0), source = call.tensor(3);
  if (self.hasRank && source.hasRank) {
    Dims a(self.sizes), b(source.sizes);
    auto dim = static_cast<size_t>(call.dim(1, self.rank()));
    if (!a.empty()) a.erase(dim);
    if (!b.empty()) b.erase(dim);
    call.require(mayBeSame(a, b),
                 "index_copy_(): Source/destination tensor must have same slice shapes. Destination slice shape: {} at "
                 "dimension {} and source slice shape: {} at dimension {}.",
                 spaced(a), dim, spaced(b), dim);
  }
  call.result(self);
}

// The source with the sizes of `self`, except along `dim`: there it has those of the index.
Tensor fullSource(const KernelCall& call, const Tensor& self, int64_t dim, Tensor source) {
  Dims sizes(self.sizes());
  if (sizes.empty()) return contiguous(source);
  sizes[static_cast<size_t>(dim)] = call.tensor(2).numel();
  Dims broadcast = sizes;
  call.require(source.rank() <= self.rank() && broadcastInto(broadcast, source.sizes()) && broadcast == sizes,
               "the source of size {} cannot be broadcast to {}", dimsText(source.sizes()), dimsText(sizes));
  return contiguous(expandedTo(source, sizes));
}

void indexCopyKernel(KernelCall& call) {
  Tensor self = updatedRows(call), source = sourceFor(call, self, call.tensor(3));
  int64_t dim = call.dim(1, self.rank());
  if (isEmptyBeside(self, dim)) return;
  Tensor offsets = indexOffsets(call, self, dim, false);
  updateBlocks(indexedAlong(self, dim), asSpan(offsets), fullSource(call, self, dim, source), Update::Assign);
}

// source * alpha, in the source's dtype.
Tensor scaled(const Tensor& source, const IValue& alpha) {
  if (alpha.isInt() && alpha.toInt() == 1) return source;
  Tensor out = Tensor::empty(source.dtype(), source.sizes());
  mapTensors<kNumbers>(
      source.dtype(), [](auto a, auto b) { return times(a, b); }, out, source, elementOf(alpha, source.dtype()));
  return out;
}

void indexAddKernel(KernelCall& call) {
  Tensor self = updatedRows(call), source = sourceFor(call, self, call.tensor(3));
  int64_t dim = call.dim(1, self.rank());
  if (self.rank() > 1 && self.numel() == 0) return;  // unlike its relatives
  auto add = [&](const Tensor& to, const Tensor& from) {
    Tensor offsets = indexOffsets(call, to, dim, false);
    updateBlocks(indexedAlong(to, dim), asSpan(offsets), from, Update::Add);
  };
  Tensor added = fullSource(call, self, dim, scaled(source, call.argument(4)));
  // PyTorch rounds each sum of a vector, and of what is multiplied.
  const IValue& alpha = call.argument(4);
  const bool isWide = self.rank() > 1 && !alpha.isComplex() && alpha.toDouble() == 1;
  isWide ? joinWide(self, added, add) : add(self, added);
}

void indexReduceKernel(KernelCall& call) {
  JoinRule rule(call, call.text(4), false);
  Tensor self = updatedRows(call), source = sourceFor(call, self, call.tensor(3));
  int64_t dim = call.dim(1, self.rank());
  if (call.tensor(2).numel() == 0) return;
  rule.run(self, fullSource(call, self, dim, source), call.flag(5),
           [&](const Tensor& to, const Tensor& from, Update how) {
             Tensor offsets = indexOffsets(call, to, dim, false);
             updateBlocks(indexedAlong(to, dim), asSpan(offsets), contiguous(from), how);
           });
}

// The same places in all other dimensions.
void convertIndexReduce(ConvertCall& call) {
  const Tensor x = call.tensor(0), index = call.tensor(2), source = call.tensor(3);
  if (x.dtype() != DType::Float32 || index.dtype() != DType::Int64 || x.rank() == 0 || source.rank() != x.rank())
    return convertToKernel(call, "the elements are not float32, or a tensor has no dimensions");
  if (x.numel() == 0 || source.numel() == 0) return convertToKernel(call, "a tensor has no elements");
  const int64_t dim = call.dim(1, x.rank());
  Dims along(static_cast<size_t>(x.rank()), 1);
  along[static_cast<size_t>(dim)] = index.numel();
  const IValue places =
      call.compute("aten::expand", {call.compute("aten::reshape", {index, intList(along)}), intList(source.sizes())});
  call.setResult(0, call.compute("aten::scatter_reduce.two", {x, dim, places, source, call.text(4), call.flag(5)}));
}

}  // namespace

void registerIndexDimensionOps(OpRegistry& ops) {
  ops.add({.schema = "aten::index_select",
           .infer = inferIndexSelect,
           .kernel = indexSelectKernel,
           .convert = convertIndexSelect,
           .dtypes = kMovedTypes,
           .traits = {Trait::MovesElements}});
  for (auto schema : {"aten::index_fill.int_Scalar", "aten::index_fill.int_Tensor"})
    ops.add({.schema = schema,
             .infer = inferIndexFill,
             .kernel = indexFillKernel,
             .convert = convertIndexFill,
             .dtypes = kAllTypes,
             .inplace = InPlace::Direct});
  ops.add({.schema = "aten::index_copy",
           .infer = inferIndexCopy,
           .kernel = indexCopyKernel,
           .convert = convertIndexCopy,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::SetsStrides}});
  ops.add({.schema = "aten::index_add",
           .infer = inferIndexAdd,
           .kernel = indexAddKernel,
           .convert = convertIndexAdd,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::SetsStrides}});
  ops.add({.schema = "aten::index_reduce",
           .infer = inferIndexAdd,
           .kernel = indexReduceKernel,
           .convert = convertIndexReduce,
           .dtypes = kRealTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::SetsStrides}});
}

}  // namespace tscompile
