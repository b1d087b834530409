// Masks: masked_fill, masked_select, masked_scatter, and where a tensor is not zero.
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/indexing.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/loops/memory_format.h"
#include "runtime/reference/nonzero.h"
#include "runtime/reference/views.h"

#include <limits>

namespace tscompile {
namespace {

std::string_view nameOf(const InferCall& call) { return call.op().kind().name(); }

// PyTorch takes uint8 for bool, and where it does not look, other integers.
void requireMask(const InferCall& call) {
  DType d = call.tensor(1).dtype;
  call.require(isIntegral(d, true) || d == DType::Undefined,
               "{}_ only supports boolean masks, but got mask with dtype {}",
               nameOf(call).starts_with("masked_fill") ? "masked_fill" : "masked_scatter", cppName(d));
}

// The sizes of self and mask together; nothing if a rank is not known. In-place variants keep those of self.
std::optional<Dims> maskedSizes(const InferCall& call) {
  TensorInfo self = call.tensor(0), mask = call.tensor(1);
  if (!self.hasRank || !mask.hasRank) return std::nullopt;
  Dims sizes(self.sizes);
  if (broadcastInto(sizes, mask.sizes)) return sizes;
  // masked_select and the others begin with the one or the other.
  if (nameOf(call).starts_with("masked_fill") && !call.op().isInPlaceVariant()) refuseBroadcast(mask.sizes, self.sizes);
  refuseBroadcast(self.sizes, mask.sizes);
}

void resultMasked(InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  if (std::optional<Dims> sizes = maskedSizes(call))
    call.result(dtype, *sizes);
  else
    call.resultOfUnknownRank(dtype);
}

// ---- masked_fill ----

void inferMaskedFill(InferCall& call) {
  requireMask(call);
  if (call.isTensor(2)) {
    TensorInfo value = call.tensor(2);
    call.require(!value.hasRank || value.rank() == 0,
                 "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with {} dimension(s).",
                 value.rank());
  }
  resultMasked(call);
}

template <class T>
void fillTile(const Tile& t) {
  auto* out = static_cast<T*>(t.operand[0]);
  auto* in = static_cast<const T*>(t.operand[1]);
  auto* mask = static_cast<const bool*>(t.operand[2]);
  T value = *static_cast<const T*>(t.operand[3]);
  for (int64_t i = 0; i < t.n; ++i) out[i] = mask[i] ? value : in[i];
}

// Fills an expanded tensor copy by copy, so that an element is set where any of its masks is.
void fillRepeated(const Tensor& t, const Tensor& mask, const Tensor& element) {
  for (int d = 0; d < t.rank(); ++d) {
    if (t.stride(d) != 0 || t.size(d) < 2) continue;
    for (int64_t i = 0; i < t.size(d); ++i) fillRepeated(selected(t, d, i), selected(mask, d, i), element);
    return;
  }
  withCompute(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Compute c = kComputeOf<T>;
    Operand operands[] = {{t, c}, {t, c}, {mask, Compute::Bool}, {element, c}};
    loopTiles(t.sizes(), operands, 1, fillTile<T>);
  });
  RunContext::current().checkInterrupt(t.numel());
}

// PyTorch lets a tensor be its own mask, but not a part of it.
Tensor maskFor(const KernelCall& call, const Tensor& out, const Tensor& mask) {
  return mask.impl() == out.impl() ? cloneTensor(mask) : sourceFor(call, out, mask);
}

void maskedFillKernel(KernelCall& call) {
  Tensor self = call.tensor(0), mask = call.tensor(1);
  const IValue& value = call.argument(2);
  Tensor element = elementOf(value.isTensor() ? numberOf(call.tensor(2)) : value, self.dtype());
  if (call.isInPlace() && repeatsElements(self.sizes(), self.strides())) {
    fillRepeated(self, expandedTo(maskFor(call, self, mask), self.sizes()), element);
    return call.setResult(self);
  }
  Tensor out = call.out();
  mask = maskFor(call, out, mask);
  withCompute(self.dtype(), [&](auto sample) {
    using T = decltype(sample);
    Compute c = kComputeOf<T>;
    Operand operands[] = {{out, c}, {self, c}, {mask, Compute::Bool}, {element, c}};
    loopTiles(out.sizes(), operands, 1, fillTile<T>);
  });
}

// ---- masked_select, masked_scatter ----

void inferMaskedSelect(InferCall& call) {
  DType mask = call.tensor(1).dtype;
  call.require(mask == DType::Bool || mask == DType::UInt8 || mask == DType::Undefined,
               "masked_select: expected BoolTensor for mask");
  maskedSizes(call);
  call.result(call.tensor(0).dtype, Dims{kUnknownSize});
}

// Calls move(i) for every true element i of a contiguous mask.
template <class F>
void forTrue(const Tensor& mask, F&& move) {
  const bool* p = mask.data<bool>();
  for (int64_t i = 0; i < mask.numel(); ++i)
    if (p[i]) move(i);
  RunContext::current().checkInterrupt(mask.numel());
}

// Bytes of an element, moved as one value.
template <class F>
void withElement(DType dtype, F&& f) {
  visitDType(dtype, [&](auto sample) { f(sample); });
}

void maskedSelectKernel(KernelCall& call) {
  Tensor self = call.tensor(0), mask = call.tensor(1);
  Dims sizes(self.sizes());
  broadcastInto(sizes, mask.sizes());
  mask = convertTensor(expandedTo(mask, sizes), DType::Bool);
  self = contiguous(expandedTo(self, sizes));
  Tensor out = Tensor::empty(self.dtype(), Dims{countTrue(mask)});
  withElement(self.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* to = out.data<T>();
    const T* from = self.data<T>();
    forTrue(mask, [&](int64_t i) { *to++ = from[i]; });
  });
  call.setResult(out);
}

