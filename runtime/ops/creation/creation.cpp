// Tensors that hold one number, or nothing in particular: zeros, ones, full, empty, and the same after another tensor.
#include "runtime/engine/layers/move_layers.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/tensor_options.h"

#include <cstring>

namespace tscompile {
namespace {

// ---- shape functions; kDType is the position of the dtype ----

// (sizes, value, dtype, ...): without a dtype that of the number.
void inferFull(InferCall& call) {
  checkLayout(call, 3);
  checkDevice(call, 4);
  DType dtype = call.scalarType(1);
  if (dtype == DType::Float64) dtype = DType::Float32;
  if (dtype == DType::Complex128) dtype = DType::Complex64;
  call.result(call.dtypeOr(2, dtype), sizesArgument(call, 0));
}

// (self, sizes, ..., dtype, layout, device, pin_memory)
template <size_t kDType>
void inferNew(InferCall& call) {
  call.result(optionsDType(call, kDType, call.tensor(0).dtype), sizesArgument(call, 1));
}

// ---- kernels ----

// Nobody may see a bool that is neither 0 nor 1, so these are never left as they are found.
void setUninitialized(KernelCall& call, const Tensor& t) {
  if (t.dtype() == DType::Bool && t.storage()->bytes()) std::memset(t.storage()->data(), 0, t.storage()->bytes());
  call.setResult(t);
}

Tensor likeSelf(const KernelCall& call, size_t format) {
  return emptyLike(call.tensor(0), call.spec().dtype, formatArgument(call, format));
}

void setFilled(KernelCall& call, const Tensor& t, const IValue& value) {
  fillTensor(t, value);
  call.setResult(t);
}

void zerosKernel(KernelCall& call) { call.setResult(Tensor::zeros(call.spec().dtype, call.spec().sizes)); }
void onesKernel(KernelCall& call) { setFilled(call, call.out(), true); }
// `value` is argument kValue.
template <size_t kValue>
void fullKernel(KernelCall& call) {
  setFilled(call, call.out(), call.argument(kValue));
}
void zerosLikeKernel(KernelCall& call) { setFilled(call, likeSelf(call, 5), false); }
void onesLikeKernel(KernelCall& call) { setFilled(call, likeSelf(call, 5), true); }
void fullLikeKernel(KernelCall& call) { setFilled(call, likeSelf(call, 6), call.argument(1)); }
void emptyLikeKernel(KernelCall& call) { setUninitialized(call, likeSelf(call, 5)); }

void emptyKernel(KernelCall& call) {
  MemoryFormat format = formatArgument(call, 5, MemoryFormat::Contiguous);
  call.require(format != MemoryFormat::Preserve, "empty: memory format preserve needs a tensor to go by");
  const TensorSpec& spec = call.spec();
  if (format == MemoryFormat::Contiguous) return setUninitialized(call, call.out());
  // Checked before the strides are computed.
  Tensor t = Tensor::empty(spec.dtype, spec.sizes);
  setUninitialized(call, t.withGeometry(spec.sizes, formatStrides(spec.sizes, format), 0));
}

void newEmptyKernel(KernelCall& call) { setUninitialized(call, call.out()); }

// Memory that holds the elements with the strides of argument kStrides, whatever these are.
template <size_t kStrides>
void emptyStridedKernel(KernelCall& call) {
  const TensorSpec& spec = call.spec();
  Dims strides = call.integers(kStrides);
  call.require(strides.size() == spec.sizes.size(), "empty_strided: mismatch in length of strides {} and sizes {}",
               dimsText(strides), dimsText(spec.sizes));
  size_t item = itemSize(spec.dtype);
  if (item == 0) call.unsupported(fmt::format("tensors of dtype {} are not supported", pythonName(spec.dtype)));
  __int128 last = 0;
  bool isEmpty = false;
  for (size_t d = 0; d < strides.size(); ++d) {
    call.require(strides[d] >= 0, "empty_strided: negative strides are not supported, got {}", dimsText(strides));
    last += static_cast<__int128>(std::max<int64_t>(spec.sizes[d] - 1, 0)) * strides[d];
    if (last > kMaxElements)
      call.fail("empty_strided: sizes {} and strides {} need too much memory", dimsText(spec.sizes), dimsText(strides));
    if (spec.sizes[d] == 0) isEmpty = true;
  }
  size_t bytes = isEmpty ? 0 : (static_cast<size_t>(last) + 1) * item;
  setUninitialized(call, Tensor::view(spec.dtype, Storage::allocate(bytes), spec.sizes, strides, 0));
}

// ---- converters, of what only a run knows the elements of but not the sizes ----

void fillOf(ConvertCall& call, const IValue& value) {
  if (NetworkTensors::isSymbolic(value)) return convertToKernel(call, "the value is no constant");
  const Tensor element = Tensor::empty(call.spec().dtype, Dims{1});
  fillTensor(element, value);
  addFill(call, element);
}
// `value`, as a tensor whose elements lie as the format in argument kFormat says.
template <size_t kFormat>
void fillLike(ConvertCall& call, const IValue& value) {
  const MemoryFormat format = formatArgument(call, kFormat, MemoryFormat::Preserve);
  if (format != MemoryFormat::Preserve && format != MemoryFormat::Contiguous)
    return convertToKernel(call, "its elements lie in another order");
  fillOf(call, value);
}
void convertZerosLike(ConvertCall& call) { fillLike<5>(call, false); }
void convertOnesLike(ConvertCall& call) { fillLike<5>(call, true); }
void convertFullLike(ConvertCall& call) { fillLike<6>(call, call.argument(1)); }
void convertNewZeros(ConvertCall& call) { fillOf(call, false); }
void convertNewOnes(ConvertCall& call) { fillOf(call, true); }
void convertNewFull(ConvertCall& call) { fillOf(call, call.argument(2)); }

}  // namespace

void registerCreationOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {},
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kMovedTypes,
             .traits = traits});
  };
  constexpr TraitSet kForm{Trait::LendsFirstForm}, kAnything{Trait::Uninitialized}, kOwn{Trait::OwnStrides};
  add("aten::zeros", inferOfSizes<1>, zerosKernel);
  add("aten::_efficientzerotensor", inferOfSizes<1>, zerosKernel);
  add("aten::ones", inferOfSizes<1>, onesKernel);
  add("aten::full", inferFull, fullKernel<1>, {Trait::NumberIsElement});
  add("aten::empty.memory_format", inferOfSizes<1>, emptyKernel, kAnything);
  add("aten::empty_strided", inferOfSizes<2>, emptyStridedKernel<1>, kAnything | kOwn);
  add("aten::zeros_like", inferLike<1>, zerosLikeKernel, kForm, convertZerosLike);
  add("aten::ones_like", inferLike<1>, onesLikeKernel, kForm, convertOnesLike);
  add("aten::full_like", inferLike<2>, fullLikeKernel, kForm | TraitSet{Trait::NumberIsElement}, convertFullLike);
  add("aten::empty_like", inferLike<1>, emptyLikeKernel, kForm | kAnything);
  add("aten::new_zeros", inferNew<2>, zerosKernel, kForm, convertNewZeros);
  add("aten::new_ones", inferNew<2>, onesKernel, kForm, convertNewOnes);
  add("aten::new_full", inferNew<3>, fullKernel<2>, kForm | TraitSet{Trait::NumberIsElement}, convertNewFull);
  add("aten::new_empty", inferNew<2>, newEmptyKernel, kForm | kAnything);
  add("aten::new_empty_strided", inferNew<3>, emptyStridedKernel<2>, kForm | kAnything | kOwn);
}

}  // namespace tscompile
