// The same elements seen with other sizes: view, reshape, flatten, expand.
#include "runtime/ops/ops.h"
#include "runtime/reference/call_op.h"
#include "runtime/reference/copy.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- sizes of which one may be left open ----

// The sizes that were asked for, with the one that is -1 worked out.
Dims completed(const InferCall& call, int64_t numel, Dims wanted) {
  std::optional<size_t> open;
  Dims given;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= 0) {
      given.push_back(wanted[i]);
      continue;
    }
    if (wanted[i] != -1) call.fail("invalid shape dimension {}", wanted[i]);
    if (open) call.fail("only one dimension can be inferred, not two in shape {}", dimsText(wanted));
    open = i;
  }
  std::optional<int64_t> product = checkedNumel(given);
  bool fits = product && (numel == *product || (open && *product > 0 && numel % *product == 0));
  if (!fits) call.fail("shape '{}' is invalid for input of size {}", dimsText(wanted), numel);
  if (!open) return wanted;
  if (*product == 0)
    call.fail("cannot reshape tensor of 0 elements into shape {} because the unspecified dimension size -1 can be any "
              "value and is ambiguous", dimsText(wanted));
  wanted[*open] = numel / *product;
  return wanted;
}

// The same where some sizes are not known. An entry of -1 is to be worked out, or is a size that is not known: if it is
// the only one, both come to the same.
Dims completedSymbolic(Dims have, Dims wanted) {
  Dims rest = wanted;
  // A symbol on both sides cancels out.
  for (size_t i = rest.size(); i-- > 0;) {
    auto same = std::find(have.begin(), have.end(), rest[i]);
    if (rest[i] >= kUnknownSize || same == have.end()) continue;
    have.erase(static_cast<size_t>(same - have.begin()));
    rest.erase(i);
  }
  Dims known;
  for (int64_t s : rest)
    if (isKnownSize(s)) known.push_back(s);
  std::optional<int64_t> numel = knownNumel(have), product = knownNumel(known);
  bool oneIsOpen = known.size() + 1 == rest.size() && std::count(rest.begin(), rest.end(), kUnknownSize) == 1;
  if (!oneIsOpen || !numel || !product || *product == 0 || *numel % *product != 0) return wanted;
  *std::find(wanted.begin(), wanted.end(), kUnknownSize) = *numel / *product;
  return wanted;
}

void resultViewed(InferCall& call, const TensorInfo& t, Dims wanted, bool isLiteral) {
  std::optional<int64_t> numel = t.hasRank ? knownNumel(t.sizes) : std::nullopt;
  if (numel && isLiteral)
    call.result(t.dtype, completed(call, *numel, std::move(wanted)));
  else if (t.hasRank)
    call.result(t.dtype, completedSymbolic(t.sizes, std::move(wanted)));
  else
    call.result(t.dtype, wanted);
}

void inferView(InferCall& call) { resultViewed(call, call.tensor(0), call.sizes(1), call.constant(1)); }

void inferViewAs(InferCall& call) {
  TensorInfo t = call.tensor(0), other = call.rankedTensor(1);
  resultViewed(call, t, other.sizes, allKnown(other.sizes));
}

Tensor viewed(const KernelCall& call, const Tensor& t, DimSpan sizes) {
  std::optional<Dims> strides = viewStrides(t, sizes);
  if (!strides)
    call.fail("view size is not compatible with input tensor's size and stride (at least one dimension spans across two "
              "contiguous subspaces). Use .reshape(...) instead: {} with strides {} seen as {}",
              dimsText(t.sizes()), dimsText(t.strides()), dimsText(sizes));
  return t.withGeometry(sizes, *strides, t.offset());
}

void viewKernel(KernelCall& call) { call.setResult(viewed(call, call.tensor(0), call.spec().sizes)); }
void reshapeKernel(KernelCall& call) { call.setResult(reshaped(call.tensor(0), call.spec().sizes)); }

// `aten::_reshape_from_tensor`: the sizes are the elements of a tensor.
void reshapeFromTensorKernel(KernelCall& call) {
  Tensor shape = call.tensor(1);
  call.require(shape.rank() == 1 && shape.dtype() == DType::Int64, "expected a 1-dimensional int64 tensor as the shape");
  call.require(shape.numel() <= kMaxRank, "expected at most {} sizes, not {}", kMaxRank, shape.numel());
  Dims sizes;
  for (int64_t i = 0; i < shape.numel(); ++i) sizes.push_back(shape.integer(i));
  call.setResult(invoke(call, "aten::reshape", {call.argument(0), intList(sizes)}));
}

// ---- flatten, unflatten, ravel ----

int64_t product(DimSpan sizes) {
  int64_t n = 1;
  for (int64_t s : sizes) n = multiplySizes(n, s);
  return n;
}

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
  if (call.constant(2) && isKnownSize(t->sizes[dim]))
    cut = completed(call, t->sizes[dim], std::move(cut));
  else
    cut = completedSymbolic(Dims{t->sizes[dim]}, std::move(cut));
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

