// Complex tensors: made from parts, taken apart, seen as real ones, conjugated.
#include "runtime/ops/elementwise/complex_parts.h"
#include "runtime/ops/moved_types.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/conjugates.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/loops/numbers.h"

namespace tscompile {
namespace {

using C128 = std::complex<double>;

// ---- from two real tensors ----

void inferFromParts(InferCall& call) {
  DType a = call.tensor(0).dtype, b = call.tensor(1).dtype;
  bool known = a != DType::Undefined && b != DType::Undefined;
  if (a == DType::Float16 && a == b)
    throw ExecutionError(ErrorKind::Unsupported, "complex numbers of 16-bit parts are not supported");
  const auto fits = [](DType d) { return d == DType::Float32 || d == DType::Float64 || d == DType::Float16; };
  call.require(!known || (fits(a) && fits(b)),
               "expected both inputs to be Half, Float or Double tensors but got {} and {}", graphName(a),
               graphName(b));
  call.require(!known || a == b, "the tensors must have one dtype, not {} and {}", pythonName(a), pythonName(b));
  call.require(a == DType::Float32 || a == DType::Float64 || a == DType::Undefined,
               "expected float32 or float64 tensors, not {}", pythonName(a));
  resultBroadcast(call, a == DType::Undefined ? a : complexOf(a), 2);
}

// Reads both parts as complex numbers, whose imaginary parts are 0.
template <auto kF>
void fromPartsKernel(KernelCall& call) {
  mapElements<kC128, 2>(call, call.spec().dtype, [](C128 a, C128 b) { return kF(a.real(), b.real()); });
}

// ---- views ----

void inferReal(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, realPart(t.dtype));
}
void inferImag(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.require(isComplex(t.dtype) || t.dtype == DType::Undefined,
               "imag is not implemented for tensors with non-complex dtypes.");
  call.result(t, realPart(t.dtype));
}

// The real or the imaginary parts in place; `index` is 0 or 1.
Tensor part(const Tensor& t, int64_t index) {
  Dims strides(t.strides());
  for (int64_t& s : strides) s *= 2;
  return Tensor::view(realPart(t.dtype()), t.storage(), t.sizes(), strides, t.offset() * 2 + index);
}

void realKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.setResult(isComplex(t.dtype()) ? part(t, 0) : t);
}
void imagKernel(KernelCall& call) { call.setResult(part(call.tensor(0), 1)); }

void inferViewAsReal(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.require(isComplex(t.dtype) || t.dtype == DType::Undefined, "view_as_real is only supported for complex tensors");
  if (!t.hasRank) return call.resultOfUnknownRank(realPart(t.dtype));
  Dims sizes(t.sizes);
  sizes.push_back(2);
  call.result(realPart(t.dtype), sizes);
}
void viewAsRealKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Dims strides(t.strides());
  for (int64_t& s : strides) s = wrapMul(s, 2);  // wraps only where it does not count
  strides.push_back(1);
  call.setResult(Tensor::view(call.spec().dtype, t.storage(), call.spec().sizes, strides, wrapMul(t.offset(), 2)));
}

void inferViewAsComplex(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.require(t.dtype == DType::Float32 || t.dtype == DType::Float64 || t.dtype == DType::Undefined,
               "view_as_complex is only supported for float32 and float64 tensors, not for {}", pythonName(t.dtype));
  DType dtype = t.dtype == DType::Undefined ? t.dtype : complexOf(t.dtype);
  if (!t.hasRank) return call.resultOfUnknownRank(dtype);
  call.require(t.rank() > 0, "input tensor must have one or more dimensions");
  int64_t last = t.sizes.back();
  call.require(!differ(last, 2), "tensor must have a last dimension of size 2");
  call.result(dtype, t.sizes.first(t.rank() - 1));
}
void viewAsComplexKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  call.require(t.strides().back() == 1, "tensor must have a last dimension with stride 1, not {}", t.strides().back());
  call.require(t.offset() % 2 == 0, "tensor must have a storage_offset divisible by 2, not {}", t.offset());
  Dims strides(t.strides().first(t.strides().size() - 1));
  for (int64_t& s : strides) {
    call.require(s % 2 == 0, "tensor must have a stride divisible by 2 for all but last dimension, not {}", s);
    s /= 2;
  }
  call.setResult(Tensor::view(call.spec().dtype, t.storage(), call.spec().sizes, strides, t.offset() / 2));
}

// ---- conjugation ----

// Real tensors are their own conjugates.
void conjPhysicalKernel(KernelCall& call) {
  if (!isComplex(call.tensor(0).dtype())) return call.setResult(call.argument(0));
  mapInputs<kC128, 1>(call, [](C128 x) { return std::conj(x); });
}
void conjKernel(KernelCall& call) {
  conjPhysicalKernel(call);
  if (isComplex(call.tensor(0).dtype())) call.setResult(shownConjugate(call.out(), call.tensor(0)));
}

void selfKernel(KernelCall& call) { call.setResult(call.argument(0)); }
void resolveConjKernel(KernelCall& call) {
  if (isShownConjugate(call.tensor(0))) return call.setResult(cloneTensor(call.tensor(0)));
  selfKernel(call);
}

}  // namespace

void registerComplexOps(OpRegistry& ops) {
  ops.add({.schema = "aten::complex",
           .infer = inferFromParts,
           .kernel = fromPartsKernel<[](double a, double b) { return C128(a, b); }>,
           .convert = convertFromParts});
  ops.add(
      {.schema = "aten::polar",
       .infer = inferFromParts,
       .kernel = fromPartsKernel<[](double r, double angle) { return C128(r * std::cos(angle), r * std::sin(angle)); }>,
       .convert = convertFromPolar});

  ops.add({.schema = "aten::real", .infer = inferReal, .kernel = realKernel, .dtypes = kMovedTypes});
  ops.add({.schema = "aten::imag", .infer = inferImag, .kernel = imagKernel, .dtypes = kAllTypes});
  constexpr TraitSet kMinds{Trait::MindsStrides};
  ops.add({.schema = "aten::view_as_real",
           .infer = inferViewAsReal,
           .kernel = viewAsRealKernel,
           .dtypes = kAllTypes,
           .traits = kMinds});
  ops.add({.schema = "aten::view_as_complex",
           .infer = inferViewAsComplex,
           .kernel = viewAsComplexKernel,
           .dtypes = kAllTypes,
           .traits = kMinds});

  addAliases(ops, {"aten::conj", "aten::_conj"},
             {.infer = inferSameAsSelf,
              .kernel = conjKernel,
              .convert = convertConjugate,
              .dtypes = kMovedTypes,
              .traits = {Trait::ShowsConjugates}});
  constexpr TraitSet kMaySelf{Trait::MayShare, Trait::GivesViews};
  ops.add({.schema = "aten::_conj_physical",
           .infer = inferSameAsSelf,
           .kernel = conjPhysicalKernel,
           .convert = convertConjugate,
           .dtypes = kMovedTypes,
           .traits = kMaySelf});
  ops.add({.schema = "aten::conj_physical",
           .infer = inferSameAsSelf,
           .kernel = conjPhysicalKernel,
           .convert = convertConjugate,
           .dtypes = kMovedTypes,
           .inplace = InPlace::Direct,
           .traits = kMaySelf});
  ops.add(
      {.schema = "aten::resolve_conj", .infer = inferSameAsSelf, .kernel = resolveConjKernel, .dtypes = kMovedTypes});
  ops.add({.schema = "aten::resolve_neg", .infer = inferSameAsSelf, .kernel = selfKernel, .dtypes = kMovedTypes});
}

}  // namespace tscompile
