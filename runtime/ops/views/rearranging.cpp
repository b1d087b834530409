// The same elements in another order, or several times: flip, roll, rot90, repeat, tile, repeat_interleave.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/rearrange_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/join.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/strided_copy.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

#include <cstring>

namespace tscompile {
namespace {

// ---- flip, rot90 ----

// Reads backwards along these dimensions.
Tensor flipped(const Tensor& t, DimSpan dims) {
  Tensor out = emptyLike(t, t.dtype());
  if (t.numel() == 0) return out;
  auto item = static_cast<int64_t>(itemSize(t.dtype()));
  Dims to(out.strides()), from(t.strides());
  for (int d = 0; d < t.rank(); ++d) {
    to[d] = t.size(d) == 1 ? 0 : to[d] * item;
    from[d] = t.size(d) == 1 ? 0 : from[d] * item;
  }
  const std::byte* start = t.raw();
  for (int64_t d : dims) {
    if (t.rank() == 0) continue;
    start += (t.sizes()[d] - 1) * from[d];
    from[d] = -from[d];
  }
  copyStrided(static_cast<size_t>(item), t.sizes(), out.raw(), to, start, from);
  return out;
}

void inferFlip(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.dims(1, t.rank(), false);
  call.result(t);
}
void flipKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.setResult(flipped(t, call.dims(1, t.rank(), false)));
}
// fliplr and flipud.
template <int kDim>
void inferFlipFixed(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (t.hasRank) call.require(t.rank() > kDim, "{}: input must be >= {}-d", call.op().kind().name(), kDim + 1);
  call.result(t);
}
template <int kDim>
void flipFixedKernel(KernelCall& call) {
  call.setResult(flipped(call.tensor(0), Dims{kDim}));
}
template <int kDim>
void convertFlipFixed(ConvertCall& call) {
  call.setResult(0, call.compute("aten::flip", {call.argument(0), intList(Dims{kDim})}));
}

void inferRot90(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  Dims given = call.integers(2);
  call.require(given.size() == 2, "expected total rotation dims == 2, but got dims = {}", given.size());
  call.require(t.rank() >= 2, "expected total dims >= 2, but got total dims = {}", t.rank());
  int64_t from = call.wrap(given[0], t.rank()), to = call.wrap(given[1], t.rank());
  call.require(from != to, "expected rotation dims to be different, but got dim0 = {} and dim1 = {}", given[0],
               given[1]);
  Dims sizes(t.sizes);
  if (floorMod(call.integer(1), 2) == 1) std::swap(sizes[from], sizes[to]);
  call.result(t.dtype, sizes);
}
void convertRot90(ConvertCall& call) {
  const Tensor t = call.tensor(0);
  const Dims dims = call.dims(2, t.rank(), false);
  const int64_t turns = floorMod(call.integer(1), 4);
  if (turns % 2 == 0) {
    const IValue turned =
        turns == 0 ? call.compute("aten::clone", {t}) : call.compute("aten::flip", {t, intList(dims)});
    return call.setResult(0, turned);
  }
  const IValue flipped = call.compute("aten::flip", {t, intList(Dims{dims[turns == 1 ? 1 : 0]})});
  call.setResult(0, call.compute("aten::transpose.int", {flipped, dims[0], dims[1]}));
}

void rot90Kernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims dims = call.dims(2, t.rank(), false);
  switch (floorMod(call.integer(1), 4)) {
    case 1:
      return call.setResult(transposed(flipped(t, Dims{dims[1]}), dims[0], dims[1]));
    case 2:
      return call.setResult(flipped(t, dims));
    case 3:
      return call.setResult(transposed(flipped(t, Dims{dims[0]}), dims[0], dims[1]));
    default: {
      Tensor out = Tensor::empty(t.dtype(), t.sizes());
      copyTensor(out, t);
      return call.setResult(out);
    }
  }
}

// ---- roll ----