// The sizes of a tensor broadcast to others, of which -1 leaves a size as it is.
Dims expandedSizes(const InferCall& call, DimSpan have, Dims wanted, bool isLiteral) {
  if (wanted.size() < have.size())
    call.fail("expand: the number of sizes provided ({}) must be greater or equal to the number of dimensions in the "
              "tensor ({})", wanted.size(), have.size());
  size_t skip = wanted.size() - have.size();
  Dims out = wanted;
  for (size_t i = 0; i < wanted.size(); ++i) {
    int64_t size = i < skip ? 1 : have[i - skip];
    if (out[i] == kUnknownSize && isLiteral) {
      if (i < skip) call.fail("the expanded size of the tensor (-1) isn't allowed in a leading, non-existing dimension {}", i);
      out[i] = size;
    } else if (!isKnownSize(out[i])) {
      if (isLiteral) call.fail("the expanded size of the tensor ({}) must not be negative", out[i]);
      // A size that is not known and one that is left as it is look alike.
      if (size != 1) out[i] = size;
    } else if (isKnownSize(size) && size != 1 && size != out[i]) {
      call.fail("the expanded size of the tensor ({}) must match the existing size ({}) at non-singleton dimension {}. "
                "Target sizes: {}. Tensor sizes: {}", wanted[i], size, i, dimsText(wanted), dimsText(have));
    }
  }
  return out;
}

void inferExpand(InferCall& call) {
  TensorInfo t = call.tensor(0);
  Dims wanted = call.sizes(1);
  if (!t.hasRank) return call.result(t.dtype, wanted);
  call.result(t.dtype, expandedSizes(call, t.sizes, std::move(wanted), call.constant(1)));
}
void inferExpandAs(InferCall& call) {
  TensorInfo t = call.tensor(0), other = call.rankedTensor(1);
  if (!t.hasRank) return call.result(t.dtype, other.sizes);
  call.result(t.dtype, expandedSizes(call, t.sizes, other.sizes, false));
}
void expandKernel(KernelCall& call) { call.setResult(expandedTo(call.tensor(0), call.spec().sizes)); }

void inferBroadcastTensors(InferCall& call) {
  std::vector<TensorInfo> tensors = call.tensors(0);
  Dims sizes;
  for (const TensorInfo& t : tensors) {
    if (!t.hasRank) throw InferCall::NotKnown{};
    if (!broadcastInto(sizes, t.sizes))
      call.fail("the sizes {} and {} cannot be broadcast", dimsText(sizes), dimsText(t.sizes));
  }
  std::vector<TensorSpec> specs;
  for (const TensorInfo& t : tensors) specs.push_back({t.dtype, true, sizes});
  call.resultTensors(std::move(specs));
}
void broadcastTensorsKernel(KernelCall& call) {
  std::vector<Tensor> tensors = call.tensors(0);
  Dims sizes;
  for (const Tensor& t : tensors) broadcastInto(sizes, t.sizes());
  for (Tensor& t : tensors) t = expandedTo(t, sizes);
  call.setResult(tensorList(std::move(tensors)));
}

// PyTorch's at::sum_to: sums over what was broadcast.
void sumToSizeKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims sizes = call.integers(1), fits(t.sizes());
  bool expandable = sizes.size() <= fits.size() && broadcastInto(fits, sizes) && fits == Dims(t.sizes());
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

void inferSame(InferCall& call) { call.result(call.tensor(0)); }
void aliasKernel(KernelCall& call) { call.setResult(aliased(call.tensor(0))); }
void selfKernel(KernelCall& call) { call.setResult(call.argument(0)); }

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
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kAllTypes});
  };
  add("aten::view", inferView, viewKernel);
  add("aten::_unsafe_view", inferView, viewKernel);
  add("aten::view_as", inferViewAs, viewKernel);
  add("aten::reshape", inferView, reshapeKernel);
  add("aten::reshape_as", inferViewAs, reshapeKernel);
  add("aten::_reshape_from_tensor", nullptr, reshapeFromTensorKernel);
  add("aten::flatten.using_ints", inferFlatten, flattenKernel);
  add("aten::unflatten.int", inferUnflatten, viewKernel);
  add("aten::ravel", inferRavel, ravelKernel);
  add("aten::expand", inferExpand, expandKernel);
  add("aten::expand_as", inferExpandAs, expandKernel);
  add("aten::broadcast_to", inferExpand, expandKernel);
  add("aten::broadcast_tensors", inferBroadcastTensors, broadcastTensorsKernel);
  add("aten::sum_to_size", nullptr, sumToSizeKernel);
  add("aten::contiguous", inferSame, contiguousKernel);
  add("aten::detach", inferSame, aliasKernel);
  add("aten::alias", inferSame, aliasKernel);
  add("aten::detach_", inferSame, selfKernel);
  add("aten::lift", inferSame, selfKernel);
  add("aten::lift_fresh", inferSame, selfKernel);
}

}  // namespace tscompile
