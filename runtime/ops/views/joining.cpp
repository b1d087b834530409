// Tensors put together along a dimension: cat, stack and what is made of them.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/row_layers.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/join.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// The tensors of argument 0, each with sizes that `shape` makes of its own.
template <class Shape>
std::vector<TensorSpec> specsOf(const InferCall& call, Shape&& shape) {
  std::vector<TensorSpec> specs;
  for (const TensorInfo& t : call.tensors(0)) {
    if (!t.hasRank) throw InferCall::NotKnown{};
    specs.push_back({t.dtype, true, shape(Dims(t.sizes))});
  }
  return specs;
}

void resultOf(InferCall& call, const TensorSpec& spec) { call.result(spec.dtype, spec.sizes); }

// ---- cat ----

void inferCat(InferCall& call) {
  int64_t dim = call.integer(1);
  resultOf(call, joinedSpec(call, specsOf(call, [](Dims sizes) { return sizes; }), dim));
}
void catKernel(KernelCall& call) {
  int64_t dim = call.integer(1);  // which inference has checked
  call.setResult(
      joined(call.spec(), call.tensors(0), dim < 0 ? dim + static_cast<int64_t>(call.spec().sizes.size()) : dim));
}

// Tensors of several dtypes are converted first.
void convertJoin(ConvertCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  const DType dtype = call.spec().dtype;
  auto isOther = [&](const Tensor& t) { return t.dtype() != dtype; };
  if (std::none_of(tensors.begin(), tensors.end(), isOther)) return convertCat(call);
  for (Tensor& t : tensors)
    if (isOther(t)) t = call.compute("aten::to.dtype", {t, static_cast<int64_t>(dtype)}).toTensor();
  call.setResult(0, call.compute("aten::cat", {tensorList(std::move(tensors)), call.argument(1)}));
}

// ---- _chunk_cat: (tensors, dim, num_chunks), each cut into chunks along `dim`, whose elements are joined ----

int64_t chunkDim(const InferCall& call, const std::vector<TensorSpec>& specs) {
  const size_t rank = specs[0].sizes.size();
  if (std::all_of(specs.begin(), specs.end(), [&](const TensorSpec& s) { return s.sizes.size() == rank; }))
    return call.wrap(call.integer(1), rank);
  call.require(call.integer(1) >= 0, "_chunk_cat expects non-negative dim when input tensors have different ndims");
  return call.integer(1);
}
void inferChunkCat(InferCall& call) {
  const int64_t chunks = call.integer(2);
  call.require(chunks >= 1, "_chunk_cat expects positive num_chunks");
  const std::vector<TensorSpec> specs = specsOf(call, [](Dims sizes) { return sizes; });
  call.require(!specs.empty(), "_chunk_cat expects a non-empty input tensor list");
  for (const TensorSpec& s : specs) {
    call.require(knownNumel(s.sizes) != 0, "_chunk_cat expects non-empty tensor");
    call.require(s.dtype == specs[0].dtype || s.dtype == DType::Undefined || specs[0].dtype == DType::Undefined,
                 "_chunk_cat expects all input tensors with the same dtype");
  }
  const auto dim = static_cast<size_t>(chunkDim(call, specs));
  Dims sizes(DimSpan(specs[0].sizes).first(std::min(dim, specs[0].sizes.size())));
  int64_t length = 0;
  for (const TensorSpec& s : specs) {
    call.require(dim < s.sizes.size(), "_chunk_cat expects dim < ndim for all input tensors");
    for (size_t d = 0; d < dim; ++d)
      call.require(!differ(s.sizes[d], sizes[d]),
                   "_chunk_cat expects same sizes of 0,...,dim-1 dimensions for all tensors");
    const std::optional<int64_t> behind = knownNumel(DimSpan(s.sizes).subspan(dim + 1));
    const bool isKnown = length >= 0 && behind && isKnownSize(s.sizes[dim]);
    length = isKnown ? length + (s.sizes[dim] + chunks - 1) / chunks * *behind : kUnknownSize;
  }
  sizes.push_back(chunks);
  sizes.push_back(length);
  call.result(specs[0].dtype, sizes);
}

// What is missing to whole chunks is zero.
void chunkCatKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  const auto dim = call.spec().sizes.size() - 2;
  const int64_t chunks = call.integer(2);
  for (Tensor& t : tensors) {
    Dims padded(t.sizes());
    padded[dim] = (padded[dim] + chunks - 1) / chunks * chunks;
    if (padded != Dims(t.sizes())) {
      const Tensor whole = Tensor::zeros(t.dtype(), padded);
      copyTensor(narrowed(whole, static_cast<int64_t>(dim), 0, t.size(static_cast<int>(dim))), t);
      t = whole;
    }
    Dims rows(DimSpan(padded).first(dim));
    rows.push_back(chunks);
    rows.push_back(t.numel() / *knownNumel(rows));
    t = reshaped(t, rows);
  }
  call.setResult(joined(call.spec(), tensors, static_cast<int64_t>(dim) + 1));
}

