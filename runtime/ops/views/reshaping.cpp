// The same elements seen with other sizes: view, reshape, flatten, expand.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/views/in_format.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- sizes of which one may be left open ----

// The sizes that were asked for, with the one that is -1 worked out. `wanted` are integers, which may be unknown during
// analysis; so may be the sizes of the tensor.
Dims completed(const InferCall& call, Dims have, const Dims& wanted) {
  std::optional<size_t> open;
  Dims sizes, rest;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t s = integerAsSize(wanted[i]);
    sizes.push_back(s);
    if (wanted[i] == -1) {
      if (open) call.fail("only one dimension can be inferred");
      open = i;
      continue;
    }
    if (!isUnknownInteger(wanted[i]) && wanted[i] < 0)
      call.fail("invalid shape dimension {} at index {} of shape {}", wanted[i], i, dimsText(wanted));
    // A symbol on both sides cancels out.
    int64_t* same = s < kUnknownSize ? std::find(have.begin(), have.end(), s) : have.end();
    if (same != have.end())
      have.erase(static_cast<size_t>(same - have.begin()));
    else
      rest.push_back(s);
  }
  if (!allKnown(have) || !allKnown(rest)) {
    // With -1 in the text the others are not 0, or the view fails.
    if (open) sizes[*open] = floorDiv(elementCount(have), elementCount(rest)).size();
    return sizes;
  }
  std::optional<int64_t> numel = checkedNumel(have), product = checkedNumel(rest);
  bool fits = numel && product && (*numel == *product || (open && *product > 0 && *numel % *product == 0));
  if (!fits) call.fail("shape '{}' is invalid for input of size {}", dimsText(wanted), numel.value_or(-1));
  if (!open) return sizes;
  if (*product == 0)
    call.fail(
        "cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can be any "
        "value and is ambiguous",
        dimsText(wanted));
  sizes[*open] = *numel / *product;
  return sizes;
}

void resultViewed(InferCall& call, const TensorInfo& t, const Dims& wanted) {
  if (t.hasRank) return call.result(t.dtype, completed(call, t.sizes, wanted));
  Dims sizes;
  for (int64_t w : wanted) sizes.push_back(w == -1 ? kUnknownSize : integerAsSize(w));
  call.result(t.dtype, sizes);
}

Dims asIntegers(DimSpan sizes) {
  Dims out;
  for (int64_t s : sizes) out.push_back(sizeAsInteger(s));
  return out;
}

void inferView(InferCall& call) { resultViewed(call, call.tensor(0), call.sizes(1)); }

void inferViewAs(InferCall& call) {
  TensorInfo t = call.tensor(0), other = call.rankedTensor(1);
  resultViewed(call, t, asIntegers(other.sizes));
}

Tensor viewed(const KernelCall& call, const Tensor& t, DimSpan sizes) {
  std::optional<Dims> strides = viewStrides(t, sizes);
  if (!strides) call.fail("{}", kNoSuchView);
  return t.withGeometry(sizes, *strides, t.offset());
}

void viewKernel(KernelCall& call) { call.setResult(viewed(call, call.tensor(0), call.spec().sizes)); }
void reshapeKernel(KernelCall& call) { call.setResult(reshaped(call.tensor(0), call.spec().sizes)); }

// `aten::_reshape_from_tensor`: the sizes are the elements of a tensor.
void reshapeFromTensorKernel(KernelCall& call) {
  Tensor shape = call.tensor(1);
  call.require(shape.rank() == 1 && shape.dtype() == DType::Int64,
               "expected a 1-dimensional int64 tensor as the shape");
  call.require(shape.numel() <= kMaxRank, "expected at most {} sizes, not {}", kMaxRank, shape.numel());
  Dims sizes;
  for (int64_t i = 0; i < shape.numel(); ++i) sizes.push_back(shape.integer(i));
  call.setResult(invoke(call, "aten::reshape", {call.argument(0), intList(sizes)}));
}

// ---- flatten, unflatten, ravel ----

int64_t product(DimSpan sizes) { return elementCount(sizes).size(); }