// The two parts of a dimension change places.
Tensor rolled(const KernelCall& call, const Tensor& t, int64_t shift, int64_t dim) {
  if (t.numel() == 0) return cloneTensor(t);
  call.require(t.rank() > 0, "Dimension specified as {} but tensor has no dimensions", dim);
  int64_t given = dim;
  call.require(wrapDim(dim, t.rank()), "dimension out of range (expected to be in range of [{}, {}], but got {})",
               -t.rank(), t.rank() - 1, given);
  int64_t size = t.sizes()[dim], start = floorMod(wrapNeg(floorMod(shift, size)), size);
  return joined({t.dtype(), true, t.sizes()}, {narrowed(t, dim, start, size - start), narrowed(t, dim, 0, start)}, dim);
}

void rollKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims shifts = call.integers(1), dims = call.integers(2);
  call.require(!shifts.empty(), "`shifts` required");
  if (dims.empty() && shifts.size() == 1) {
    Tensor flat = reshaped(contiguous(t), Dims{t.numel()});
    return call.setResult(reshaped(rolled(call, flat, shifts[0], 0), t.sizes()));
  }
  call.require(shifts.size() == dims.size(), "shifts and dimensions must align. shifts: {}, dims:{}", shifts.size(),
               dims.size());
  for (size_t i = 0; i < dims.size(); ++i) t = rolled(call, t, shifts[i], dims[i]);
  call.setResult(t);
}

// ---- repeat, tile ----

// The sizes of a tensor with 1s in front, so that there are as many as repeats.
Dims paddedSizes(DimSpan sizes, size_t rank) {
  Dims out(rank - sizes.size(), 1);
  out.append(sizes.begin(), sizes.end());
  return out;
}

[[noreturn]] void failRepeats(const InferCall& call, const Dims& sizes, const Dims& repeats, size_t at) {
  Dims made(sizes);
  for (size_t d = 0; d < made.size(); ++d)
    if (__builtin_mul_overflow(std::max<int64_t>(made[d], 1), repeats[d], &made[d])) made[d] = repeats[d];
  call.fail("trying to create tensor with negative dimension {}: {}", made[at], dimsText(made));
}

void resultRepeated(InferCall& call, const TensorInfo& t, const Dims& repeats) {
  Dims sizes = paddedSizes(t.sizes, repeats.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t times = integerAsSize(repeats[d]), product;
    if (repeats[d] < 0 && !isUnknownInteger(repeats[d])) failRepeats(call, sizes, repeats, d);
    if (isKnownSize(times) && isKnownSize(sizes[d]))
      call.require(!__builtin_mul_overflow(sizes[d], times, &product), "the repeats {} are too many",
                   dimsText(repeats));
    sizes[d] = elementCount(Dims{sizes[d], times}).size();
  }
  call.result(t.dtype, sizes);
}
void inferRepeat(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims repeats = call.sizes(1);
  call.require(repeats.size() >= t->rank(),
               "number of dimensions of repeat dims can not be smaller than number of dimensions of tensor");
  resultRepeated(call, *t, repeats);
}
void inferTile(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims repeats = call.sizes(1);
  while (repeats.size() < t->rank()) repeats.insert(0, 1);
  resultRepeated(call, *t, repeats);
}

// The output seen with a dimension for each repetition in front of the repeated one: one copy fills it.
void repeatKernel(KernelCall& call) {
  Tensor t = call.tensor(0), out = call.out();
  if (out.numel() == 0) return;
  Dims from = paddedSizes(t.sizes(), out.sizes().size()), split, source;
  for (size_t d = 0; d < from.size(); ++d) {
    int64_t times = out.sizes()[d] / from[d];
    if (times > 1) {
      split.push_back(times);
      source.push_back(1);
    }
    split.push_back(from[d]);
    source.push_back(from[d]);
  }
  copyTensor(reshaped(out, split), reshaped(t, source));
}

// ---- repeat_interleave ----

