// A tensor cut into a list of views: split, chunk, tensor_split, unbind.
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// Expanded tensors are large at no cost, but each piece of them takes memory.
constexpr int64_t kMaxPieces = int64_t{1} << 20;

template <class Call>
void checkCount(const Call& call, int64_t count) {
  if (count > kMaxPieces)
    throw ExecutionError(ErrorKind::Limit, fmt::format("{} would make {} tensors; the limit is {}",
                                                       call.op().kind().name(), count, kMaxPieces));
}

template <class Call>
void requireDims(const Call& call, int64_t rank) {
  const std::string_view name = call.op().kind().name();
  call.require(rank > 0 || name != "unbind", "dimension specified as {} but tensor has no dimensions",
               name == "unbind" ? call.integer(1) : 0);
  call.require(rank > 0, "{} expects at least a 1-dimensional tensor", name);
}

// Results are pieces whose sizes along `dim` are given.
void resultPieces(InferCall& call, const TensorInfo& t, int64_t dim, DimSpan lengths) {
  std::vector<TensorSpec> pieces;
  pieces.reserve(lengths.size());
  for (int64_t length : lengths) {
    pieces.push_back({t.dtype, true, t.sizes});
    pieces.back().sizes[dim] = length;
  }
  call.resultTensors(std::move(pieces));
}

void setPieces(KernelCall& call, const Tensor& t, int64_t dim, DimSpan lengths) {
  std::vector<Tensor> pieces;
  pieces.reserve(lengths.size());
  int64_t start = 0;
  for (int64_t length : lengths) {
    pieces.push_back(narrowed(t, dim, start, length));
    start += length;
    call.context().checkInterrupt();
  }
  call.setResult(tensorList(std::move(pieces)));
}

// ---- by the length of the pieces ----

Dims equalLengths(int64_t size, int64_t step) {
  Dims lengths;
  int64_t at = 0;
  do {
    lengths.push_back(std::min(step, size - at));
    at += lengths.back();
  } while (at < size);
  return lengths;
}

template <class Call>
Dims splitLengths(const Call& call, int64_t size) {
  int64_t step = call.integer(1);
  call.require(step >= 0, "split expects split_size be non-negative, but got split_size={}", step);
  call.require(step > 0 || size == 0, "split_size can only be 0 if dimension size is 0, but got dimension size of {}",
               size);
  if (step > 0) checkCount(call, size / step);
  return equalLengths(size, step);
}

template <class Call>
Dims splitSizes(const Call& call, int64_t size) {
  Dims lengths = call.integers(1);
  __int128 sum = 0;
  for (int64_t length : lengths) {
    call.require(length >= 0,
                 "split_with_sizes expects split_sizes have only non-negative entries, but got split_sizes={}",
                 dimsText(lengths));
    sum += length;
  }
  int64_t dim = call.integer(2);
  if (dim < 0) dim += static_cast<int64_t>(call.tensor(0).rank());
  call.require(
      sum == size,
      "split_with_sizes expects split_sizes to sum exactly to {} (input tensor's size at dimension {}), but got "
      "split_sizes={}",
      size, dim, dimsText(lengths));
  return lengths;
}

template <class Call>
Dims chunkLengths(const Call& call, int64_t size) {
  int64_t chunks = call.integer(1);
  call.require(chunks > 0, "chunk expects `chunks` to be greater than 0, got: {}", chunks);
  if (size == 0) {
    checkCount(call, chunks);
    return Dims(static_cast<size_t>(chunks), 0);
  }
  int64_t step = (size - 1) / chunks + 1;
  checkCount(call, size / step);
  return equalLengths(size, step);
}

// ---- tensor_split: by the number of pieces, or by where they end ----

template <class Call>
Dims sectionLengths(const Call& call, int64_t size, int64_t sections) {
  call.require(sections > 0, "number of sections must be larger than 0, got {}", sections);
  checkCount(call, sections);
  Dims lengths(static_cast<size_t>(sections), size / sections);
  for (int64_t i = 0; i < size % sections; ++i) ++lengths[i];
  return lengths;
}

