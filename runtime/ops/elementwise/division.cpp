// Division with all its ways of rounding, and remainders.
#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/elementwise.h"
#include "runtime/reference/loops/arithmetic.h"

namespace tscompile {
namespace {

enum class Rounding { None, Trunc, Floor };

template <class Call>
Rounding roundingMode(const Call& call) {
  if (call.isNone(2)) return Rounding::None;
  std::string mode(call.text(2));
  call.require(mode == "trunc" || mode == "floor", "the rounding mode must be None, 'trunc' or 'floor', not '{}'",
               mode);
  return mode == "trunc" ? Rounding::Trunc : Rounding::Floor;
}

int64_t checked(int64_t divisor) {
  if (divisor == 0) [[unlikely]]
    throw ExecutionError(ErrorKind::Model, "division of an integer by zero");
  return divisor;
}

template <class T>
T divideTrunc(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return truncDiv(a, checked(b));
  else
    return std::trunc(a / b);
}
template <class T>
T divideFloor(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return floorDiv(a, checked(b));
  else
    return floorDivFloat(a, b);
}
template <class T>
T remainder(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return floorMod(a, checked(b));
  else
    return floorModFloat(a, b);
}
template <class T>
T truncatedRemainder(T a, T b) {
  if constexpr (std::is_same_v<T, int64_t>)
    return truncMod(a, checked(b));
  else
    return std::fmod(a, b);
}

// Integers and floats, not bool.
template <auto kF>
void realKernel(KernelCall& call) {
  DType dtype = promotedDType(call, 2);
  if (dtype == DType::Bool) refuseDType(dtype);
  mapElements<kReals, 2>(call, dtype, kF);
}

void trueDivideKernel(KernelCall& call) {
  mapInputs<kFloats | kC128, 2>(call, [](auto a, auto b) { return quotient(a, b); });
}

void inferDivideMode(InferCall& call) {
  roundingMode(call) == Rounding::None ? inferFloatBinary(call) : inferBinary(call);
}

void divideModeKernel(KernelCall& call) {
  switch (roundingMode(call)) {
    case Rounding::None:
      return trueDivideKernel(call);
    case Rounding::Trunc:
      return realKernel<[](auto a, auto b) { return divideTrunc(a, b); }>(call);
    case Rounding::Floor:
      return realKernel<[](auto a, auto b) { return divideFloor(a, b); }>(call);
  }
}

}  // namespace

void registerDivisionOps(OpRegistry& ops) {
  auto add = [&](std::initializer_list<std::string_view> names, InferFunction infer, KernelFunction kernel,
                 DTypeSet dtypes = kAllTypes) {
    addAliases(ops, names, {.infer = infer, .kernel = kernel, .dtypes = dtypes, .inplace = InPlace::Direct});
  };
  add({"aten::div.Tensor", "aten::div.Scalar", "aten::divide.Tensor", "aten::divide.Scalar", "aten::true_divide.Tensor",
       "aten::true_divide.Scalar"},
      inferFloatBinary, trueDivideKernel);
  add({"aten::div.Tensor_mode", "aten::div.Scalar_mode", "aten::divide.Tensor_mode", "aten::divide.Scalar_mode"},
      inferDivideMode, divideModeKernel);
  add({"aten::floor_divide", "aten::floor_divide_.Tensor", "aten::floor_divide.Scalar"}, inferBinary,
      realKernel<[](auto a, auto b) { return divideFloor(a, b); }>);
  add({"aten::remainder.Tensor", "aten::remainder.Scalar"}, inferBinary,
      realKernel<[](auto a, auto b) { return remainder(a, b); }>);
  add({"aten::fmod.Tensor", "aten::fmod.Scalar"}, inferBinary,
      realKernel<[](auto a, auto b) { return truncatedRemainder(a, b); }>);
  ops.add({.schema = "aten::remainder.Scalar_Tensor",
           .infer = inferBinary,
           .kernel = realKernel<[](auto a, auto b) { return remainder(a, b); }>,
           .dtypes = kAllTypes});
  ops.convertWith(convertPointwise, {"aten::div"});
}

}  // namespace tscompile