// The sum of repeats that may be the elements of a tensor: the size of the result.
int64_t totalRepeats(const KernelCall& call, const int64_t* repeats, int64_t n, size_t outputSize) {
  int64_t total = 0;
  for (int64_t i = 0; i < n; ++i) {
    call.require(repeats[i] >= 0, "repeats must be non-negative");
    call.require(!__builtin_add_overflow(total, repeats[i], &total) && total <= kMaxElements,
                 "the repeats are too many");
  }
  if (!call.isNone(outputSize))
    call.require(call.integer(outputSize) == total,
                 "the given output size {} does not match the sum of the repeats, {}", call.integer(outputSize), total);
  return total;
}

// Each slice along a dimension as often as `repeats` says.
void interleave(const KernelCall& call, const Tensor& t, const Tensor& out, int64_t dim, const int64_t* repeats) {
  size_t item = itemSize(t.dtype());
  int64_t outer = 1, inner = 1, size = t.sizes()[dim];
  for (int64_t d = 0; d < t.rank(); ++d) (d < dim ? outer : inner) *= d == dim ? 1 : t.sizes()[d];
  size_t bytes = static_cast<size_t>(inner) * item;
  const std::byte* from = t.raw();
  std::byte* to = out.raw();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < size; ++i, from += bytes) {
      for (int64_t k = 0; k < repeats[i]; ++k, to += bytes) std::memcpy(to, from, bytes);
      call.context().checkInterrupt(repeats[i] * inner);
    }
}

// A dimension before each that is repeated, expanded and joined with it.
void convertRepeat(ConvertCall& call) {
  const Tensor t = call.tensor(0);
  const Dims sizes = call.spec().sizes, from = paddedSizes(t.sizes(), sizes.size());
  if (checkedNumel(sizes) == 0) return convertToKernel(call, "nothing is repeated");
  Dims cut, repeated;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != from[d]) {
      cut.push_back(1);
      repeated.push_back(sizes[d] / from[d]);
    }
    cut.push_back(from[d]);
    repeated.push_back(from[d]);
  }
  const IValue apart = call.compute("aten::reshape", {t, intList(cut)});
  const IValue expanded = call.compute("aten::expand", {apart, intList(repeated)});
  // A tensor of its own, where nothing is repeated as well.
  const IValue copied = call.compute("aten::clone", {expanded, int64_t{0}});
  call.setResult(0, call.compute("aten::reshape", {copied, intList(sizes)}));
}

Tensor checkedRepeats(const KernelCall& call, const Tensor& repeats) {
  call.require(repeats.defined() && kIntegerTypes.contains(repeats.dtype()), "repeats has to be a tensor of integers");
  return convertTensor(repeats, DType::Int64);
}

void interleaveIndicesKernel(KernelCall& call) {
  Tensor given = call.tensor(0);
  call.require(given.rank() == 1, "repeat_interleave only accepts a 1D vector as repeat");
  Tensor repeats = checkedRepeats(call, given);
  const auto* counts = repeats.data<int64_t>();
  Tensor out = Tensor::empty(DType::Int64, Dims{totalRepeats(call, counts, repeats.numel(), 1)});
  auto* to = out.data<int64_t>();
  for (int64_t i = 0; i < repeats.numel(); ++i) to = std::fill_n(to, counts[i], i);
  call.setResult(convertTensor(out, given.dtype()));
}

// (self, repeats, dim, output_size): `repeats` has one number for all, or one for each slice.
void interleaveSelf(KernelCall& call, const Tensor& repeats) {
  Tensor t = contiguous(call.tensor(0));
  call.require(t.rank() > 0 || call.isNone(2), "Dimension specified as {} but tensor has no dimensions",
               call.isNone(2) ? 0 : call.integer(2));
  int64_t dim = call.isNone(2) ? 0 : call.dim(2, t.rank());
  if (call.isNone(2)) t = reshaped(t, Dims{t.numel()});
  int64_t size = t.sizes()[dim];
  call.require(repeats.rank() <= 1, "repeats must be 0-dim or 1-dim tensor, not one of {} dimensions", repeats.rank());
  bool same = repeats.rank() == 0 || repeats.numel() == 1;
  call.require(same || repeats.numel() == size, "repeats must have the same size as input along dim: {} and {}",
               repeats.numel(), size);
  // An expanded tensor may be long at no cost.
  Tensor counts = contiguous(same ? expandedTo(reshaped(repeats, Dims{1}), Dims{size}) : repeats);
  Dims sizes(t.sizes());
  sizes[dim] = totalRepeats(call, counts.data<int64_t>(), size, 3);
  Tensor out = Tensor::empty(t.dtype(), sizes);
  if (out.numel()) interleave(call, t, out, dim, counts.data<int64_t>());
  call.setResult(out);
}
void interleaveTensorKernel(KernelCall& call) { interleaveSelf(call, checkedRepeats(call, call.tensor(1))); }
void interleaveIntKernel(KernelCall& call) { interleaveSelf(call, scalarTensor(call.integer(1))); }