// The pieces between indices, each as a slice: they may be empty, overlap, or count from the end. Calls
// take(start, length) for each.
template <class Take>
void forEachSlice(int64_t size, DimSpan indices, const Take& take) {
  int64_t start = 0;
  auto place = [size](int64_t i) { return std::clamp<int64_t>(i < 0 ? i + size : i, 0, size); };
  for (size_t i = 0; i <= indices.size(); ++i) {
    int64_t end = i < indices.size() ? indices[i] : size;
    int64_t from = place(start);
    take(from, std::max<int64_t>(0, place(end) - from));
    start = end;
  }
}
void setSlices(KernelCall& call, const Tensor& t, int64_t dim, DimSpan indices) {
  std::vector<Tensor> pieces;
  forEachSlice(t.sizes()[dim], indices,
               [&](int64_t start, int64_t length) { pieces.push_back(narrowed(t, dim, start, length)); });
  call.setResult(tensorList(std::move(pieces)));
}
void resultSlices(InferCall& call, const TensorInfo& t, int64_t dim, DimSpan indices) {
  if (call.isRun()) return call.resultUnknown();
  if (!isKnownSize(t.sizes[dim])) throw InferCall::NotKnown{};
  Dims lengths;
  forEachSlice(t.sizes[dim], indices, [&](int64_t, int64_t length) { lengths.push_back(length); });
  resultPieces(call, t, dim, lengths);
}
void inferTensorSplitIndices(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  requireDims(call, static_cast<int64_t>(t.rank()));
  resultSlices(call, t, call.dim(2, t.rank()), call.integers(1));
}

template <class Call>
Dims givenSections(const Call& call, int64_t size) {
  return sectionLengths(call, size, call.integer(1));
}
void tensorSplitIndicesKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  requireDims(call, t.rank());
  setSlices(call, t, call.dim(2, t.rank()), call.integers(1));
}
void tensorSplitTensorKernel(KernelCall& call) {
  Tensor t = call.tensor(0), where = call.tensor(1);
  requireDims(call, t.rank());
  int64_t dim = call.dim(2, t.rank());
  call.require(where.defined() && where.dtype() == DType::Int64,
               "tensor_split expected tensor_indices_or_sections to have dtype of long");
  call.require(where.rank() < 2,
               "tensor_split expected tensor_indices_or_sections to be a zero-dimensional or one-dimensional "
               "tensor, but got a tensor with {} dims",
               where.rank());
  if (where.rank() == 0) return setPieces(call, t, dim, sectionLengths(call, t.sizes()[dim], where.integer(0)));
  checkCount(call, where.numel());
  Dims indices;
  for (int64_t i = 0; i < where.numel(); ++i) indices.push_back(where.integer(i));
  setSlices(call, t, dim, indices);
}

// hsplit (dimension 1), vsplit (0) and dsplit (2): tensor_split along a fixed dimension, into equal parts only.
template <int kDim, class Call>
int64_t fixedDim(const Call& call, int64_t rank) {
  constexpr int least = kDim == 1 ? 1 : kDim == 0 ? 2 : 3;
  call.require(rank >= least, "{} requires a tensor with at least {} dimension{}, but got a tensor with {}",
               call.op().kind().name(), least, least > 1 ? "s" : "", rank);
  return kDim == 1 && rank == 1 ? 0 : kDim;
}
template <class Call>
Dims equalSections(const Call& call, int64_t dim, int64_t size) {
  int64_t sections = call.integer(1);
  call.require(sections != 0 && size % sections == 0,
               "{} attempted to split along dimension {}, but the size of the dimension {} "
               "is not divisible by the split_size {}",
               call.op().kind().name(), dim, size, sections);
  return sectionLengths(call, size, sections);
}
template <int kDim>
void fixedSectionsKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t dim = fixedDim<kDim>(call, t.rank());
  setPieces(call, t, dim, equalSections(call, dim, t.sizes()[dim]));
}
template <int kDim>
void inferFixedSections(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  int64_t dim = fixedDim<kDim>(call, static_cast<int64_t>(t.rank()));
  if (call.isRun()) return call.resultUnknown();
  if (!isKnownSize(t.sizes[dim])) throw InferCall::NotKnown{};
  resultPieces(call, t, dim, equalSections(call, dim, t.sizes[dim]));
}
template <int kDim>
void fixedIndicesKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  setSlices(call, t, fixedDim<kDim>(call, t.rank()), call.integers(1));
}
template <int kDim>
void inferFixedIndices(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  resultSlices(call, t, fixedDim<kDim>(call, static_cast<int64_t>(t.rank())), call.integers(1));
}

