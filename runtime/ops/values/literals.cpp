// Tensors from numbers and nested lists: aten::tensor, aten::as_tensor, aten::scalar_tensor.
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/tensor_options.h"

namespace tscompile {
namespace {

// The dtype that a number has at first: floats are float32, whatever dtype is asked for.
std::optional<DType> literalType(TypeKind kind) {
  switch (kind) {
    case TypeKind::Bool:
      return DType::Bool;
    case TypeKind::Int:
      return DType::Int64;
    case TypeKind::Float:
      return DType::Float32;
    case TypeKind::Complex:
      return DType::Complex64;
    default:
      return std::nullopt;
  }
}
TypeKind kindOf(const IValue& v) {
  if (v.isBool()) return TypeKind::Bool;
  if (v.isInt()) return TypeKind::Int;
  if (v.isFloat()) return TypeKind::Float;
  return v.isComplex() ? TypeKind::Complex : TypeKind::Any;
}

// ---- numbers ----

// aten::tensor may ask for gradients, which integers have none of.
template <class Call>
void checkGradients(Call& call, DType dtype, const IValue* asks) {
  if (asks && asks->isBool() && asks->toBool() && dtype != DType::Undefined)
    call.require(!isIntegral(dtype, true), "only tensors of floating point and complex dtype can require gradients");
}

template <size_t kDType>
void inferNumber(InferCall& call) {
  checkDevice(call, kDType + 1);
  DType dtype = call.scalarType(0);
  if (dtype == DType::Float64) dtype = DType::Float32;
  if (dtype == DType::Complex128) dtype = DType::Complex64;
  dtype = call.dtypeOr(kDType, dtype);
  checkGradients(call, dtype, call.size() > 3 ? call.constant(3) : nullptr);
  call.result(dtype, Dims{});
}
void numberKernel(KernelCall& call) {
  const IValue& v = call.argument(0);
  call.setResult(convertTensor(elementOf(v, *literalType(kindOf(v))), call.spec().dtype));
}

void inferScalarTensor(InferCall& call) { call.result(optionsDType(call, 1, DType::Float32), Dims{}); }
void inferPrimScalarTensor(InferCall& call) {
  checkDevice(call, 2);
  call.result(call.dtypeOr(1, DType::Float32), Dims{});
}
void scalarTensorKernel(KernelCall& call) { call.setResult(elementOf(call.argument(0), call.spec().dtype)); }

void inferAsTensor(InferCall& call) {
  TensorInfo t = call.tensor(0);
  checkDevice(call, 2);
  call.result(t, call.dtypeOr(1, t.dtype));
}
void asTensorKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  if (t.dtype() == call.spec().dtype) return call.setResult(t);
  Tensor out = emptyLike(t, call.spec().dtype);
  copyTensor(out, t);
  call.setResult(out);
}

// ---- nested lists ----

void inferList(InferCall& call) {
  checkDevice(call, 2);
  // The elements tell the rest: that is the kernel's business.
  call.resultOfUnknownRank(call.dtypeOr(1, DType::Undefined));
}

// Lengths of the first list, its first item, and so on.
Dims listSizes(const KernelCall& call, const IValue& list) {
  Dims sizes;
  for (const IValue* v = &list; v->isList(); v = &v->toList().items[0]) {
    call.require(sizes.size() < kMaxRank, "lists are nested more than {} deep", kMaxRank);
    sizes.push_back(static_cast<int64_t>(v->toList().items.size()));
    if (v->toList().items.empty()) break;
  }
  return sizes;
}

// The kind of the innermost elements, as the lists declare it or, where they do not, as the first one is.
TypeKind elementKind(const IValue& list) {
  const IValue* v = &list;
  TypePtr declared = nullptr;
  while (v->isList()) {
    declared = v->toList().elementType;
    if (v->toList().items.empty()) break;
    v = &v->toList().items[0];
  }
  while (declared && declared->is(TypeKind::List)) declared = declared->element();
  if (declared && (literalType(declared->kind()) || declared->is(TypeKind::Union))) return declared->kind();
  return v->isList() ? TypeKind::Any : kindOf(*v);
}

// Writes the numbers of a list in order. Depth is that of `sizes`, which has at most kMaxRank entries.
template <class Store>
void storeList(const KernelCall& call, const IValue& v, DimSpan sizes, size_t depth, Store&& store) {
  if (depth == sizes.size()) {
    call.require(v.isNumber(), "expected a number in the list");
    return store(v);
  }
  call.require(v.isList(), "expected a list at depth {}", depth);
  const auto& items = v.toList().items;
  call.require(static_cast<int64_t>(items.size()) == sizes[depth], "expected sequence of length {} at dim {} (got {})",
               sizes[depth], depth, items.size());
  for (const IValue& item : items) storeList(call, item, sizes, depth + 1, store);
}

void listKernel(KernelCall& call) {
  const IValue& list = call.argument(0);
  call.require(list.isList(), "expected a list");
  Dims sizes = listSizes(call, list);
  TypeKind kind = elementKind(list);
  std::optional<DType> dtype = literalType(kind);
  call.require(kind != TypeKind::Union, "expected a list of numbers of one type");
  call.require(dtype.has_value(),
               "input must be of ints, floats, or bools (an empty list needs a type: torch.jit.annotate(List[T], []))");
  checkGradients(call, call.dtypeOr(1, *dtype), call.size() > 3 ? &call.argument(3) : nullptr);
  Tensor t = Tensor::empty(*dtype, sizes);
  int64_t next = 0;
  storeList(call, list, sizes, 0, [&](const IValue& v) {
    int64_t i = next++;
    switch (*dtype) {
      case DType::Bool:
        t.data<bool>()[i] = v.isBool() ? v.toBool() : v.toDouble() != 0;
        break;
      case DType::Int64:
        t.data<int64_t>()[i] = v.isInt() ? v.toInt() : static_cast<int64_t>(v.isBool() && v.toBool());
        break;
      case DType::Float32:
        t.data<float>()[i] = static_cast<float>(v.isComplex() ? v.toComplex().real() : v.toDouble());
        break;
      default:
        t.data<std::complex<float>>()[i] = std::complex<float>(v.isComplex() ? v.toComplex() : v.toDouble());
        break;
    }
  });
  call.setResult(convertTensor(t, call.dtypeOr(1, *dtype)));
}

}  // namespace

void registerLiteralsOps(OpRegistry& ops) {
  auto add = [&](std::string_view schema, InferFunction infer, KernelFunction kernel, TraitSet traits = {}) {
    ops.add({.schema = schema, .infer = infer, .kernel = kernel, .dtypes = kAllTypes, .traits = traits});
  };
  for (const char* name :
       {"aten::tensor.float", "aten::tensor.int", "aten::tensor.bool", "aten::tensor.complex", "aten::as_tensor.float",
        "aten::as_tensor.int", "aten::as_tensor.bool", "aten::as_tensor.complex"})
    add(name, inferNumber<1>, numberKernel, {Trait::NumberIsElement});
  add("aten::scalar_tensor", inferScalarTensor, scalarTensorKernel, {Trait::NumberIsElement});
  add("prims::scalar_tensor", inferPrimScalarTensor, scalarTensorKernel, {Trait::NumberIsElement});
  add("aten::as_tensor", inferAsTensor, asTensorKernel);
  add("aten::tensor", inferList, listKernel);
  add("aten::as_tensor.list", inferList, listKernel);
}

}  // namespace tscompile