void inferInterleaveInt(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  if (!call.constant(1) || !call.constant(2)) return call.resultOfUnknownRank(t.dtype);
  int64_t repeats = call.integer(1);
  call.require(repeats >= 0, "repeats must be non-negative");
  call.require(t.rank() > 0 || call.isNone(2), "Dimension specified as {} but tensor has no dimensions",
               call.isNone(2) ? 0 : call.integer(2));
  const bool isFlat = call.isNone(2);
  const int64_t dim = isFlat ? 0 : call.dim(2, t.rank());
  Dims sizes(t.sizes);
  if (isFlat) sizes = Dims{elementCount(t.sizes).size()};
  sizes[dim] = elementCount(Dims{sizes[dim], repeats}).size();
  if (!call.isNone(3) && call.constant(3) && isKnownSize(sizes[dim]))
    call.require(call.integer(3) == sizes[dim], "repeat_interleave: Invalid output_size, expected {} but got {}",
                 sizes[dim], call.integer(3));
  call.result(t.dtype, sizes);
}

// A new dimension, expanded and joined with the one before it.
void convertInterleaveInt(ConvertCall& call) {
  Tensor t = call.tensor(0);
  if (t.numel() == 0 || call.integer(1) < 1) return convertToKernel(call, "nothing is repeated");
  const bool isFlat = call.isNone(2);
  if (isFlat) t = call.compute("aten::reshape", {t, intList(Dims{-1})}).toTensor();
  const int64_t dim = isFlat ? 0 : call.dim(2, t.rank());
  Dims sizes(t.sizes());
  sizes.insert(static_cast<size_t>(dim + 1), call.integer(1));
  const IValue repeated = call.compute("aten::expand", {call.compute("aten::unsqueeze", {t, dim + 1}), intList(sizes)});
  call.setResult(0, call.compute("aten::reshape", {repeated, intList(call.spec().sizes)}));
}

}  // namespace

void registerRearrangingOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert = nullptr,
                 TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMovedTypes,
             .traits = traits | TraitSet{Trait::MovesElements}});
  };
  add("aten::flip", inferFlip, flipKernel, convertFlip);
  add("aten::fliplr", inferFlipFixed<1>, flipFixedKernel<1>, convertFlipFixed<1>);
  add("aten::flipud", inferFlipFixed<0>, flipFixedKernel<0>, convertFlipFixed<0>);
  add("aten::rot90", inferRot90, rot90Kernel, convertRot90, {Trait::OwnStrides});
  add("aten::roll", inferSameAsSelf, rollKernel, convertRoll);
  add("aten::repeat", inferRepeat, repeatKernel, convertRepeat);
  add("aten::tile", inferTile, repeatKernel, convertRepeat);
  auto addDependent = [&](std::string_view schema, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .kernel = kernel,
             .dtypes = kMovedTypes,
             .traits = traits | TraitSet{Trait::DependsOnElements}});
  };
  addDependent("aten::repeat_interleave.Tensor", interleaveIndicesKernel);
  addDependent("aten::repeat_interleave.self_Tensor", interleaveTensorKernel, {Trait::MovesElements});
  add("aten::repeat_interleave.self_int", inferInterleaveInt, interleaveIntKernel, convertInterleaveInt);
}

}  // namespace tscompile
