// Clamping, and the greater or the lesser of two tensors. NaN wins everywhere but in fmax and fmin.
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/arithmetic.h"

namespace tscompile {
namespace {

// ---- clamp with numbers or tensors as bounds, each of which may be None ----

template <size_t kCount>
void inferClamp(InferCall& call) {
  if constexpr (kCount == 3)
    call.require(!call.isNone(1) || !call.isNone(2), "torch.clamp: At least one of 'min' or 'max' must not be None");
  DType dtype = promotedDType(call, kCount);
  call.require(!isComplex(dtype), "clamp is not supported for complex types");
  // A single tensor is what maximum and minimum take.
  bool asExtremum = kCount == 3 && (call.isNone(1) ? call.isTensor(2) : call.isTensor(1) && call.isNone(2));
  call.require(dtype != DType::Bool || asExtremum, "\"{}\" not implemented for 'Bool'",
               call.isTensor(1) ? "clamp_cpu" : "clamp_scalar_cpu");
  resultBroadcast(call, dtype, kCount);
}

// A number as a bound: of uint8 modulo 256, as PyTorch takes it.
template <class T>
T boundOf(const ScalarArgument& bound, DType dtype) {
  if constexpr (std::is_same_v<T, int64_t>)
    if (dtype == DType::UInt8) return static_cast<uint8_t>(bound.as<T>());
  return bound.as<T>();
}

// Where a bound is NaN, so is everything.
void atLeast(KernelCall& call, DType dtype, size_t bound) {
  ScalarArgument low(call, bound, dtype);
  mapElements<kReals, 1>(call, dtype, [=](auto x) { return greater(x, boundOf<decltype(x)>(low, dtype)); });
}
void atMost(KernelCall& call, DType dtype, size_t bound) {
  ScalarArgument high(call, bound, dtype);
  mapElements<kReals, 1>(call, dtype, [=](auto x) { return lesser(x, boundOf<decltype(x)>(high, dtype)); });
}

void clampKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 3);
  if (call.isNone(2)) return atLeast(call, dtype, 1);
  if (call.isNone(1)) return atMost(call, dtype, 2);
  ScalarArgument low(call, 1, dtype), high(call, 2, dtype);
  mapElements<kReals, 1>(call, dtype, [=](auto x) {
    using T = decltype(x);
    return clamped(x, boundOf<T>(low, dtype), boundOf<T>(high, dtype));
  });
}
void clampMinKernel(KernelCall& call) { atLeast(call, promotedDType(call, 2), 1); }
void clampMaxKernel(KernelCall& call) { atMost(call, promotedDType(call, 2), 1); }

void clampTensorsKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 3);
  if (!call.isNone(1) && !call.isNone(2))
    return mapElements<kReals, 3>(call, dtype, [](auto x, auto l, auto h) { return clamped(x, l, h); });
  if (call.isNone(2)) return mapElements<kReals, 2>(call, dtype, [](auto x, auto l) { return greater(x, l); });
  Tensor x = call.tensor(0), high = call.tensor(2);
  mapTensors<kReals>(
      dtype, [](auto v, auto h) { return lesser(v, h); }, elementwiseOutput(call, {&x, &high}), x, high);
}

int clampBetween(StepBuilder& b, double low, double high) {
  if (std::isnan(low) || std::isnan(high)) return b.step(PointwiseOp::Add, b.value(0), b.constant(NAN));
  return b.stepWith(low, high, PointwiseOp::Clamp, b.value(0));
}
int clampSteps(StepBuilder& b) {
  return clampBetween(b, b.call().isNone(1) ? -INFINITY : b.number(1), b.call().isNone(2) ? INFINITY : b.number(2));
}
int clampMinSteps(StepBuilder& b) { return clampBetween(b, b.number(1), INFINITY); }
int clampMaxSteps(StepBuilder& b) { return clampBetween(b, -INFINITY, b.number(1)); }
int clampTensorsSteps(StepBuilder& b) {
  int x = b.value(0);
  if (!b.call().isNone(1)) x = b.step(PointwiseOp::Max, x, b.value(1));
  return b.call().isNone(2) ? x : b.step(PointwiseOp::Min, x, b.value(2));
}

// The other one, where one is NaN.
template <PointwiseOp kOp>
int withoutNan(StepBuilder& b) {
  const int x = b.value(0), y = b.value(1);
  const int known = b.step(PointwiseOp::Where, b.step(PointwiseOp::IsNan, y), x, b.step(kOp, x, y));
  return b.step(PointwiseOp::Where, b.step(PointwiseOp::IsNan, x), y, known);
}

}  // namespace

void registerClampOps(OpRegistry& ops) {
  auto add = [&](std::initializer_list<std::string_view> names, InferFunction infer, KernelFunction kernel,
                 ConvertFunction convert, InPlace inplace) {
    addAliases(
        ops, names,
        {.infer = infer, .kernel = kernel, .convert = convert, .inplace = inplace, .traits = {Trait::Elementwise}});
  };
  add({"aten::clamp", "aten::clip"}, inferClamp<3>, clampKernel, convertPointwise<clampSteps>, InPlace::Direct);
  add({"aten::clamp.Tensor", "aten::clip.Tensor"}, inferClamp<3>, clampTensorsKernel,
      convertPointwise<clampTensorsSteps>, InPlace::Direct);
  add({"aten::clamp_min"}, inferClamp<2>, clampMinKernel, convertPointwise<clampMinSteps>, InPlace::Direct);
  add({"aten::clamp_max"}, inferClamp<2>, clampMaxKernel, convertPointwise<clampMaxSteps>, InPlace::Direct);
  constexpr KernelFunction kMaximum = binaryKernel<kReals, [](auto a, auto b) { return greater(a, b); }>;
  constexpr KernelFunction kMinimum = binaryKernel<kReals, [](auto a, auto b) { return lesser(a, b); }>;
  constexpr ConvertFunction kMax = convertPointwise<PointwiseOp::Max>, kMin = convertPointwise<PointwiseOp::Min>;
  add({"aten::clamp_min.Tensor"}, inferBinary, kMaximum, kMax, InPlace::Direct);
  add({"aten::clamp_max.Tensor"}, inferBinary, kMinimum, kMin, InPlace::Direct);
  add({"aten::maximum", "aten::max.other"}, inferBinary, kMaximum, kMax, InPlace::No);
  add({"aten::minimum", "aten::min.other"}, inferBinary, kMinimum, kMin, InPlace::No);
  add({"aten::fmax"}, inferBinary, binaryKernel<kReals, [](auto a, auto b) { return a >= b || b != b ? a : b; }>,
      convertPointwise<withoutNan<PointwiseOp::Max>>, InPlace::No);
  add({"aten::fmin"}, inferBinary, binaryKernel<kReals, [](auto a, auto b) { return a <= b || b != b ? a : b; }>,
      convertPointwise<withoutNan<PointwiseOp::Min>>, InPlace::No);
}

}  // namespace tscompile