// ---- stack ----

void inferStack(InferCall& call) {
  std::vector<TensorSpec> specs = specsOf(call, [](Dims sizes) { return sizes; });
  call.require(!specs.empty(), "stack expects a non-empty TensorList");
  Dims sizes = specs[0].sizes;
  DType dtype = specs[0].dtype;
  for (size_t i = 1; i < specs.size(); ++i) {
    const Dims& other = specs[i].sizes;
    bool same = sizes.size() == other.size();
    for (size_t d = 0; same && d < sizes.size(); ++d)
      same = sizes[d] == other[d] || !isKnownSize(sizes[d]) || !isKnownSize(other[d]);
    call.require(same, "stack expects each tensor to be equal size, but got {} at entry 0 and {} at entry {}",
                 dimsText(sizes), dimsText(other), i);
    if (dtype == DType::Undefined || specs[i].dtype == DType::Undefined) throw InferCall::NotKnown{};
    dtype = promoteTypes(dtype, specs[i].dtype);
  }
  sizes.insert(static_cast<size_t>(call.dim(1, sizes.size() + 1)), static_cast<int64_t>(specs.size()));
  call.result(dtype, sizes);
}

// As PyTorch does it, so that the strides are its own: joined along `dim` and cut there, or along a new last dimension.
void stackKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  TensorSpec spec = call.spec();
  int64_t dim = call.dim(1, static_cast<int>(spec.sizes.size()));
  if (dim == tensors[0].rank()) {
    for (Tensor& t : tensors) t = unsqueezed(t, dim);
    return call.setResult(joined(spec, tensors, dim));
  }
  spec.sizes[dim] = multiplySizes(spec.sizes[dim], spec.sizes[dim + 1]);
  spec.sizes.erase(static_cast<size_t>(dim) + 1);
  call.setResult(reshaped(joined(spec, tensors, dim), call.spec().sizes));
}

// ---- hstack, vstack, dstack, column_stack: at least so many dimensions, then cat ----

enum class Side { Horizontal, Vertical, Depth, Columns };

// The sizes of a tensor of `sizes` before it is joined.
template <Side kSide>
Dims raisedSizes(Dims sizes) {
  if constexpr (kSide == Side::Columns) {
    if (sizes.size() < 2) return {sizes.empty() ? 1 : sizes[0], 1};
    return sizes;
  }
  if (sizes.empty()) sizes.push_back(1);
  if (kSide != Side::Horizontal && sizes.size() == 1) sizes.insert(0, 1);
  if (kSide == Side::Depth && sizes.size() == 2) sizes.push_back(1);
  return sizes;
}
template <Side kSide>
int64_t sideDim(size_t rank) {
  if constexpr (kSide == Side::Vertical) return 0;
  if constexpr (kSide == Side::Depth) return 2;
  return rank == 1 ? 0 : 1;
}

template <Side kSide>
void inferSide(InferCall& call) {
  std::vector<TensorSpec> specs = specsOf(call, raisedSizes<kSide>);
  int64_t dim = specs.empty() ? 0 : sideDim<kSide>(specs[0].sizes.size());
  resultOf(call, joinedSpec(call, specs, dim));
}
template <Side kSide>
void sideKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  for (Tensor& t : tensors)
    if (t.rank() < 3) t = reshaped(t, raisedSizes<kSide>(t.sizes()));
  call.setResult(joined(call.spec(), tensors, sideDim<kSide>(tensors[0].sizes().size())));
}

template <Side kSide>
void convertSide(ConvertCall& call) {
  std::vector<Tensor> raised = call.tensors(0);
  for (Tensor& t : raised)
    if (t.rank() < 3) t = call.compute("aten::reshape", {t, intList(raisedSizes<kSide>(t.sizes()))}).toTensor();
  const int64_t dim = sideDim<kSide>(raised[0].sizes().size());
  call.setResult(0, call.compute("aten::cat", {tensorList(std::move(raised)), dim}));
}

// ---- block_diag ----