// ---- unbind ----

void inferUnbind(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  requireDims(call, static_cast<int64_t>(t.rank()));
  int64_t dim = call.dim(1, t.rank()), count = t.sizes[dim];
  if (!isKnownSize(count)) throw InferCall::NotKnown{};
  checkCount(call, count);
  Dims sizes(t.sizes);
  sizes.erase(static_cast<size_t>(dim));
  if (call.isRun()) return call.resultUnknown();
  call.resultTensors(std::vector<TensorSpec>(static_cast<size_t>(count), {t.dtype, true, sizes}));
}
void unbindKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t dim = call.dim(1, t.rank());
  std::vector<Tensor> pieces;
  for (int64_t i = 0; i < t.sizes()[dim]; ++i) {
    pieces.push_back(selected(t, dim, i));
    call.context().checkInterrupt();
  }
  call.setResult(tensorList(std::move(pieces)));
}

// ---- shape function and kernel of a way to find the lengths ----

template <auto kLengths>
void inferPieces(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  requireDims(call, static_cast<int64_t>(t.rank()));
  int64_t dim = call.dim(2, t.rank());
  // A run would only throw the list away.
  if (call.isRun()) return call.resultUnknown();
  if (!isKnownSize(t.sizes[dim])) throw InferCall::NotKnown{};
  resultPieces(call, t, dim, kLengths(call, t.sizes[dim]));
}
template <auto kLengths>
void piecesKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  int64_t dim = call.dim(2, t.rank());
  setPieces(call, t, dim, kLengths(call, t.sizes()[dim]));
}

}  // namespace

void registerSplittingOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .dtypes = kMovedTypes,
             .traits = traits | TraitSet{Trait::MovesElements}});
  };
  constexpr TraitSet kUnsafe{Trait::MayShare, Trait::GivesViews};
  constexpr InferFunction kLengths = inferPieces<splitLengths<InferCall>>, kSizes = inferPieces<splitSizes<InferCall>>,
                          kChunks = inferPieces<chunkLengths<InferCall>>;
  add("aten::split.Tensor", kLengths, piecesKernel<splitLengths<KernelCall>>);
  add("aten::unsafe_split.Tensor", kLengths, piecesKernel<splitLengths<KernelCall>>, kUnsafe);
  for (const char* name : {"aten::split", "aten::split.sizes", "aten::split_with_sizes"})
    add(name, kSizes, piecesKernel<splitSizes<KernelCall>>);
  add("aten::unsafe_split_with_sizes", kSizes, piecesKernel<splitSizes<KernelCall>>, kUnsafe);
  add("aten::chunk", kChunks, piecesKernel<chunkLengths<KernelCall>>);
  add("aten::unsafe_chunk", kChunks, piecesKernel<chunkLengths<KernelCall>>, kUnsafe);
  add("aten::unbind.int", inferUnbind, unbindKernel);
  add("aten::tensor_split.sections", inferPieces<givenSections<InferCall>>, piecesKernel<givenSections<KernelCall>>);
  add("aten::tensor_split.indices", inferTensorSplitIndices, tensorSplitIndicesKernel);
  add("aten::tensor_split.tensor_indices_or_sections", nullptr, tensorSplitTensorKernel, {Trait::DependsOnElements});
  add("aten::hsplit.int", inferFixedSections<1>, fixedSectionsKernel<1>);
  add("aten::hsplit.array", inferFixedIndices<1>, fixedIndicesKernel<1>);
  add("aten::vsplit.int", inferFixedSections<0>, fixedSectionsKernel<0>);
  add("aten::vsplit.array", inferFixedIndices<0>, fixedIndicesKernel<0>);
  add("aten::dsplit.int", inferFixedSections<2>, fixedSectionsKernel<2>);
  add("aten::dsplit.array", inferFixedIndices<2>, fixedIndicesKernel<2>);
}

}  // namespace tscompile
