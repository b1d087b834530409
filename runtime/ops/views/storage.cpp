// Operators that deal with the memory of tensors: as_strided, elements seen as another dtype, resize_.
#include "ir/values/size_expression.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/views/kept_memory.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/resized_memory.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

namespace tscompile {
namespace {

// ---- as_strided ----

[[noreturn]] void failStorage(const KernelCall& call, const Tensor& t, const Dims& sizes, const Dims& strides,
                              int64_t offset) {
  __int128 last = offset;
  constexpr __int128 kMost = __int128{1} << 100;
  for (size_t d = 0; d < sizes.size(); ++d)
    last = std::min(last + (static_cast<__int128>(sizes[d]) - 1) * strides[d], kMost);
  const auto item = static_cast<int64_t>(itemSize(t.dtype()));
  const __int128 bytes = (last + 1) * item;
  call.fail(
      "setStorage: sizes {}, strides {}, storage offset {}, and itemsize {} requiring a storage size of {} are out of "
      "bounds for storage of size {}",
      dimsText(sizes), dimsText(strides), offset, item, static_cast<int64_t>(std::min<__int128>(bytes, INT64_MAX)),
      t.storage()->bytes());
}

Tensor strided(const KernelCall& call, const Tensor& t) {
  Dims sizes = call.integers(1), strides = call.integers(2);
  int64_t offset = call.isNone(3) ? t.offset() : call.integer(3);
  call.require(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  for (int64_t s : strides)
    if (s < 0)
      call.fail("as_strided: negative strides are not supported at the moment, got strides: {}", dimsText(strides));
  call.require(offset >= 0, "as_strided: invalid storage offset {}", offset);
  for (auto size = sizes.begin(); size != sizes.end() && *size != 0; ++size)
    if (*size < 0)
      call.fail("Storage size calculation overflowed with sizes={} and strides={}", dimsText(sizes), dimsText(strides));
  if (!fitsStorage(t.dtype(), sizes, strides, offset, t.storage()->bytes()))
    failStorage(call, t, sizes, strides, offset);
  return t.withGeometry(sizes, strides, offset);
}

void inferStrided(InferCall& call) { call.result(call.tensor(0).dtype, sizesArgument(call, 1)); }
void asStridedKernel(KernelCall& call) { call.setResult(strided(call, call.tensor(0))); }
void asStridedInPlaceKernel(KernelCall& call) {
  Tensor t = call.tensor(0), view = strided(call, t);
  requireOwned(t);
  t.impl()->setGeometry(view.sizes(), view.strides(), view.offset());
  call.setResult(t);
}
// `aten::_reshape_alias`: strides that the caller vouches for; here they are checked.
void reshapeAliasKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims sizes = call.integers(1), strides = call.integers(2);
  call.require(sizes.size() == strides.size(), "mismatch in length of strides and shape");
  call.require(fitsStorage(t.dtype(), sizes, strides, t.offset(), t.storage()->bytes()),
               "sizes {} and strides {} are out of bounds for the storage", dimsText(sizes), dimsText(strides));
  call.setResult(t.withGeometry(sizes, strides, t.offset()));
}
void inferAsStridedScatter(InferCall& call) { call.result(call.tensor(0)); }
void asStridedScatterKernel(KernelCall& call) {
  const Tensor self = call.tensor(0), source = call.tensor(1);
  const auto elements = static_cast<int64_t>(self.storage()->bytes() / itemSize(self.dtype()));
  const Tensor out = cloneWithGaps(self, 0, elements);
  IValue part = invoke(call, "aten::as_strided", {out, call.argument(2), call.argument(3), call.argument(4)});
  call.require(Dims(part.toTensor().sizes()) == Dims(source.sizes()),
               "expected src to have a size equal to the slice of self. src size = {}, slice size = {}",
               dimsText(source.sizes()), dimsText(part.toTensor().sizes()));
  copyTensor(part.toTensor(), source);
  call.setResult(out);
}

// ---- resize_ ----

// Strides of memory for `sizes`, whose number of elements must be representable.
Dims resizedStrides(const KernelCall& call, const Dims& sizes, MemoryFormat format) {
  int64_t count = 1;
  for (int64_t s : sizes) {
    call.require(s >= 0, "trying to resize to the negative dimension {}", s);
    call.require(s == 0 || !__builtin_mul_overflow(count, s, &count), "the size {} is too large", dimsText(sizes));
  }
  call.require(format != MemoryFormat::Preserve, "resize_ does not support the memory format preserve");
  return formatStrides(sizes, format);
}

void resize(const Tensor& t, const Dims& sizes, const Dims& strides) {
  requireOwned(t);
  if (Dims(t.sizes()) != sizes) resizeInPlace(t, sizes, strides);
}

// The tensor itself, or a copy for the operators that do not write.
template <bool kCopies>
void resizeKernel(KernelCall& call) {
  Tensor t = kCopies ? cloneTensor(call.tensor(0)) : call.tensor(0);
  Dims sizes = call.integers(1);
  resize(t, sizes, resizedStrides(call, sizes, formatArgument(call, 2, MemoryFormat::Contiguous)));
  call.setResult(t);
}
template <bool kCopies>
void resizeAsKernel(KernelCall& call) {
  Tensor t = kCopies ? cloneTensor(call.tensor(0)) : call.tensor(0), like = call.tensor(1);
  MemoryFormat format = formatArgument(call, 2, MemoryFormat::Contiguous);
  if (format == MemoryFormat::Preserve) format = suggestedFormat(like);
  resize(t, Dims(like.sizes()), resizedStrides(call, Dims(like.sizes()), format));
  call.setResult(t);
}

// ---- view.dtype ----

// Bytes other than 0 and 1 are no bool: where there are some, a copy without them has to stand for the view.
Tensor withBools(const Tensor& t) {
  Tensor bytes = contiguous(Tensor::view(DType::UInt8, t.storage(), t.sizes(), t.strides(), t.offset()));
  const auto* first = bytes.data<uint8_t>();
  bool plain = std::all_of(first, first + bytes.numel(), [](uint8_t b) { return b <= 1; });
  return plain ? t : convertTensor(bytes, DType::Bool);
}

// One element for several, or several for one. `ratio` elements of the narrower dtype make one of the wider.
// The bytes of the last dimension stay as many.
void inferViewDType(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  DType dtype = call.dtypeOr(1, t.dtype);
  Dims sizes(t.sizes);
  if (t.dtype == DType::Undefined || dtype == DType::Undefined) return call.resultUnknown();
  auto from = static_cast<int64_t>(itemSize(t.dtype)), to = static_cast<int64_t>(itemSize(dtype));
  if (from != to && to != 0 && !sizes.empty()) {
    SizeExpression size = SizeExpression::ofSize(sizes.back());
    sizes.back() = (from > to ? size * SizeExpression(from / to) : floorDiv(size, to / from)).size();
  }
  call.result(dtype, sizes);
}
void viewDTypeKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  DType dtype = call.dtypeOr(1, t.dtype());
  auto from = static_cast<int64_t>(itemSize(t.dtype())), to = static_cast<int64_t>(itemSize(dtype));
  if (to == 0) call.unsupported(fmt::format("tensors of dtype {} are not supported", pythonName(dtype)));
  Dims sizes(t.sizes()), strides(t.strides());
  int64_t offset = t.offset();
  std::string what = fmt::format("to view {} as {} (different element sizes)", graphName(t.dtype()), graphName(dtype));
  if (from != to) call.require(t.rank() > 0, "self.dim() cannot be 0 {}", what);
  if (from > to) {
    int64_t ratio = from / to;
    call.require(strides.back() == 1, "self.stride(-1) must be 1 {}, but got {}", what, strides.back());
    for (size_t d = 0; d + 1 < strides.size(); ++d) strides[d] = wrapMul(strides[d], ratio);
    sizes.back() = multiplySizes(sizes.back(), ratio);
    offset = wrapMul(offset, ratio);
  } else if (from < to) {
    int64_t ratio = to / from;
    call.require(sizes.back() % ratio == 0, "self.size(-1) must be divisible by {} {}, but got {}", ratio, what,
                 sizes.back());
    call.require(offset % ratio == 0, "self.storage_offset() must be divisible by {} {}, but got {}", ratio, what,
                 offset);
    call.require(strides.back() == 1, "self.stride(-1) must be 1 {}, but got {}", what, strides.back());
    for (size_t d = 0; d + 1 < strides.size(); ++d) {
      call.require(strides[d] % ratio == 0, "self.stride({}) must be divisible by {} {}, but got {}", d, ratio, what,
                   strides[d]);
      strides[d] /= ratio;
    }
    sizes.back() /= ratio;
    offset /= ratio;
  }
  Tensor view = Tensor::view(dtype, t.storage(), sizes, strides, offset);
  call.setResult(dtype == DType::Bool ? withBools(view) : view);
}

}  // namespace

void registerStorageOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kMovedTypes, .traits = traits});
  };
  constexpr TraitSet kByMemory{Trait::MindsStrides, Trait::ReadsStrides};  // elements by where they lie
  constexpr TraitSet kInPlace{Trait::ChangesGeometry, Trait::MindsStrides, Trait::ReadsStrides};
  add("aten::as_strided", inferStrided, asStridedKernel, kByMemory);
  add("aten::as_strided_", nullptr, asStridedInPlaceKernel, kInPlace);
  // Engines keep several tensors in one storage, where places mean nothing.
  ops.add({.schema = "aten::as_strided_scatter",
           .infer = inferAsStridedScatter,
           .kernel = asStridedScatterKernel,
           .dtypes = kMovedTypes,
           .traits = {Trait::OwnStrides, Trait::MindsStrides, Trait::ReadsStrides},
           .inEngines = false});
  add("aten::resize_", nullptr, resizeKernel<false>, kInPlace);
  add("aten::resize_as_", nullptr, resizeAsKernel<false>, kInPlace);
  // They keep elements in the order of memory.
  add("aten::resize", nullptr, resizeKernel<true>, kByMemory);
  add("aten::resize_as", nullptr, resizeAsKernel<true>, kByMemory);
  add("aten::_reshape_alias", inferStrided, reshapeAliasKernel, kByMemory);
  add("aten::view.dtype", inferViewDType, viewDTypeKernel, {Trait::MindsStrides});
}

}  // namespace tscompile