void inferBlockDiag(InferCall& call) {
  std::vector<TensorSpec> specs = specsOf(call, [&](Dims sizes) {
    call.require(sizes.size() <= 2, "block_diag: input tensors must have 2 or fewer dimensions, not {}", sizes.size());
    while (sizes.size() < 2) sizes.insert(0, 1);
    return sizes;
  });
  ResultType type;
  for (const TensorInfo& t : call.tensors(0)) type.add(t);
  Dims sizes{specs.empty() ? 1 : 0, 0};
  for (const TensorSpec& t : specs)
    for (int d = 0; d < 2; ++d)
      sizes[d] = (SizeExpression::ofSize(sizes[d]) + SizeExpression::ofSize(t.sizes[d])).size();
  call.result(specs.empty() ? DType::Float32 : type.get(), sizes);
}
// Each matrix between zeros, one below the other.
void convertBlockDiag(ConvertCall& call) {
  const Dims sizes = call.spec().sizes;
  if (checkedNumel(sizes).value_or(0) == 0) return convertToKernel(call, "there are no elements");
  std::vector<Tensor> rows;
  int64_t before = 0;
  for (const Tensor& t : call.tensors(0)) {
    const int64_t height = t.rank() == 2 ? t.size(0) : 1, width = t.rank() ? t.size(t.rank() - 1) : 1;
    const IValue matrix = call.compute(
        "aten::to.dtype",
        {call.compute("aten::reshape", {t, intList(Dims{height, width})}), static_cast<int64_t>(call.spec().dtype)});
    const IValue margins = intList(Dims{before, sizes[1] - before - width});
    rows.push_back(call.compute("aten::constant_pad_nd", {matrix, margins}).toTensor());
    before += width;
  }
  call.setResult(0, call.compute("aten::cat", {tensorList(std::move(rows)), 0}));
}
void blockDiagKernel(KernelCall& call) {
  Tensor out = Tensor::zeros(call.spec().dtype, call.spec().sizes);
  int64_t row = 0, column = 0;
  for (Tensor t : call.tensors(0)) {
    while (t.rank() < 2) t = unsqueezed(t, 0);
    copyTensor(narrowed(narrowed(out, 0, row, t.size(0)), 1, column, t.size(1)), t);
    row += t.size(0);
    column += t.size(1);
  }
  call.setResult(out);
}

// ---- sequences of different lengths, tensors as one run ----

void inferPadSequence(InferCall& call) {
  std::vector<TensorInfo> tensors = call.tensors(0);
  call.require(!tensors.empty(), "pad_sequence: received an empty list of sequences");
  bool batchFirst = call.flag(1);
  int64_t longest = 0, count = static_cast<int64_t>(tensors.size());
  for (const TensorInfo& t : tensors) {
    if (!t.hasRank) return call.resultOfUnknownRank(tensors[0].dtype);
    call.require(t.rank() > 0, "pad_sequence: expected tensors with at least one dimension");
    longest = greatest(SizeExpression::ofSize(longest), SizeExpression::ofSize(t.sizes[0])).size();
  }
  Dims sizes{batchFirst ? count : longest, batchFirst ? longest : count};
  for (int64_t s : tensors[0].sizes.subspan(1)) sizes.push_back(s);
  call.result(tensors[0].dtype, sizes);
}
void padSequenceKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  call.require(!tensors.empty(), "pad_sequence: received an empty list of sequences");
  bool batchFirst = call.flag(1);
  int64_t longest = 0, count = static_cast<int64_t>(tensors.size());
  for (const Tensor& t : tensors) {
    call.require(t.defined() && t.rank() > 0, "pad_sequence: expected tensors with at least one dimension");
    longest = std::max(longest, t.size(0));
  }
  // PyTorch 2 can fill up on the left.
  bool left = call.size() > 3 && call.text(3) == "left";
  call.require(left || call.size() < 4 || call.text(3) == "right", "padding_side should be either 'right' or 'left'");
  Dims sizes{batchFirst ? count : longest, batchFirst ? longest : count};
  for (int64_t s : tensors[0].sizes().subspan(1)) sizes.push_back(s);
  Tensor out = Tensor::empty(tensors[0].dtype(), sizes);
  fillTensor(out, call.argument(2));
  for (int64_t i = 0; i < count; ++i) {
    const Tensor& t = tensors[static_cast<size_t>(i)];
    Tensor part = narrowed(selected(out, batchFirst ? 0 : 1, i), 0, left ? longest - t.size(0) : 0, t.size(0));
    call.require(Dims(part.sizes()) == Dims(t.sizes()),
                 "pad_sequence: the sizes {} and {} differ after the first dimension", dimsText(tensors[0].sizes()),
                 dimsText(t.sizes()));
    copyTensor(part, t);
  }
  call.setResult(out);
}