void inferFlatten(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  int64_t start = call.dim(1, t->rank()), end = call.dim(2, t->rank());
  call.require(start <= end, "flatten() has invalid args: start_dim cannot come after end_dim");
  if (t->rank() == 0) return call.result(t->dtype, Dims{1});
  Dims sizes(t->sizes.subspan(0, start));
  sizes.push_back(product(t->sizes.subspan(start, end - start + 1)));
  for (int64_t s : t->sizes.subspan(end + 1)) sizes.push_back(s);
  call.result(t->dtype, sizes);
}

void flattenKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  bool same = t.rank() > 0 && call.dim(1, t.rank()) == call.dim(2, t.rank());
  call.setResult(same ? t : reshaped(t, call.spec().sizes));
}

void inferUnflatten(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  call.require(t->rank() > 0, "unflatten: the tensor has no dimensions");
  int64_t dim = call.dim(1, t->rank());
  Dims cut = call.sizes(2);
  call.require(!cut.empty(), "unflatten: sizes must be non-empty");
  const Dims given = cut;
  try {
    cut = completed(call, Dims{t->sizes[dim]}, cut);
  } catch (const ExecutionError&) {
    call.fail("unflatten: Provided sizes {} don't multiply up to the size of dim {} ({}) in the input tensor",
              dimsText(given), dim, t->sizes[dim]);
  }
  Dims sizes(t->sizes.subspan(0, dim));
  sizes.append(cut.begin(), cut.end());
  for (int64_t s : t->sizes.subspan(dim + 1)) sizes.push_back(s);
  call.result(t->dtype, sizes);
}

void inferRavel(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t.dtype, Dims{t.hasRank ? product(t.sizes) : kUnknownSize});
}
void ravelKernel(KernelCall& call) {
  Tensor t = contiguous(call.tensor(0));
  call.setResult(viewed(call, t, call.spec().sizes));
}

// ---- expand ----

// The class of such tensors in old PyTorch, which had none for later dtypes.
std::string legacyName(DType dtype) {
  const bool isLate = dtype == DType::Bool || dtype == DType::BFloat16 || isComplex(dtype);
  return fmt::format(fmt::runtime(isLate ? "CPU{}Type" : "torch.{}Tensor"), graphName(dtype));
}

// The sizes of a tensor broadcast to others, of which -1 leaves a size as it is. `wanted` are integers.
Dims expandedSizes(const InferCall& call, DType dtype, DimSpan have, const Dims& wanted) {
  if (wanted.size() < have.size())
    call.fail(
        "expand({}{{{}}}, size={}): the number of sizes provided ({}) must be greater or equal to the number of "
        "dimensions in the tensor ({})",
        legacyName(dtype), dimsText(have), dimsText(wanted), wanted.size(), have.size());
  size_t skip = wanted.size() - have.size();
  Dims out;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t size = i < skip ? 1 : have[i - skip], want = integerAsSize(wanted[i]);
    if (wanted[i] == -1) {
      if (i < skip)
        call.fail("the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {}", i);
      want = size;
    } else if (isUnknownInteger(wanted[i])) {
      // A known size above 1 stays what it is.
      if (size != 1 && isKnownSize(size)) want = size;
    } else if (wanted[i] < 0) {
      call.fail("the expanded size of the tensor ({}) must not be negative", wanted[i]);
    } else if (isKnownSize(size) && size != 1 && size != want) {
      call.fail(
          "the expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}.  "
          "Target sizes: {}.  Tensor sizes: {}",
          want, size, i, dimsText(wanted), dimsText(have));
    }
    out.push_back(want);
  }
  return out;
}

void resultExpanded(InferCall& call, const TensorInfo& t, const Dims& wanted) {
  if (!t.hasRank) return resultViewed(call, t, wanted);
  call.result(t.dtype, expandedSizes(call, t.dtype, t.sizes, wanted));
}
void inferExpand(InferCall& call) { resultExpanded(call, call.tensor(0), call.sizes(1)); }
void inferExpandAs(InferCall& call) { resultExpanded(call, call.tensor(0), asIntegers(call.rankedTensor(1).sizes)); }
void expandKernel(KernelCall& call) { call.setResult(expandedTo(call.tensor(0), call.spec().sizes)); }

