// Comparisons, logic on truth values, closeness, membership.
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/pytorch_words.h"
#include "runtime/reference/views.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// ---- isclose, allclose, equal ----

void inferIsclose(InferCall& call) {
  DType a = call.tensor(0).dtype, b = call.tensor(1).dtype;
  call.require(a == b || a == DType::Undefined || b == DType::Undefined,
               "the tensors must have one dtype, not {} and {}", pythonName(a), pythonName(b));
  for (size_t i : {2, 3})
    if (call.constant(i))
      call.require(call.number(i) >= 0, "tolerances must not be negative, but one is {}", call.number(i));
  inferComparison(call);
}

// |a - b| <= atol + rtol |b|, where equal infinities are close and NaN may be.
void iscloseKernel(KernelCall& call) {
  double rtol = call.number(2), atol = call.number(3);
  bool equalNan = call.flag(4);
  mapInputs<kFloats | kC128, 2>(call, [=](auto a, auto b) {
    using Real = decltype(std::abs(a));
    if (a == b) return true;
    if (equalNan && a != a && b != b) return true;
    Real difference = std::abs(a - b);
    return difference <= Real(atol) + std::abs(Real(rtol) * b) && difference < std::numeric_limits<Real>::infinity();
  });
}

// Whether an operator with the same arguments gives a tensor that holds true alone.
bool allTrue(const Tensor& t) {
  const bool* p = t.data<bool>();
  return std::all_of(p, p + t.numel(), [](bool b) { return b; });
}

void allcloseKernel(KernelCall& call) {
  IValue close;
  InferCall infer(call.op(), call.arguments(), call.size());
  inferIsclose(infer);
  KernelCall inner(call.op(), call.arguments(), call.size(), &infer, &close, 1, call.context());
  inner.out();  // contiguous
  iscloseKernel(inner);
  call.setResult(allTrue(close.toTensor()));
}

void equalKernel(KernelCall& call) {
  Tensor a = call.tensor(0), b = call.tensor(1);
  if (!std::ranges::equal(a.sizes(), b.sizes())) return call.setResult(false);
  Tensor same = Tensor::empty(DType::Bool, a.sizes());
  mapTensors<kNumbers>(
      promotedDType(call, 2), [](auto x, auto y) { return x == y; }, same, a, b);
  call.setResult(allTrue(same));
}

int iscloseSteps(StepBuilder& b) {
  const int x = b.value(0), y = b.value(1), distance = b.step(PointwiseOp::Abs, b.step(PointwiseOp::Sub, x, y));
  const int part = b.step(PointwiseOp::Abs, b.step(PointwiseOp::Mul, b.constant(b.number(2)), y));
  const int isNear = b.step(PointwiseOp::Le, distance, b.step(PointwiseOp::Add, b.constant(b.number(3)), part));
  const int isFinite = b.step(PointwiseOp::Lt, distance, b.constant(std::numeric_limits<double>::infinity()));
  const int is = b.step(PointwiseOp::Or, b.step(PointwiseOp::Eq, x, y), b.step(PointwiseOp::And, isNear, isFinite));
  if (!b.call().flag(4)) return is;
  return b.step(PointwiseOp::Or, is,
                b.step(PointwiseOp::And, b.step(PointwiseOp::IsNan, x), b.step(PointwiseOp::IsNan, y)));
}

// ---- isin ----

void inferIsin(InferCall& call) {
  for (size_t i = 0; i < 2; ++i) {
    if (!call.isTensor(i)) continue;
    const DType dtype = call.tensor(i).dtype;
    call.require(dtype != DType::Bool && !isComplex(dtype), "Unsupported input type encountered for isin(): {}",
                 graphName(dtype));
  }
  if (call.isTensor(0))
    call.result(call.tensor(0), DType::Bool);
  else
    call.result(DType::Bool, Dims());
}

template <class T>
void markMembers(const Tensor& out, const Tensor& elements, Tensor tests, bool invert) {
  tests = tests.dtype() == kDTypeOf<T> ? cloneTensor(contiguous(tests)) : convertTensor(tests, kDTypeOf<T>);
  T* first = tests.data<T>();
  // NaN equals nothing, and has no place in an order.
  T* last = std::remove_if(first, first + tests.numel(), [](T x) { return x != x; });
  std::sort(first, last);
  mapTensors<kReals>(
      kDTypeOf<T>, [=](auto x) { return (x == x && std::binary_search(first, last, static_cast<T>(x))) != invert; },
      out, elements);
}

// PyTorch compares with each one of few tests, which it views as a row.
void requireRow(const KernelCall& call, int64_t elements, const Tensor& tests, DType dtype) {
  if (!elements || static_cast<double>(tests.numel()) >= 10 * std::pow(static_cast<double>(elements), 0.145)) return;
  const Tensor* like[] = {&tests};
  const Tensor seen = tests.dtype() == dtype
                          ? tests
                          : Tensor::emptyStrided(dtype, tests.sizes(), elementwiseStrides(tests.sizes(), like));
  call.require(viewStrides(seen, Dims{seen.numel()}).has_value(), "{}", kNoSuchView);
}

void isinKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 2);
  if (call.argument(1).isTensor()) requireRow(call, call.out().numel(), call.tensor(1), dtype);
  Tensor elements = convertedFor(operandTensor(call, 0), dtype), tests = convertedFor(operandTensor(call, 1), dtype);
  Tensor out = call.out();
  bool invert = call.flag(3);
  switch (computeTypeOf(dtype)) {
    case Compute::F32:
      return markMembers<float>(out, elements, tests, invert);
    case Compute::F64:
      return markMembers<double>(out, elements, tests, invert);
    default:
      return markMembers<int64_t>(out, elements, tests, invert);
  }
}

template <TypeSet kTypes, PointwiseOp kStep, auto kF>
void registerComparison(OpRegistry& ops, std::initializer_list<std::string_view> names, TraitSet traits = {}) {
  addAliases(ops, names,
             {.infer = inferComparison,
              .kernel = binaryKernel<kTypes, kF>,
              .convert = convertPointwise<kStep>,
              .dtypes = kAllTypes,
              .inplace = InPlace::Direct,
              .traits = traits | TraitSet{Trait::Elementwise}});
}

template <class T>
bool truth(T x) {
  return x != T(0);
}

}  // namespace

void registerComparisonOps(OpRegistry& ops) {
  constexpr TraitSet kCommutative{Trait::Commutative};
  registerComparison<kNumbers, PointwiseOp::Eq, [](auto a, auto b) { return a == b; }>(
      ops, {"aten::eq.Tensor", "aten::eq.Scalar"}, kCommutative);
  registerComparison<kNumbers, PointwiseOp::Ne, [](auto a, auto b) { return a != b; }>(
      ops, {"aten::ne.Tensor", "aten::ne.Scalar", "aten::not_equal.Tensor", "aten::not_equal.Scalar"}, kCommutative);
  registerComparison<kReals, PointwiseOp::Lt, [](auto a, auto b) { return a < b; }>(
      ops, {"aten::lt.Tensor", "aten::lt.Scalar", "aten::less.Tensor", "aten::less.Scalar"});
  registerComparison<kReals, PointwiseOp::Le, [](auto a, auto b) { return a <= b; }>(
      ops, {"aten::le.Tensor", "aten::le.Scalar", "aten::less_equal.Tensor", "aten::less_equal.Scalar"});
  registerComparison<kReals, PointwiseOp::Gt, [](auto a, auto b) { return b < a; }>(
      ops, {"aten::gt.Tensor", "aten::gt.Scalar", "aten::greater.Tensor", "aten::greater.Scalar"});
  registerComparison<kReals, PointwiseOp::Ge, [](auto a, auto b) { return b <= a; }>(
      ops, {"aten::ge.Tensor", "aten::ge.Scalar", "aten::greater_equal.Tensor", "aten::greater_equal.Scalar"});
  registerComparison<kNumbers, PointwiseOp::And, [](auto a, auto b) { return truth(a) && truth(b); }>(
      ops, {"aten::logical_and"}, kCommutative);
  registerComparison<kNumbers, PointwiseOp::Or, [](auto a, auto b) { return truth(a) || truth(b); }>(
      ops, {"aten::logical_or"}, kCommutative);
  registerComparison<kNumbers, PointwiseOp::Xor, [](auto a, auto b) { return truth(a) != truth(b); }>(
      ops, {"aten::logical_xor"}, kCommutative);
  ops.add({.schema = "aten::logical_not",
           .infer = inferPredicate,
           .kernel = unaryKernel<kNumbers, [](auto x) { return !truth(x); }>,
           .convert = convertPointwise<PointwiseOp::Not>,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = {Trait::Elementwise}});

  ops.add({.schema = "aten::isclose",
           .infer = inferIsclose,
           .kernel = iscloseKernel,
           .convert = convertPointwise<iscloseSteps>,
           .dtypes = kAllTypes});
  constexpr TraitSet kAsks{Trait::DependsOnElements};
  ops.add({.schema = "aten::allclose", .kernel = allcloseKernel, .dtypes = kAllTypes, .traits = kAsks});
  ops.add({.schema = "aten::equal", .kernel = equalKernel, .dtypes = kAllTypes, .traits = kAsks});
  addAliases(ops, {"aten::isin.Tensor_Tensor", "aten::isin.Tensor_Scalar", "aten::isin.Scalar_Tensor"},
             {.infer = inferIsin, .kernel = isinKernel, .dtypes = kAllTypes});
}

}  // namespace tscompile
