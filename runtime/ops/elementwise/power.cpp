// Powers. Some exponents have formulas of their own, which differ from the general one in the last digit and at
// infinity.
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/arithmetic.h"

namespace tscompile {
namespace {

template <class V>
V power(V a, V b) {
  if constexpr (std::is_same_v<V, int64_t>)
    return wrapPow(a, b);
  else
    return pow(a, b);
}

// base ** exponent, both converted to `dtype`.
void generalPower(KernelCall& call, DType dtype) {
  if (isIntegral(dtype, true))
    mapElements<kI64, 2>(call, dtype, [](auto a, auto b) { return power(a, b); });
  else
    mapElements<kVectors | kC128, 2>(call, dtype, [](auto a, auto b) { return power(a, b); });
}

// Runs `f` over the base alone.
template <class F>
void mapBase(KernelCall& call, DType dtype, const F& f) {
  mapElements<kFloats | kC128, 1>(call, dtype, f);
}

// A tensor to the power of a number.
void numberPower(KernelCall& call, DType dtype) {
  const IValue& exponent = call.argument(1);
  if (isIntegral(dtype, true)) {
    ScalarArgument value(call, 1, dtype);
    call.require(value.as<int64_t>() >= 0, "integers to negative integer powers are not allowed");
    return generalPower(call, dtype);
  }
  if (exponent.isComplex() && exponent.toComplex().imag() != 0) return generalPower(call, dtype);
  double e = call.number(1);
  if (dtype == DType::BFloat16 && (e == 3 || e == -2))  // the square is rounded, too
    return mapElements<kF32, 1>(call, dtype, [=](float x) {
      const auto square = static_cast<float>(BFloat16(x * x));
      return e == 3 ? square * x : 1 / square;
    });
  if (e == 0) return mapBase(call, dtype, [](auto x) { return decltype(x)(1); });
  if (e == 1) return mapBase(call, dtype, [](auto x) { return x; });
  if (e == 2) return mapBase(call, dtype, [](auto x) { return times(x, x); });
  if (e == 0.5) return mapBase(call, dtype, [](auto x) { return std::sqrt(x); });
  if (e == 3) return mapBase(call, dtype, [](auto x) { return times(times(x, x), x); });
  if (e == -0.5) return mapBase(call, dtype, [](auto x) { return quotient(decltype(x)(1), std::sqrt(x)); });
  if (e == -1) return mapBase(call, dtype, [](auto x) { return quotient(decltype(x)(1), x); });
  if (e == -2) return mapBase(call, dtype, [](auto x) { return quotient(decltype(x)(1), times(x, x)); });
  generalPower(call, dtype);
}

// bool to a bool number counts as int64.
DType powerDType(DType promoted, bool hasNumber) {
  return promoted == DType::Bool && hasNumber ? DType::Int64 : promoted;
}

void inferPower(InferCall& call) {
  bool hasNumber = !call.isTensor(0) || !call.isTensor(1);
  resultBroadcast(call, powerDType(promotedDType(call, 2), hasNumber), 2);
}
void tensorPowerKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 2);
  if (dtype == DType::Bool) refuseDType(dtype);
  generalPower(call, dtype);
}
void numberPowerKernel(KernelCall& call) { numberPower(call, powerDType(promotedDType(call, 2), true)); }
// The result lies in rows, as in PyTorch.
void powerOfNumberKernel(KernelCall& call) {
  call.out();
  generalPower(call, powerDType(promotedDType(call, 2), true));
}

// float_power computes in float64, or in complex128.
DType widest(DType promoted) {
  if (promoted == DType::Undefined) return promoted;
  return isComplex(promoted) ? DType::Complex128 : DType::Float64;
}
void inferFloatPower(InferCall& call) {
  DType dtype = widest(promotedDType(call, 2));
  if (call.op().isInPlaceVariant())
    call.require(call.tensor(0).dtype == dtype, "the base must be {} as the result is, not {}", pythonName(dtype),
                 pythonName(call.tensor(0).dtype));
  resultBroadcast(call, dtype, 2);
}
void floatPowerKernel(KernelCall& call) {
  DType dtype = call.spec().dtype;
  call.argument(1).isTensor() ? generalPower(call, dtype) : numberPower(call, dtype);
}

int powerSteps(StepBuilder& b) {
  int x = b.value(0);
  const IValue& e = b.call().argument(1);
  if (e.isNumber() && !e.isComplex()) {
    double p = e.toDouble();
    if (p == 2) return b.step(PointwiseOp::Square, x);
    if (p == 1) return b.step(PointwiseOp::Copy, x);
    if (p == 0.5) return b.step(PointwiseOp::Sqrt, x);
    if (p == -0.5) return b.step(PointwiseOp::Rsqrt, x);
    if (p == -1) return b.step(PointwiseOp::Reciprocal, x);
    if (p == -2) return b.step(PointwiseOp::Reciprocal, b.step(PointwiseOp::Square, x));
    if (p == 3) return b.step(PointwiseOp::Mul, b.step(PointwiseOp::Square, x), x);
  }
  return b.step(PointwiseOp::Pow, x, b.value(1));
}
// The square, which is rounded, too, is a tensor of its own.
void convertPower(ConvertCall& call) {
  const IValue &x = call.argument(0), &exponent = call.argument(1);
  const bool isNumber = exponent.isNumber() && !exponent.isComplex();
  if (call.spec().dtype != DType::BFloat16 || !isNumber || (exponent.toDouble() != 3 && exponent.toDouble() != -2))
    return convertPointwise<powerSteps>(call);
  const IValue square = call.compute("aten::mul.Tensor", {x, x});
  call.setResult(exponent.toDouble() == 3 ? call.compute("aten::mul.Tensor", {square, x})
                                          : call.compute("aten::reciprocal", {square}));
}

}  // namespace

void registerPowerOps(OpRegistry& ops) {
  auto add = [&](std::string_view name, InferFunction infer, KernelFunction kernel, InPlace inplace,
                 ConvertFunction convert = nullptr) {
    ops.add({.schema = name,
             .infer = infer,
             .kernel = kernel,
             .convert = convert,
             .dtypes = kAllTypes,
             .inplace = inplace,
             .traits = {Trait::Elementwise},
             .cost = Cost::Function});
  };
  add("aten::pow.Tensor_Tensor", inferPower, tensorPowerKernel, InPlace::No, convertPointwise<powerSteps>);
  add("aten::pow.Tensor_Scalar", inferPower, numberPowerKernel, InPlace::No, convertPower);
  add("aten::pow.Scalar", inferPower, powerOfNumberKernel, InPlace::No, convertPointwise<powerSteps>);
  add("aten::pow_.Tensor", inferPower, tensorPowerKernel, InPlace::Direct);
  add("aten::pow_.Scalar", inferPower, numberPowerKernel, InPlace::Direct);
  add("aten::float_power.Tensor_Tensor", inferFloatPower, floatPowerKernel, InPlace::No);
  add("aten::float_power.Tensor_Scalar", inferFloatPower, floatPowerKernel, InPlace::No);
  add("aten::float_power.Scalar", inferFloatPower, floatPowerKernel, InPlace::No);
  add("aten::float_power_.Tensor", inferFloatPower, floatPowerKernel, InPlace::Direct);
  add("aten::float_power_.Scalar", inferFloatPower, floatPowerKernel, InPlace::Direct);
}

}  // namespace tscompile
