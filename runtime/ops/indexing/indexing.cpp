// Indexing with lists of tensors: index, index_put.
#include "runtime/reference/indexing.h"

#include "runtime/engine/layers/indexing_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/loop.h"
#include "runtime/reference/nonzero.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

bool isMask(DType dtype) { return dtype == DType::Bool || dtype == DType::UInt8; }

// ---- shapes ----

// The dimensions of a tensor of `rank` dimensions that `indexed` has true for, seen as one block: where it stands in
// the result. Indices that are not neighbours come first.
int blockPosition(const SmallVector<bool, 6>& indexed) {
  int first = -1, last = -1, count = 0;
  for (int d = 0; d < static_cast<int>(indexed.size()); ++d) {
    if (!indexed[static_cast<size_t>(d)]) continue;
    if (first < 0) first = d;
    last = d;
    ++count;
  }
  return count == 0 || last - first + 1 != count ? 0 : first;
}

Dims indexedSizes(DimSpan self, const SmallVector<bool, 6>& indexed, const Dims& block) {
  Dims rest, out;
  for (size_t d = 0; d < self.size(); ++d)
    if (!indexed[d]) rest.push_back(self[d]);
  size_t position = static_cast<size_t>(blockPosition(indexed));
  for (size_t d = 0; d < position; ++d) out.push_back(rest[d]);
  for (int64_t s : block) out.push_back(s);
  for (size_t d = position; d < rest.size(); ++d) out.push_back(rest[d]);
  return out;
}

// What indexing gives, with unknown sizes where a mask decides; nothing if a rank is not known.
std::optional<Dims> resultSizes(const InferCall& call, size_t at = 1) {
  TensorInfo self = call.tensor(0);
  std::vector<std::optional<TensorInfo>> indices = call.optionalTensors(at);
  if (!self.hasRank) return std::nullopt;
  call.require(indices.size() <= self.rank(), "too many indices for tensor of dimension {} (got {})", self.rank(),
               indices.size());
  // A mask without dimensions selects nothing by itself; PyTorch leaves it out beside others and has no answer alone.
  bool selects = indices.empty();
  for (const std::optional<TensorInfo>& index : indices)
    selects |= !index || !isMask(index->dtype) || !index->hasRank || index->rank() > 0;
  call.require(selects, "a mask without dimensions needs another index beside it");
  SmallVector<bool, 6> indexed(self.rank(), false);
  Dims block;
  size_t dim = 0;
  for (const std::optional<TensorInfo>& index : indices) {
    if (!index) {
      ++dim;
      continue;
    }
    bool known = index->dtype != DType::Undefined, mask = isMask(index->dtype);
    call.require(!known || mask || index->dtype == DType::Int64 || index->dtype == DType::Int32,
                 "tensors used as indices must be long, int, byte or bool tensors");
    if (!known || !index->hasRank) return std::nullopt;
    size_t taken = mask ? index->rank() : 1;
    for (size_t d = 0; d < taken && dim + d < self.rank(); ++d) indexed[dim + d] = true;
    Dims counts{kUnknownSize};
    bool fits = mask && taken == 0 ? true : broadcastInto(block, mask ? DimSpan(counts) : index->sizes);
    call.require(fits, "shape mismatch: indexing tensors could not be broadcast together with shapes {}, {}",
                 dimsText(block), dimsText(index->sizes));
    dim += taken;
  }
  call.require(dim <= self.rank(), "too many indices for tensor of dimension {} (got {})", self.rank(), dim);
  return indexedSizes(self.sizes, indexed, block);
}

void inferIndex(InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  if (std::optional<Dims> sizes = resultSizes(call))
    call.result(dtype, *sizes);
  else
    call.resultOfUnknownRank(dtype);
}

// Whether one value is put where a mask without dimensions is true: everywhere or nowhere.
bool isFilledWhere(const InferCall& call) {
  std::vector<std::optional<TensorInfo>> indices = call.optionalTensors(1);
  TensorInfo values = call.tensor(2);
  bool isOne = std::all_of(values.sizes.begin(), values.sizes.end(), [](int64_t s) { return s == 1; });
  return indices.size() == 1 && indices[0] && isMask(indices[0]->dtype) && indices[0]->rank() == 0 && isOne &&
         !call.flag(3) && call.tensor(0).rank() > 0;
}

