// Tensors with other dtypes, and questions about dtypes: to, type_as, result_type, can_cast.
#include "ir/values/carried_types.h"
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/ops/views/in_format.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/promotion.h"
#include "runtime/reference/tensor_options.h"

namespace tscompile {
namespace {

// ---- to ----

// A copy, also if nothing changes.
Tensor copied(const Tensor& t, DType dtype, MemoryFormat format) {
  Tensor out = emptyLike(t, dtype, format);
  copyTensor(out, t);
  return out;
}

// The tensor itself if it is as wanted.
Tensor converted(const Tensor& t, DType dtype, bool copy, MemoryFormat format) {
  bool same = t.dtype() == dtype && (format == MemoryFormat::Preserve || format == suggestedFormat(t));
  return same && !copy ? t : copied(t, dtype, format);
}

// Where an overload has its arguments; 0: nowhere.
struct ToArguments {
  size_t dtype, device, layout, copy, format;
};
constexpr ToArguments kToDevice{2, 1, 0, 4, 5};
constexpr ToArguments kToDType{1, 0, 0, 3, 4};
constexpr ToArguments kToOther{0, 0, 0, 3, 4};
constexpr ToArguments kToLayout{1, 3, 2, 6, 7};
constexpr ToArguments kToPrimDevice{2, 1, 0, 4, 0};
constexpr ToArguments kToPrimDType{1, 0, 0, 3, 0};
constexpr ToArguments kToPrimOther{0, 0, 0, 2, 0};
constexpr ToArguments kToCopy{1, 3, 2, 0, 6};
constexpr ToArguments kToElement{1, 0, 0, 0, 0};

template <const ToArguments& kAt>
void inferTo(InferCall& call) {
  TensorInfo t = call.tensor(0);
  if (kAt.device) checkDevice(call, kAt.device);
  if (kAt.layout) checkLayout(call, kAt.layout);
  if (kAt.format) requireFormat(call, kAt.format);
  call.result(t, kAt.dtype ? call.dtypeOr(kAt.dtype, t.dtype) : t.dtype);
}
void inferToOther(InferCall& call) { call.result(call.tensor(0), call.tensor(1).dtype); }

template <const ToArguments& kAt>
void toKernel(KernelCall& call) {
  MemoryFormat format = kAt.format ? formatArgument(call, kAt.format) : MemoryFormat::Preserve;
  bool copy = kAt.copy ? call.flag(kAt.copy) : true;
  call.setResult(converted(call.tensor(0), call.spec().dtype, copy, format));
}
void typeAsKernel(KernelCall& call) {
  call.setResult(converted(call.tensor(0), call.spec().dtype, false, MemoryFormat::Preserve));
}

void selfKernel(KernelCall& call) { call.setResult(call.argument(0)); }

// A copy that lies as its strides say.
void inferCopyStrided(InferCall& call) { call.result(call.tensor(0)); }
void copyStridedKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims strides = call.integers(1);
  call.require(strides.size() == t.sizes().size(), "mismatch in length of strides {} and sizes {}", dimsText(strides),
               dimsText(t.sizes()));
  __int128 last = 0;
  for (size_t d = 0; d < strides.size(); ++d) {
    call.require(strides[d] >= 0, "negative strides are not supported, got {}", dimsText(strides));
    last += static_cast<__int128>(std::max<int64_t>(t.sizes()[d] - 1, 0)) * strides[d];
    call.require(last < kMaxElements, "sizes {} and strides {} need too much memory", dimsText(t.sizes()),
                 dimsText(strides));
  }
  const size_t bytes = (static_cast<size_t>(last) + 1) * itemSize(t.dtype());
  Tensor out = Tensor::view(t.dtype(), Storage::allocate(bytes), t.sizes(), strides, 0);
  copyTensor(out, t);
  call.setResult(out);
}

template <DType kDType>
void inferCast(InferCall& call) {
  call.result(call.tensor(0), kDType);
}

// What autocasting regions do around each operator; (self, cuda_enabled, cpu_enabled, cuda_dtype, cpu_dtype).
void inferToReduced(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, t.dtype == DType::Float32 && call.flag(2) ? call.dtypeOr(4, t.dtype) : t.dtype);
}
void inferToFull(InferCall& call) {
  TensorInfo t = call.tensor(0);
  bool is16 = t.dtype == DType::Float16 || t.dtype == DType::BFloat16;
  call.result(t, is16 && call.flag(2) ? DType::Float32 : t.dtype);
}

// ---- questions about dtypes: numbers and bools ----

[[noreturn]] void fail(std::string message) { throw ExecutionError(ErrorKind::Model, std::move(message)); }

DType dtypeOf(const IValue& v) {
  std::optional<DType> dtype = v.isInt() ? dtypeFromNumber(v.toInt()) : std::nullopt;
  if (!dtype) fail("expected the number of a dtype");
  return *dtype;
}
DType dtypeOfTensor(const IValue& v) {
  if (!v.isTensor() || !v.tensorImpl()) fail("expected a tensor");
  return v.tensorImpl()->dtype();
}