void inferMaskedScatter(InferCall& call) {
  requireMask(call);
  TensorInfo self = call.tensor(0), source = call.tensor(2);
  call.require(self.dtype == source.dtype || self.dtype == DType::Undefined || source.dtype == DType::Undefined,
               "masked_scatter: expected self and source to have same dtypes but got {} and {}", graphName(self.dtype),
               graphName(source.dtype));
  resultMasked(call);
}

void maskedScatterKernel(KernelCall& call) {
  // What it reads may be what it writes: each element as it is at that moment.
  Tensor out = call.out(), mask = call.tensor(1), source = call.tensor(2);
  mask = convertTensor(expandedTo(mask, out.sizes()), DType::Bool);
  source = contiguous(source);
  int64_t needed = countTrue(mask);
  call.require(source.numel() >= needed, "Number of elements of source < number of ones in mask");
  Tensor target = out.isContiguous() ? out : Tensor::empty(out.dtype(), out.sizes());
  if (!call.isInPlace() || target.impl() != out.impl()) copyTensor(target, call.tensor(0));
  withElement(out.dtype(), [&](auto sample) {
    using T = decltype(sample);
    T* to = target.data<T>();
    const T* from = source.data<T>();
    forTrue(mask, [&](int64_t i) { to[i] = *from++; });
  });
  if (target.impl() != out.impl()) copyTensor(out, target);
}

// ---- nonzero ----

void inferNonzero(InferCall& call) {
  TensorInfo t = call.rankedTensor(0);
  call.result(DType::Int64, Dims{kUnknownSize, static_cast<int64_t>(t.rank())});
}
void nonzeroKernel(KernelCall& call) { call.setResult(nonzeroOf(call.tensor(0))); }

// One tensor of positions for each dimension; numbers count as vectors of one element.
void nonzeroListKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Tensor coordinates = nonzeroOf(t.rank() ? t : unsqueezed(t, 0));
  std::vector<Tensor> columns;
  for (int64_t d = 0; d < coordinates.size(1); ++d) columns.push_back(selected(coordinates, 1, d));
  call.setResult(tensorList(std::move(columns)));
}

// Torch-TensorRT's lowering leaves it in graphs: a mask as what is added to scores, for a boolean one 0 where it is
// true and -inf where it is not.
void inferAttentionBias(InferCall& call) {
  TensorInfo mask = call.tensor(0);
  if (mask.dtype == DType::Undefined) return call.resultUnknown();
  call.result(mask, mask.dtype == DType::Bool ? DType::Float32 : mask.dtype);
}
void attentionBiasKernel(KernelCall& call) {
  Tensor mask = contiguous(call.tensor(0)), out = call.out();
  if (mask.dtype() != DType::Bool) return copyTensor(out, mask);
  for (int64_t i = 0; i < out.numel(); ++i)
    out.data<float>()[i] = mask.data<bool>()[i] ? 0 : -std::numeric_limits<float>::infinity();
}

int maskedFillSteps(StepBuilder& b) {
  if (!b.isElement(2)) return b.fail(kTooLarge);
  int x = b.value(0), mask = b.value(1), filling = b.value(2);
  return b.step(PointwiseOp::Where, mask, filling, x);
}

}  // namespace

void registerMaskingOps(OpRegistry& ops) {
  ops.add({.schema = "trt::attn_bias_from_attn_mask(Tensor attn_mask) -> Tensor",
           .infer = inferAttentionBias,
           .kernel = attentionBiasKernel});
  for (auto schema : {"aten::masked_fill.Scalar", "aten::masked_fill.Tensor"})
    ops.add({.schema = schema,
             .infer = inferMaskedFill,
             .kernel = maskedFillKernel,
             .convert = convertPointwise<maskedFillSteps>,
             .dtypes = kAllTypes,
             .inplace = InPlace::Direct,
             .traits = {Trait::RoundsOnce}});
  constexpr TraitSet kAsks{Trait::DependsOnElements}, kFinds{Trait::DependsOnElements, Trait::OwnStrides};
  ops.add({.schema = "aten::masked_select",
           .infer = inferMaskedSelect,
           .kernel = maskedSelectKernel,
           .dtypes = kAllTypes,
           .traits = kAsks});
  ops.add({.schema = "aten::masked_scatter",
           .infer = inferMaskedScatter,
           .kernel = maskedScatterKernel,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct});
  for (auto schema : {"aten::nonzero", "aten::argwhere"})
    ops.add({.schema = schema, .infer = inferNonzero, .kernel = nonzeroKernel, .dtypes = kAllTypes, .traits = kFinds});
  for (auto schema : {"aten::nonzero_numpy", "aten::where"})
    ops.add({.schema = schema, .kernel = nonzeroListKernel, .dtypes = kAllTypes, .traits = kFinds});
}

}  // namespace tscompile