// Whether one value is put where one mask is true, or may be: PyTorch's masked_fill, which takes any dtype.
bool isFilled(const InferCall& call) {
  TensorInfo values = call.tensor(2);
  size_t masks = 0;
  for (const std::optional<TensorInfo>& index : call.optionalTensors(1)) {
    if (!index) continue;
    if (!isMask(index->dtype) && index->dtype != DType::Undefined) return false;
    ++masks;
  }
  bool isOne = !values.hasRank || std::all_of(values.sizes.begin(), values.sizes.end(),
                                              [](int64_t s) { return s == 1 || !isKnownSize(s); });
  return masks == 1 && isOne && !call.flag(3);
}

// Whether values of these sizes fit places, as far as both are known.
bool isRepeatedTo(const Dims& places, const Dims& values) {
  if (values.size() > places.size()) return false;
  for (size_t i = 1; i <= values.size(); ++i) {
    const int64_t to = places[places.size() - i], from = values[values.size() - i];
    if (isKnownSize(to) && isKnownSize(from) && from != to && from != 1) return false;
  }
  return true;
}

void inferIndexPut(InferCall& call) {
  TensorInfo self = call.tensor(0), values = call.tensor(2);
  call.require(
      self.dtype == values.dtype || isFilled(call) || self.dtype == DType::Undefined ||
          values.dtype == DType::Undefined,
      "index put requires the source and destination dtypes match, got {} for the destination and {} for the source.",
      graphName(self.dtype), graphName(values.dtype));
  if (!isFilledWhere(call))
    if (const std::optional<Dims> places = resultSizes(call); places && values.hasRank)
      call.require(isRepeatedTo(*places, values.sizes),
                   "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
                   dimsText(values.sizes), dimsText(*places));
  call.result(self);
}

// ---- places ----

// The blocks of a tensor that a list of indices means.
struct Selection {
  Tensor self;  // with the indexed dimensions next to each other
  int first, count;
  Tensor offsets;               // int64: of the blocks, in bytes
  Dims sizes;                   // of the result
  std::vector<Tensor> indices;  // as they are broadcast to one shape
};

// Indices as int64 tensors, one for each indexed dimension; masks become the positions of their true elements.
std::vector<Tensor> positions(const KernelCall& call, const Tensor& self, const std::vector<Tensor>& indices) {
  std::vector<Tensor> out;
  for (const Tensor& index : indices) {
    if (!index.defined() || !isMask(index.dtype())) {
      out.push_back(index.defined() && index.dtype() == DType::Int32 ? convertTensor(index, DType::Int64) : index);
      continue;
    }
    for (int d = 0; d < index.rank(); ++d) {
      size_t at = out.size() + static_cast<size_t>(d);
      call.require(at < self.sizes().size() && index.size(d) == self.sizes()[at],
                   "the shape of the mask {} at index {} does not match the shape of the indexed tensor {} at index {}",
                   dimsText(index.sizes()), d, dimsText(self.sizes()), at);
    }
    Tensor coordinates = nonzeroOf(index);
    for (int d = 0; d < index.rank(); ++d) out.push_back(selected(coordinates, 1, d));
  }
  return out;
}

Selection select(const KernelCall& call, const Tensor& self) {
  std::vector<Tensor> indices = positions(call, self, call.tensors(1));
  SmallVector<bool, 6> indexed(self.sizes().size(), false);
  Dims block;
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    indexed[d] = true;
    call.require(broadcastInto(block, indices[d].sizes()),
                 "shape mismatch: indexing tensors could not be broadcast together with shapes {}, {}", dimsText(block),
                 dimsText(indices[d].sizes()));
  }
  Selection s{
      self, blockPosition(indexed), 0, Tensor::zeros(DType::Int64, block), indexedSizes(self.sizes(), indexed, block),
      {}};
  Dims order;
  for (int pass = 0; pass < 2; ++pass)
    for (size_t d = 0; d < indexed.size(); ++d) {
      bool isFirst = indexed[d] || static_cast<int>(d) < s.first;
      if (isFirst == (pass == 0)) order.push_back(static_cast<int64_t>(d));
    }
  s.self = self.permuted(order);

  auto item = static_cast<int64_t>(itemSize(self.dtype()));
  const bool isEmpty = std::find(s.sizes.begin(), s.sizes.end(), 0) != s.sizes.end();
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!indices[d].defined()) continue;
    ++s.count;
    s.indices.push_back(expandedTo(indices[d], block));
    Tensor index = contiguous(s.indices.back());
    const int64_t* from = index.data<int64_t>();
    int64_t* to = s.offsets.data<int64_t>();
    int64_t size = self.sizes()[d], stride = self.strides()[d] * item;
    call.require(size > 0 || index.numel() == 0, "index is out of bounds for dimension with size 0");
    if (isEmpty) continue;  // no element is asked for
    for (int64_t i = 0; i < index.numel(); ++i)
      to[i] += checkedIndex(from[i], size, static_cast<int64_t>(d), true) * stride;
  }
  return s;
}