void isFloatingPoint(const IValue* const* a, IValue& r) {
  DType dtype = dtypeOfTensor(*a[0]);
  r = isFloating(dtype) || isSmallFloat(dtype);
}
void isComplexTensor(const IValue* const* a, IValue& r) { r = isComplex(dtypeOfTensor(*a[0])); }
void isSigned(const IValue* const* a, IValue& r) {
  DType dtype = dtypeOfTensor(*a[0]);
  r = dtype != DType::UInt8 && dtype != DType::Bool;
}
void canCastTypes(const IValue* const* a, IValue& r) { r = canCast(dtypeOf(*a[0]), dtypeOf(*a[1])); }
void promoteTwoTypes(const IValue* const* a, IValue& r) {
  DType dtype = promoteTypes(dtypeOf(*a[0]), dtypeOf(*a[1]));
  if (dtype == DType::Undefined) fail("promote_types: there is no dtype for both");
  r = static_cast<int64_t>(dtype);
}
void resultType(const IValue* const* a, IValue& r) {
  ResultType type;
  for (int i = 0; i < 2; ++i) {
    const IValue& v = *a[i];
    if (v.isTensor() && v.tensorImpl())
      type.add(TensorInfo{v.tensorImpl()->dtype(), true, v.tensorImpl()->sizes()});
    else if (v.isNumber())
      type.addNumber(v.isBool()    ? DType::Bool
                     : v.isInt()   ? DType::Int64
                     : v.isFloat() ? DType::Float64
                                   : DType::Complex128);
    else
      fail("result_type: expected tensors or numbers");
  }
  r = static_cast<int64_t>(type.get());
}

}  // namespace

void registerConversionsOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema,
             .infer = infer,
             .kernel = kernel,
             .convert = convertCopy,
             .dtypes = kMovedTypes,
             .traits = traits | TraitSet{Trait::KeepsElements}});
  };
  constexpr TraitSet kTo{Trait::GivesViews}, kMaySelf{Trait::MayShare, Trait::GivesViews};
  add("aten::to.device", inferTo<kToDevice>, toKernel<kToDevice>, kTo);
  add("aten::to.dtype", inferTo<kToDType>, toKernel<kToDType>, kTo);
  add("aten::to.other", inferToOther, toKernel<kToOther>, kTo);
  add("aten::to.dtype_layout", inferTo<kToLayout>, toKernel<kToLayout>, kTo);
  add("aten::to.prim_Device", inferTo<kToPrimDevice>, toKernel<kToPrimDevice>, kTo);
  add("aten::to.prim_dtype", inferTo<kToPrimDType>, toKernel<kToPrimDType>, kTo);
  add("aten::to.prim_other", inferTo<kToPrimOther>, toKernel<kToPrimOther>, kTo);
  add("aten::_to_copy", inferTo<kToCopy>, toKernel<kToCopy>);
  // What torch.export's decompositions leave of PyTorch's own primitives.
  add("prims::convert_element_type", inferTo<kToElement>, toKernel<kToElement>);
  ops.add({.schema = "prims::copy_strided",
           .infer = inferCopyStrided,
           .kernel = copyStridedKernel,
           .dtypes = kMovedTypes,
           .traits = {Trait::KeepsElements, Trait::OwnStrides}});
  add("aten::type_as", inferToOther, typeAsKernel, kMaySelf | TraitSet{Trait::LendsSecondForm});
  // Of tensors that are dense: calls with sparse ones are spelled out.
  add("aten::to_dense", inferTo<kToElement>, typeAsKernel, kMaySelf);
  add("aten::to_dense.later", inferTo<kToElement>, typeAsKernel, kMaySelf);
  add("aten::cpu", inferTo<kToPrimOther>, selfKernel);
  add("aten::cuda", inferTo<kToPrimOther>, selfKernel);
  add("aten::_cast_Byte", inferCast<DType::UInt8>, typeAsKernel, kMaySelf);
  add("aten::_cast_Char", inferCast<DType::Int8>, typeAsKernel, kMaySelf);
  add("aten::_cast_Short", inferCast<DType::Int16>, typeAsKernel, kMaySelf);
  add("aten::_cast_Int", inferCast<DType::Int32>, typeAsKernel, kMaySelf);
  add("aten::_cast_Long", inferCast<DType::Int64>, typeAsKernel, kMaySelf);
  add("aten::_cast_Half", inferCast<DType::Float16>, typeAsKernel, kMaySelf);
  add("aten::_cast_Float", inferCast<DType::Float32>, typeAsKernel, kMaySelf);
  add("aten::_cast_Double", inferCast<DType::Float64>, typeAsKernel, kMaySelf);
  add("aten::_autocast_to_reduced_precision", inferToReduced, typeAsKernel);
  add("aten::_autocast_to_full_precision", inferToFull, typeAsKernel);

  constexpr TraitSet kReads{Trait::ReadsGeometry}, kAsks{Trait::ReadsGeometry, Trait::ReadsOptions};
  ops.add({.schema = "aten::is_floating_point", .scalar = isFloatingPoint, .traits = kAsks});
  ops.add({.schema = "aten::is_complex", .scalar = isComplexTensor, .traits = kAsks});
  ops.add({.schema = "aten::is_signed", .scalar = isSigned, .traits = kAsks});
  ops.add({.schema = "aten::can_cast", .scalar = canCastTypes, .traits = kReads});
  ops.add({.schema = "aten::promote_types", .scalar = promoteTwoTypes, .traits = kReads});
  for (const char* name : {"aten::result_type.Tensor", "aten::result_type.Scalar", "aten::result_type.Scalar_Tensor",
                           "aten::result_type.Scalar_Scalar"})
    ops.add({.schema = name, .scalar = resultType, .traits = kReads});
}

}  // namespace tscompile