void convertPadSequence(ConvertCall& call) {
  const std::vector<Tensor> tensors = call.tensors(0);
  const bool batchFirst = call.flag(1), left = call.size() > 3 && call.text(3) == "left";
  const Dims sizes = call.spec().sizes;
  if (checkedNumel(sizes).value_or(0) == 0 || (call.size() > 3 && !left && call.text(3) != "right"))
    return convertToKernel(call, "there are no elements, or a side that is not known");
  const int64_t longest = sizes[batchFirst ? 1 : 0];
  std::vector<Tensor> padded;
  for (const Tensor& t : tensors) {
    if (t.dtype() != tensors[0].dtype() || t.numel() == 0)
      return convertToKernel(call, "the dtypes differ, or a sequence is empty");
    Dims margins(static_cast<size_t>(t.rank()) * 2, 0);
    margins[margins.size() - (left ? 2 : 1)] = longest - t.size(0);
    padded.push_back(call.compute("aten::constant_pad_nd", {t, intList(margins), call.argument(2)}).toTensor());
  }
  call.setResult(0, call.compute("aten::stack", {tensorList(std::move(padded)), batchFirst ? 0 : 1}));
}

void inferFlattenDense(InferCall& call) {
  std::vector<TensorSpec> specs = specsOf(call, [](Dims sizes) { return Dims{elementCount(sizes).size()}; });
  int64_t dim = 0;
  resultOf(call, joinedSpec(call, specs, dim));
}
void flattenDenseKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  for (Tensor& t : tensors) t = reshaped(contiguous(t), Dims{t.numel()});
  call.setResult(tensors.size() == 1 ? tensors[0] : joined(call.spec(), tensors, 0));
}
void inferUnflattenDense(InferCall& call) {
  std::vector<TensorSpec> specs;
  for (const TensorInfo& t : call.tensors(1)) {
    if (!t.hasRank || !allKnown(t.sizes)) throw InferCall::NotKnown{};
    specs.push_back({call.tensor(0).dtype, true, t.sizes});
    if (checkedNumel(t.sizes) == 0) specs.back().sizes = Dims{0};
  }
  call.resultTensors(std::move(specs));
}
void unflattenDenseKernel(KernelCall& call) {
  Tensor flat = call.tensor(0);
  call.require(flat.rank() == 1, "unflatten_dense_tensors: expected a 1-dimensional tensor, not one of {}",
               flat.rank());
  std::vector<Tensor> tensors = call.tensors(1);
  int64_t start = 0;
  for (Tensor& t : tensors) {
    call.require(t.defined() && t.numel() <= flat.numel() - start, "unflatten_dense_tensors: {} elements are too few",
                 flat.numel());
    int64_t numel = t.numel();
    t = numel ? reshaped(narrowed(flat, 0, start, numel), t.sizes()) : Tensor::empty(flat.dtype(), Dims{0});
    start += numel;
  }
  call.setResult(tensorList(std::move(tensors)));
}

}  // namespace

void registerJoiningOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr,
                 TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMovedTypes,
             .traits = traits});
  };
  for (const char* name : {"aten::cat", "aten::concat", "aten::concatenate"})
    add(name, inferCat, catKernel, convertJoin, {Trait::RoundsOnce});
  for (const char* name : {"aten::stack", "aten::_stack"})
    add(name, inferStack, stackKernel, convertStack, {Trait::RoundsOnce});
  add("aten::hstack", inferSide<Side::Horizontal>, sideKernel<Side::Horizontal>, convertSide<Side::Horizontal>);
  add("aten::vstack", inferSide<Side::Vertical>, sideKernel<Side::Vertical>, convertSide<Side::Vertical>);
  add("aten::row_stack", inferSide<Side::Vertical>, sideKernel<Side::Vertical>, convertSide<Side::Vertical>);
  add("aten::dstack", inferSide<Side::Depth>, sideKernel<Side::Depth>, convertSide<Side::Depth>);
  add("aten::column_stack", inferSide<Side::Columns>, sideKernel<Side::Columns>, convertSide<Side::Columns>);
  add("aten::block_diag", inferBlockDiag, blockDiagKernel, convertBlockDiag);
  add("aten::pad_sequence", inferPadSequence, padSequenceKernel, convertPadSequence);
  add("aten::pad_sequence.side(Tensor[] sequences, bool batch_first=False, float padding_value=0., "
      "str padding_side=\"right\") -> Tensor",
      inferPadSequence, padSequenceKernel, convertPadSequence);
  add("aten::_chunk_cat", inferChunkCat, chunkCatKernel, nullptr);
  add("aten::flatten_dense_tensors", inferFlattenDense, flattenDenseKernel, nullptr, {Trait::MayShare});
  add("aten::unflatten_dense_tensors", inferUnflattenDense, unflattenDenseKernel, nullptr, {Trait::MayShare});
}

}  // namespace tscompile