std::span<const int64_t> offsetsOf(const Selection& s) {
  return {s.offsets.data<int64_t>(), static_cast<size_t>(s.offsets.numel())};
}

// ---- kernels ----

// PyTorch's result lies as that of an operator on each element of the tensor, which repeats along the dimensions of the
// indices, and of the indices, which repeat along the others.
Dims indexedStrides(const Selection& s) {
  const auto first = static_cast<size_t>(s.first), count = static_cast<size_t>(s.count);
  const DimSpan own = s.self.strides(), block = s.offsets.sizes();
  auto around = [&](Dims before, DimSpan inside, DimSpan after) {
    for (DimSpan part : {inside, after})
      for (int64_t n : part) before.push_back(n);
    return before;
  };
  const DimSpan after = own.subspan(first + count);
  std::vector<Tensor> operands{
      s.self.withGeometry(s.sizes, around(Dims(own.subspan(0, first)), Dims(block.size(), 0), after), s.self.offset())};
  for (const Tensor& index : s.indices)
    operands.push_back(index.withGeometry(around(Dims(first, 1), index.sizes(), Dims(after.size(), 1)),
                                          around(Dims(first, 0), index.strides(), Dims(after.size(), 0)),
                                          index.offset()));
  std::vector<const Tensor*> pointers;
  for (const Tensor& t : operands) pointers.push_back(&t);
  return elementwiseStrides(s.sizes, pointers);
}

void indexKernel(KernelCall& call) {
  Selection s = select(call, call.tensor(0));
  Tensor out = Tensor::empty(s.self.dtype(), s.sizes);
  gatherBlocks(IndexedView(s.self, s.first, s.count), offsetsOf(s), out);
  const Dims strides = indexedStrides(s);
  if (strides == Dims(out.strides())) return call.setResult(out);
  const Tensor laid = Tensor::emptyStrided(s.self.dtype(), s.sizes, strides);
  copyTensor(laid, out);
  call.setResult(laid);
}

void indexPutKernel(KernelCall& call) {
  Tensor self = updatedSelf(call, Repeats::Written), values = sourceFor(call, self, call.tensor(2));
  if (values.dtype() != self.dtype()) values = elementOf(numberOf(values), self.dtype());
  for (const Tensor& index : call.tensors(1))
    if (index.defined()) sourceFor(call, self, index);
  const Tensor mask = call.tensors(1).size() == 1 ? call.tensors(1)[0] : Tensor();
  if (mask.defined() && isMask(mask.dtype()) && mask.rank() == 0) {
    if (mask.integer(0)) copyTensor(self, reshaped(values, Dims{}));
    return;
  }
  Selection s = select(call, self);
  Dims sizes = s.sizes;
  call.require(values.sizes().size() <= sizes.size() && broadcastInto(sizes, values.sizes()) && sizes == s.sizes,
               "shape mismatch: value tensor of shape {} cannot be broadcast to indexing result of shape {}",
               dimsText(values.sizes()), dimsText(s.sizes));
  if (values.numel() != 1) values = expandedTo(values, s.sizes);
  updateBlocks(IndexedView(s.self, s.first, s.count), offsetsOf(s), contiguous(values),
               call.flag(3) ? Update::Add : Update::Assign);
}

// ---- (self, mask, indices, fill or values): elements where the mask is true, at places that are brought into range
// ----