void inferBroadcastTensors(InferCall& call) {
  std::vector<TensorInfo> tensors = call.tensors(0);
  Dims sizes;
  for (const TensorInfo& t : tensors) {
    if (!t.hasRank) throw InferCall::NotKnown{};
    if (!broadcastInto(sizes, t.sizes)) refuseBroadcast(sizes, t.sizes);
  }
  std::vector<TensorSpec> specs;
  for (const TensorInfo& t : tensors) specs.push_back({t.dtype, true, sizes});
  call.resultTensors(std::move(specs));
}
void broadcastTensorsKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  Dims sizes;
  for (const Tensor& t : tensors) broadcastInto(sizes, t.sizes());
  for (Tensor& t : tensors)
    if (Dims(t.sizes()) != sizes) t = expandedTo(t, sizes);  // else it is the tensor itself
  call.setResult(tensorList(std::move(tensors)));
}

// PyTorch's at::sum_to: sums over what was broadcast.
void inferSumToSize(InferCall& call) {
  TensorInfo t = call.tensor(0);
  Dims sizes = call.sizes(1);
  const bool summed = sizes.empty() || !t.hasRank || sizes.size() != t.rank() ||
                      !std::equal(sizes.begin(), sizes.end(), t.sizes.begin());
  if (summed && !call.isRun() && !(t.hasRank && allKnown(t.sizes) && allKnown(sizes))) return call.resultUnknown();
  call.result(summed && isIntegral(t.dtype, true) ? DType::Int64 : t.dtype, sizes);
}
void sumToSizeKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims sizes = call.integers(1), fits(t.sizes());
  bool expandable =
      sizes.size() <= fits.size() && allKnown(sizes) && broadcastInto(fits, sizes) && fits == Dims(t.sizes());
  call.require(expandable, "size {} is not expandable to size {}", dimsText(sizes), dimsText(t.sizes()));
  if (sizes.empty()) return call.setResult(invoke(call, "aten::sum", {t, IValue()}));
  size_t leading = fits.size() - sizes.size();
  Dims summed;
  for (size_t d = 0; d < fits.size(); ++d)
    if (d < leading || (sizes[d - leading] == 1 && fits[d] != 1)) summed.push_back(static_cast<int64_t>(d));
  if (!summed.empty()) t = invokeTensor(call, "aten::sum.dim_IntList", {t, intList(summed), true, IValue()});
  call.setResult(leading ? viewed(call, t, sizes) : t);
}

// ---- the tensor itself ----

void aliasKernel(KernelCall& call) { call.setResult(aliased(call.tensor(0))); }
void selfKernel(KernelCall& call) { call.setResult(call.argument(0)); }

// What lowering puts behind the functional form of an in-place operator where it cannot prove that both agree: the
// result must have the sizes of the tensor that was to be written, and a dtype that can become its dtype.
void inferCheckInPlace(InferCall& call) {
  TensorInfo result = call.tensor(0), self = call.tensor(1);
  if (result.hasRank && self.hasRank) {
    bool fits = result.rank() == self.rank();
    for (size_t d = 0; fits && d < self.rank(); ++d) fits = !differ(result.sizes[d], self.sizes[d]);
    call.require(fits, "output with shape {} doesn't match the broadcast shape {}", dimsText(self.sizes),
                 dimsText(result.sizes));
  }
  bool known = result.dtype != DType::Undefined && self.dtype != DType::Undefined;
  call.require(!known || canCast(result.dtype, self.dtype),
               "result type {} can't be cast to the desired output type {}", graphName(result.dtype),
               graphName(self.dtype));
  if (result.hasRank || !self.hasRank)
    call.result(result);
  else
    call.result(self, result.dtype);
}

