// Tensors with a margin: of a number, of their own elements mirrored or repeated, or of the opposite side.
#include "ir/values/size_expression.h"
#include "runtime/engine/layers/rearrange_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/kept_format.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/item_bits.h"
#include "runtime/reference/tensor_options.h"
#include "runtime/reference/views.h"

#include <cstring>

namespace tscompile {
namespace {

enum class Margin { Reflect, Replicate, Circular };

// Padding in PyTorch's order: before and after the last dimension, then those in front of it.
struct Sides {
  int64_t before, after;
};
Sides sidesOf(DimSpan pad, size_t rank, size_t dim) {
  size_t i = 2 * (rank - 1 - dim);
  return i < pad.size() ? Sides{pad[i], pad[i + 1]} : Sides{0, 0};
}

int64_t paddedSize(const InferCall& call, int64_t size, Sides s) {
  for (int64_t p : {s.before, s.after})
    call.require(p >= -kMaxElements && p <= kMaxElements, "padding of {} is too large", p);
  if (!isKnownSize(size)) return (SizeExpression::ofSize(size) + s.before + s.after).size();
  call.require(size <= kMaxElements, "a size of {} is too large to be padded", size);
  return size + s.before + s.after;
}

// ---- a number ----

void resultConstant(InferCall& call, const TensorInfo& t, const Dims& pad) {
  size_t rank = t.rank();
  call.require(pad.size() % 2 == 0, "length of pad must be even but instead it equals {}", pad.size());
  call.require(pad.size() <= 2 * rank,
               "length of pad should be no more than twice the number of dimensions of the input. Pad length "
               "is {} while the input has {} dimensions.",
               pad.size(), rank);
  Dims sizes(t.sizes);
  for (size_t d = rank - pad.size() / 2; d < rank; ++d) {
    Sides s = sidesOf(pad, rank, d);
    sizes[d] = paddedSize(call, t.sizes[d], s);
    call.require(sizes[d] >= 0 || !isKnownSize(t.sizes[d]),
                 "the input size {}, plus negative padding {} and {} resulted in a negative output size, which is "
                 "invalid. Check dimension {} of your input.",
                 t.sizes[d], s.before, s.after, d);
  }
  call.result(t.dtype, sizes);
}

void padWithNumber(KernelCall& call, DimSpan pad, const IValue& value) {
  Tensor t = call.tensor(0), inside = t;
  for (size_t d = 0; d < t.sizes().size(); ++d) {
    Sides s = sidesOf(pad, t.sizes().size(), d);
    int64_t before = std::max<int64_t>(-s.before, 0), after = std::max<int64_t>(-s.after, 0);
    call.require(before + after <= inside.sizes()[d], "padding of {} and {} leaves nothing of size {}", s.before,
                 s.after, inside.sizes()[d]);
    if (before || after) inside = narrowed(inside, static_cast<int64_t>(d), before, inside.sizes()[d] - before - after);
  }
  if (std::all_of(pad.begin(), pad.end(), [](int64_t p) { return p <= 0; })) return call.setResult(cloneTensor(inside));
  const TensorSpec& spec = call.spec();
  Tensor out = Tensor::emptyStrided(spec.dtype, spec.sizes, formatStrides(spec.sizes, suggestedFormat(t)));
  fillTensor(out, value);
  Tensor target = out;
  for (size_t d = 0; d < t.sizes().size(); ++d)
    target = narrowed(target, static_cast<int64_t>(d), std::max<int64_t>(sidesOf(pad, t.sizes().size(), d).before, 0),
                      inside.sizes()[d]);
  copyTensor(target, inside);
  call.setResult(out);
}

// ---- elements of the tensor itself ----

void checkMargin(const InferCall& call, Margin margin, DimSpan sizes, Sides s, size_t dim) {
  const int64_t size = sizes[dim];
  switch (margin) {
    case Margin::Reflect:
      call.require(
          s.before < size && s.after < size,
          "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding ({}, "
          "{}) at dimension {} of input {}",
          s.before, s.after, dim, dimsText(sizes));
      break;
    case Margin::Circular:
      call.require(s.before <= size && s.after <= size,
                   "padding value causes wrapping around more than once: ({}, {}) at dimension {} "
                   "of size {}",
                   s.before, s.after, dim, size);
      break;
    case Margin::Replicate:
      break;
  }
}

// `dims` trailing dimensions are padded.
void resultMargin(InferCall& call, const TensorInfo& t, const Dims& pad, size_t dims, Margin margin) {
  call.require(margin == Margin::Circular || t.dtype != DType::Bool, "\"{}_pad{}d\" not implemented for 'Bool'",
               margin == Margin::Reflect ? "reflection" : "replication", dims);
  size_t rank = t.rank(), least = margin == Margin::Circular ? 0 : 1;
  call.require(rank == dims + 1 || rank == dims + 2, "expected a tensor of {} or {} dimensions, not of {}", dims + 1,
               dims + 2, rank);
  call.require(pad.size() == 2 * dims, "padding of {} dimensions has {} numbers, not {}", dims, 2 * dims, pad.size());
  Dims sizes(t.sizes);
  for (size_t d = 0; d < rank; ++d) {
    if (!isKnownSize(t.sizes[d])) continue;
    // Only the batch may be empty.
    bool isBatch = d == 0 && rank == dims + 2;
    call.require(t.sizes[d] >= static_cast<int64_t>(least) || isBatch,
                 "expected an input without sizes of 0 after the batch, but got {}", dimsText(t.sizes));
  }
  bool allEmpty = true, anyEmpty = false;
  for (size_t d = rank - dims; d < rank; ++d) {
    Sides s = sidesOf(pad, rank, d);
    sizes[d] = paddedSize(call, t.sizes[d], s);
    anyEmpty |= sizes[d] == 0;
    allEmpty &= sizes[d] == 0;
    if (!isKnownSize(t.sizes[d])) continue;
    checkMargin(call, margin, t.sizes, s, d);
    call.require(sizes[d] >= 0, "input of size {} at dimension {} is too small: padding makes it {}", t.sizes[d], d,
                 sizes[d]);
  }
  const bool isTooSmall = margin == Margin::Replicate ? anyEmpty : margin == Margin::Reflect && allEmpty;
  call.require(!isTooSmall, "input of size {} is too small: nothing is left of it", dimsText(t.sizes));
  call.result(t.dtype, sizes);
}

// For each index of a padded dimension, the index of the element that comes there.
std::vector<int64_t> sources(const KernelCall& call, Margin margin, int64_t size, Sides s, int64_t padded) {
  std::vector<int64_t> out(static_cast<size_t>(padded));
  int64_t cut = std::max<int64_t>(-s.before, 0);
  int64_t inside = size - cut - std::max<int64_t>(-s.after, 0);
  for (int64_t i = 0; i < padded; ++i) {
    int64_t at = i - s.before;  // among the elements before any are cut off
    switch (margin) {
      case Margin::Reflect:
        if (at < 0 && s.before > 0) at = -at;
        if (at >= size) at = 2 * (size - 1) - at;
        break;
      case Margin::Replicate:
        at = std::clamp<int64_t>(at, 0, size - 1);
        break;
      case Margin::Circular:
        call.require(inside > 0, "padding leaves nothing that could be repeated");
        at = cut + ((at - cut) % inside + inside) % inside;
        break;
    }
    call.require(at >= 0 && at < size, "padding of ({}, {}) reaches beyond a dimension of size {}", s.before, s.after,
                 size);
    out[static_cast<size_t>(i)] = at;
  }
  return out;
}

// One row: runs of neighbours are copied at once.
template <class T>
void copyRow(const std::vector<int64_t>& from, const T* row, T* to) {
  for (size_t i = 0; i < from.size();) {
    size_t n = 1;
    while (i + n < from.size() && from[i + n] == from[i] + static_cast<int64_t>(n)) ++n;
    if (n == 1)
      to[i] = row[from[i]];
    else
      std::memcpy(static_cast<void*>(to + i), row + from[i], n * sizeof(T));
    i += n;
  }
}

// Rows of the last dimension. `from`: for each padded dimension, the index in the input of each index of the output.
template <class T>
void padRows(const Tensor& t, const Tensor& out, const std::vector<std::vector<int64_t>>& from, size_t dims) {
  size_t rank = t.sizes().size();
  int64_t batch = 1;
  for (size_t d = 0; d < rank - dims; ++d) batch *= t.sizes()[d];
  int64_t height = dims > 1 ? out.sizes()[rank - 2] : 1, depth = dims > 2 ? out.sizes()[rank - 3] : 1;
  int64_t inHeight = dims > 1 ? t.sizes()[rank - 2] : 1, inDepth = dims > 2 ? t.sizes()[rank - 3] : 1;
  int64_t width = out.sizes()[rank - 1], inWidth = t.sizes()[rank - 1];
  auto* to = out.data<T>();
  for (int64_t b = 0; b < batch; ++b)
    for (int64_t z = 0; z < depth; ++z)
      for (int64_t y = 0; y < height; ++y) {
        int64_t plane = b * inDepth + (dims > 2 ? from[dims - 3][static_cast<size_t>(z)] : 0);
        int64_t row = plane * inHeight + (dims > 1 ? from[dims - 2][static_cast<size_t>(y)] : 0);
        copyRow(from[dims - 1], t.data<T>() + row * inWidth, to);
        to += width;
        RunContext::current().checkInterrupt(width);
      }
}

void padWithMargin(KernelCall& call, DimSpan pad, size_t dims, Margin margin) {
  Tensor t = contiguous(call.tensor(0)), out = call.out();
  if (out.numel() == 0) return;
  size_t rank = t.sizes().size();
  std::vector<std::vector<int64_t>> from;
  for (size_t d = rank - dims; d < rank; ++d)
    from.push_back(sources(call, margin, t.sizes()[d], sidesOf(pad, rank, d), out.sizes()[d]));
  withItemBits(t.dtype(), [&]<class Bits>() { padRows<Bits>(t, out, from, dims); });
}

// ---- operators ----

void inferConstantPad(InferCall& call) {
  if (std::optional<TensorInfo> t = rankedSelf(call)) resultConstant(call, *t, call.integers(1));
}
void constantPadKernel(KernelCall& call) { padWithNumber(call, call.integers(1), call.argument(2)); }

template <size_t kDims, Margin kMargin>
void inferMarginPad(InferCall& call) {
  if (std::optional<TensorInfo> t = rankedSelf(call)) resultMargin(call, *t, call.integers(1), kDims, kMargin);
}
template <size_t kDims, Margin kMargin>
void marginPadKernel(KernelCall& call) {
  padWithMargin(call, call.integers(1), kDims, kMargin);
}

void inferCircular(InferCall& call) {
  if (std::optional<TensorInfo> t = rankedSelf(call)) {
    Dims pad = call.integers(1);
    const size_t dims = pad.size() / 2;
    call.require(t->rank() == dims + 1 || t->rank() == dims + 2,
                 "invalid padding size, expected {} or {} numbers but got {}", 2 * static_cast<int64_t>(t->rank()) - 4,
                 2 * static_cast<int64_t>(t->rank()) - 2, pad.size());
    resultMargin(call, *t, pad, dims, Margin::Circular);
  }
}
void circularKernel(KernelCall& call) {
  Dims pad = call.integers(1);
  if (pad.empty()) return copyTensor(call.out(), call.tensor(0));
  padWithMargin(call, pad, pad.size() / 2, Margin::Circular);
}

// The mode of aten::pad; nothing for "constant".
template <class Call>
std::optional<Margin> marginOf(const Call& call) {
  std::string_view mode = call.text(2);
  if (mode == "reflect") return Margin::Reflect;
  if (mode == "replicate") return Margin::Replicate;
  if (mode == "circular") return Margin::Circular;
  call.require(mode == "constant", "unrecognised padding mode {}", mode);
  return std::nullopt;
}

void inferPad(InferCall& call) {
  std::optional<TensorInfo> t = rankedSelf(call);
  if (!t) return;
  Dims pad = call.integers(1);
  call.require(pad.size() % 2 == 0, "padding length must be divisible by 2");
  call.require(pad.size() <= 2 * t->rank(),
               "padding length should be less than or equal to two times the input dimension but got padding length {} "
               "and input of dimension {}",
               pad.size(), t->rank());
  std::optional<Margin> margin = marginOf(call);
  if (!margin) return resultConstant(call, *t, pad);
  call.require(call.isNone(3) || call.number(3) == 0, "padding mode \"{}\" doesn't take in value argument",
               call.text(2));
  size_t dims = pad.size() / 2;
  call.require(dims >= 1 && dims <= 3 && (t->rank() == dims + 1 || t->rank() == dims + 2),
               "padding size {} is not supported for {}D input tensor.", pad.size(), t->rank());
  resultMargin(call, *t, pad, dims, *margin);
}
void namedMarginKernel(KernelCall& call) {
  const Dims pad = call.integers(1);
  padWithMargin(call, pad, pad.size() / 2, *marginOf(call));
}
void padKernel(KernelCall& call) {
  const Dims pad = call.integers(1);
  const std::optional<Margin> margin = marginOf(call);
  if (!margin) return padWithNumber(call, pad, call.isNone(3) ? IValue(0.0) : call.argument(3));
  const bool isRows = *margin == Margin::Circular || pad.size() == 2;
  isRows ? namedMarginKernel(call) : keepingFormat<namedMarginKernel>(call);
}

}  // namespace

void registerPaddingOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, ConvertFunction convert) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kAllTypes,
             .traits = {Trait::RoundsOnce}});
  };
  add("aten::pad", inferPad, padKernel, convertPad<PadMode::Named>);
  add("aten::constant_pad_nd", inferConstantPad, constantPadKernel, convertPad<PadMode::Constant>);
  add("aten::_pad_circular", inferCircular, circularKernel, convertPad<PadMode::Circular>);
  add("aten::reflection_pad1d", inferMarginPad<1, Margin::Reflect>, marginPadKernel<1, Margin::Reflect>,
      convertPad<PadMode::Reflect>);
  add("aten::reflection_pad2d", inferMarginPad<2, Margin::Reflect>, keepingFormat<marginPadKernel<2, Margin::Reflect>>,
      convertPad<PadMode::Reflect>);
  add("aten::reflection_pad3d", inferMarginPad<3, Margin::Reflect>, keepingFormat<marginPadKernel<3, Margin::Reflect>>,
      convertPad<PadMode::Reflect>);
  add("aten::replication_pad1d", inferMarginPad<1, Margin::Replicate>, marginPadKernel<1, Margin::Replicate>,
      convertPad<PadMode::Replicate>);
  add("aten::replication_pad2d", inferMarginPad<2, Margin::Replicate>,
      keepingFormat<marginPadKernel<2, Margin::Replicate>>, convertPad<PadMode::Replicate>);
  add("aten::replication_pad3d", inferMarginPad<3, Margin::Replicate>,
      keepingFormat<marginPadKernel<3, Margin::Replicate>>, convertPad<PadMode::Replicate>);
}

}  // namespace tscompile