void requirePlaces(const InferCall& call) {
  for (const std::optional<TensorInfo>& index : call.optionalTensors(2))
    call.require(
        !index || index->dtype == DType::Int64 || index->dtype == DType::Int32 || index->dtype == DType::Undefined,
        "_unsafe_masked_index found unexpected index type {}", index ? graphName(index->dtype) : "");
}
void inferMaskedIndex(InferCall& call) {
  requirePlaces(call);
  const TensorInfo self = call.tensor(0), mask = call.tensor(1);
  std::optional<Dims> sizes = resultSizes(call, 2);
  if (!sizes || !mask.hasRank) return call.resultOfUnknownRank(self.dtype);
  const Dims before = *sizes;
  if (!broadcastInto(*sizes, mask.sizes)) refuseBroadcast(before, mask.sizes);
  call.result(self.dtype, *sizes);
}
void inferMaskedPut(InferCall& call) {
  requirePlaces(call);
  call.result(call.tensor(0));
}

// Indices within the dimensions of `self`, by operators that `compute` runs, or adds to an engine.
template <class Compute>
IValue placesWithin(const Tensor& self, const std::vector<Tensor>& indices, const Compute& compute) {
  std::vector<IValue> places(indices.size());
  for (size_t d = 0; d < indices.size(); ++d)
    if (const int64_t size = self.size(static_cast<int>(d)); indices[d].defined())
      places[d] = compute("aten::clamp", {indices[d], -size, size - 1});
  return Ref<ListValue>::make(optionalType(types().tensor), std::move(places));
}
template <class Compute>
IValue maskedIndex(const Tensor& self, const Tensor& mask, const std::vector<Tensor>& indices, const IValue& fill,
                   const Compute& compute) {
  const IValue found = compute("aten::index.Tensor", {self, placesWithin(self, indices, compute)});
  return compute("aten::masked_fill.Scalar", {found, compute("aten::logical_not", {mask}), fill});
}

void maskedIndexKernel(KernelCall& call) {
  const auto compute = [&](const char* op, std::initializer_list<IValue> arguments) {
    return invoke(call, op, arguments);
  };
  const Tensor self = call.tensor(0);
  if (self.numel() == 0) {
    fillTensor(call.out(), call.argument(3));
    return;
  }
  call.setResult(maskedIndex(self, call.tensor(1), call.tensors(2), call.argument(3), compute));
}
void convertMaskedIndex(ConvertCall& call) {
  const auto compute = [&](const char* op, std::vector<IValue> arguments) {
    return call.compute(op, std::move(arguments));
  };
  const Tensor self = call.tensor(0);
  if (self.numel() == 0) return convertToKernel(call, "it has no elements");
  call.setResult(0, maskedIndex(self, call.tensor(1), call.tensors(2), call.argument(3), compute));
}
void maskedPutKernel(KernelCall& call) {
  const auto compute = [&](const char* op, std::initializer_list<IValue> arguments) {
    return invoke(call, op, arguments);
  };
  const Tensor self = call.tensor(0);
  if (self.numel() == 0) return call.setResult(compute("aten::clone", {self, IValue()}));
  const IValue values =
      compute("aten::masked_fill.Scalar", {call.tensor(3), compute("aten::logical_not", {call.tensor(1)}), 0});
  call.setResult(compute("aten::index_put", {self, placesWithin(self, call.tensors(2), compute), values, true}));
}

}  // namespace

void registerIndexingOps(OpRegistry& ops) {
  for (auto schema : {"aten::index.Tensor", "aten::index.Tensor_hacked_twin"})
    ops.add({.schema = schema,
             .infer = inferIndex,
             .kernel = indexKernel,
             .convert = convertIndex,
             .dtypes = kMovedTypes,
             .traits = {Trait::MovesElements}});
  for (auto schema : {"aten::index_put", "aten::index_put.hacked_twin", "aten::_index_put_impl"})
    ops.add({.schema = schema,
             .infer = inferIndexPut,
             .kernel = indexPutKernel,
             .convert = convertIndexPut,
             .dtypes = kAllTypes,
             .inplace = InPlace::Direct});
  ops.add({.schema = "aten::_unsafe_masked_index",
           .infer = inferMaskedIndex,
           .kernel = maskedIndexKernel,
           .convert = convertMaskedIndex,
           .dtypes = kAllTypes});
  ops.add({.schema = "aten::_unsafe_masked_index_put_accumulate",
           .infer = inferMaskedPut,
           .kernel = maskedPutKernel,
           .dtypes = kAllTypes});
}

}  // namespace tscompile