// The functional form of an in-place operator may lie otherwise than the tensor that was to be written, which a later
// view would tell.
void stridedLikeKernel(KernelCall& call) {
  Tensor t = call.tensor(0), other = call.tensor(1);
  call.require(std::ranges::equal(t.sizes(), other.sizes()), "expected sizes {} but got {}", dimsText(other.sizes()),
               dimsText(t.sizes()));
  const Dims strides = preservedStrides(other);
  if (std::ranges::equal(strides, t.strides())) return call.setResult(aliased(t));
  Tensor out = Tensor::emptyStrided(t.dtype(), t.sizes(), strides);
  copyTensor(out, t);
  call.setResult(out);
}
void convertStridedLike(ConvertCall& call) { call.setResult(call.argument(0)); }

void contiguousKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  MemoryFormat format = formatArgument(call, 1, MemoryFormat::Contiguous);
  if (isContiguousIn(t, format)) return call.setResult(t);
  call.require(format != MemoryFormat::Preserve, "preserve memory format is unsupported by the contiguous operator");
  Tensor out = emptyLike(t, t.dtype(), format);
  copyTensor(out, t);
  call.setResult(out);
}

}  // namespace

void registerReshapingOps(OpRegistry& ops) {
  constexpr TraitSet kMoves{Trait::MovesElements};
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kMovedTypes, .traits = traits | kMoves});
  };
  auto addCopying = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convertCopy,
             .dtypes = kMovedTypes,
             .traits = traits | kMoves});
  };
  constexpr TraitSet kLikeOther{Trait::GivesViews, Trait::LendsSecondForm},
      kMaySelf{Trait::MayShare, Trait::GivesViews}, kStrides{Trait::MindsStrides}, kSame{Trait::KeepsElements};
  add("aten::view", inferView, viewKernel, kStrides);
  add("aten::_unsafe_view", inferView, viewKernel, kMaySelf | kStrides);
  add("aten::view_as", inferViewAs, viewKernel, kLikeOther | kStrides);
  addCopying("aten::reshape", inferView, reshapeKernel);
  addCopying("aten::reshape_as", inferViewAs, reshapeKernel, kLikeOther);
  add("aten::_reshape_from_tensor", nullptr, reshapeFromTensorKernel, {Trait::MayShare, Trait::DependsOnElements});
  addCopying("aten::flatten.using_ints", inferFlatten, flattenKernel);
  add("aten::unflatten.int", inferUnflatten, viewKernel, kStrides);
  addCopying("aten::ravel", inferRavel, ravelKernel);
  add("aten::expand", inferExpand, expandKernel);
  add("aten::expand_as", inferExpandAs, expandKernel, kLikeOther);
  add("aten::broadcast_to", inferExpand, expandKernel);
  ops.add({.schema = "aten::broadcast_tensors",
           .infer = inferBroadcastTensors,
           .kernel = broadcastTensorsKernel,
           .dtypes = kMovedTypes,
           .traits = kMaySelf});
  ops.add({.schema = "aten::sum_to_size",
           .infer = inferSumToSize,
           .kernel = sumToSizeKernel,
           .dtypes = kAllTypes,
           .traits = {Trait::MayShare}});
  addCopying("aten::contiguous", inferInFormat<1>, contiguousKernel, kSame);
  add("aten::detach", inferSameAsSelf, aliasKernel, kSame);
  add("aten::alias", inferSameAsSelf, aliasKernel, kSame);
  add("aten::detach_", inferSameAsSelf, selfKernel, {Trait::SideEffects});  // on gradients
  add("aten::lift", inferSameAsSelf, selfKernel, kMaySelf | kSame);
  add("aten::lift_fresh", inferSameAsSelf, selfKernel, kSame);
  add("tscompile::check_in_place(Tensor(a) result, Tensor self) -> Tensor(a)", inferCheckInPlace, aliasKernel,
      {Trait::GivesViews});
  ops.add({.schema = "tscompile::strided_like(Tensor(a) self, Tensor other) -> Tensor(a)",
           .infer = inferSameAsSelf,
           .kernel = stridedLikeKernel,
           .convert = convertStridedLike,
           .dtypes = kMovedTypes,
           .traits = {Trait::GivesViews, Trait::OwnStrides}});
}

}  // namespace tscompile
