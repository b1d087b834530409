// Division with all its ways of rounding, and remainders.
#include "runtime/engine/layers/alone/map_layer.h"
#include "runtime/engine/layers/half_tensors.h"
#include "runtime/engine/layers/pointwise_steps.h"
#include "runtime/ops/elementwise/complex_parts.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/half_operands.h"
#include "runtime/reference/loops/arithmetic.h"

#include <cmath>
#include <functional>

namespace tscompile {
namespace {

enum class Rounding { None, Trunc, Floor };

template <class Call>
Rounding roundingMode(const Call& call) {
  if (call.isNone(2)) return Rounding::None;
  std::string mode(call.text(2));
  call.require(mode == "trunc" || mode == "floor",
               "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found '{}'", mode);
  return mode == "trunc" ? Rounding::Trunc : Rounding::Floor;
}

int64_t checked(int64_t divisor) {
  if (divisor == 0) [[unlikely]]
    throw ExecutionError(ErrorKind::Model, "ZeroDivisionError");
  return divisor;
}

template <class T, class Round>
T divideTrunc(T a, T b, Round round) {
  if constexpr (std::is_same_v<T, int64_t>)
    return truncDiv(a, checked(b));
  else
    return std::trunc(round(a / b));
}

// floorDivFloat with rounded steps.
template <class Round>
float floorDivInSteps(float a, float b, Round round) {
  if (b == 0) return a / b;
  const float rest = std::fmod(a, b);
  float quotient = round(round(a - rest) / b);
  if (rest != 0 && (b < 0) != (rest < 0)) quotient = round(quotient - 1);
  if (quotient == 0) return std::copysign(0.F, a / b);
  const float whole = std::floor(quotient);
  return round(quotient - whole) > 0.5F ? whole + 1 : whole;
}
template <class T, class Round>
T divideFloor(T a, T b, Round round) {
  if constexpr (std::is_same_v<T, int64_t>)
    return floorDiv(a, checked(b));
  else if constexpr (std::is_same_v<Round, std::identity>)
    return floorDivFloat(a, b);
  else
    return floorDivInSteps(a, b, round);
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

constexpr auto kRemainderOf = [](auto a, auto b) { return remainder(a, b); };
constexpr auto kTruncatedRemainder = [](auto a, auto b) { return truncatedRemainder(a, b); };

// Integers and floats, not bool.
template <auto kF, class Call = KernelCall>
void realKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (dtype == DType::Bool) refuseDType(dtype);
  mapElements<kReals, 2>(call, dtype, kF);
}

template <auto kF, class Call = KernelCall>
void roundedQuotientKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (dtype == DType::Bool) refuseDType(dtype);
  const bool isStepwise = isHalf(dtype) && !hasOneFactor(call);
  dtype = factorDType(call, dtype);
  auto inSteps = [&](auto round) {
    mapElements<kF32, 2>(call, dtype, [=](float a, float b) { return kF(a, b, round); });
  };
  if (isStepwise && dtype == DType::Float16) return inSteps(RoundedTo<Half>());
  if (isStepwise) return inSteps(RoundedTo<BFloat16>());
  mapElements<kReals, 2>(call, dtype, [](auto a, auto b) { return kF(a, b, std::identity()); });
}
// Quotients of halves are rounded to 16 bits before they are cut off, which no loop of steps does.
template <PointwiseSteps kSteps, MapBody kBody>
void convertRoundedQuotient(ConvertCall& call) {
  const DType dtype = call.spec().dtype;
  if (isHalf(dtype) && !hasOneFactor(call)) return convertByBody(call, kBody);
  convertStepsOrBody(call, kSteps, kBody);
}

template <class Call>
void trueDivideKernel(Call& call) {
  const DType dtype = factorDType(call, promotedDType(call, 2));
  mapElements<kFloats | kC128, 2>(call, dtype, [](auto a, auto b) { return quotient(a, b); });
}

void inferDivideMode(InferCall& call) {
  roundingMode(call) == Rounding::None ? inferFloatBinary(call) : inferBinary(call);
}

constexpr auto kTruncated = [](auto a, auto b, auto round) { return divideTrunc(a, b, round); };
constexpr auto kFloored = [](auto a, auto b, auto round) { return divideFloor(a, b, round); };
template <class Call>
void divideModeKernel(Call& call) {
  switch (roundingMode(call)) {
    case Rounding::None:
      return trueDivideKernel(call);
    case Rounding::Trunc:
      return roundedQuotientKernel<kTruncated>(call);
    case Rounding::Floor:
      return roundedQuotientKernel<kFloored>(call);
  }
}

// Integers are divided by a power of two, that is known and more than 1, by their bits; 0 for all other divisors.
int64_t knownPowerOfTwo(const StepBuilder& b) {
  auto isWide = [](DType d) { return d == DType::Int64 || d == DType::Int32; };
  const IValue &x = b.call().argument(0), &divisor = b.call().argument(1);
  if (!divisor.isInt() || !x.isTensor() || !isWide(x.toTensor().dtype()) || !isWide(b.call().spec().dtype)) return 0;
  const int64_t n = divisor.toInt();
  return n > 1 && n < (int64_t{1} << 31) && (n & (n - 1)) == 0 ? n : 0;
}
int remainderSteps(StepBuilder& b) {
  const int64_t n = knownPowerOfTwo(b);
  if (n == 0) return singleStep<PointwiseOp::Remainder>(b);
  return b.step(PointwiseOp::BitAnd, b.value(0), b.constant(static_cast<double>(n - 1)));
}
int floorDivideSteps(StepBuilder& b) {
  const int64_t n = knownPowerOfTwo(b);
  if (n == 0) return singleStep<PointwiseOp::FloorDiv>(b);
  return b.step(PointwiseOp::ShiftRight, b.value(0), b.constant(std::log2(static_cast<double>(n))));
}

int divideModeSteps(StepBuilder& b) {
  switch (roundingMode(b.call())) {
    case Rounding::None:
      return singleStep<PointwiseOp::Div>(b);
    case Rounding::Trunc:
      return b.step(PointwiseOp::Trunc, singleStep<PointwiseOp::Div>(b));
    case Rounding::Floor:
      break;
  }
  return floorDivideSteps(b);
}
void convertDivideMode(ConvertCall& call) {
  if (roundingMode(call) == Rounding::None)
    return convertStepsOrBody(call, divideModeSteps, trueDivideKernel<ConvertCall>);
  convertRoundedQuotient<divideModeSteps, divideModeKernel<ConvertCall>>(call);
}

}  // namespace

void registerDivisionOps(OpRegistry& ops) {
  // Of 16 bits their steps are rounded, which kernels know.
  constexpr TraitSet kRoundedSteps{Trait::Elementwise, Trait::ReadsLimits};
  auto add = [&](std::initializer_list<std::string_view> names, InferFunction infer, KernelFunction kernel,
                 ConvertFunction convert, TraitSet traits = {Trait::Elementwise}) {
    addAliases(ops, names,
               {.infer = infer,
                .kernel = kernel,
                .convert = convert,
                .dtypes = kAllTypes,
                .inplace = InPlace::Direct,
                .traits = traits});
  };
  add({"aten::div.Tensor", "aten::div.Scalar", "aten::divide.Tensor", "aten::divide.Scalar", "aten::true_divide.Tensor",
       "aten::true_divide.Scalar"},
      inferFloatBinary, trueDivideKernel<KernelCall>,
      convertNumbers<singleStep<PointwiseOp::Div>, convertComplexQuotient, trueDivideKernel<ConvertCall>>,
      {Trait::Elementwise, Trait::RoundsOnce});
  add({"aten::div.Tensor_mode", "aten::div.Scalar_mode", "aten::divide.Tensor_mode", "aten::divide.Scalar_mode"},
      inferDivideMode, divideModeKernel<KernelCall>, convertDivideMode, kRoundedSteps);
  add({"aten::floor_divide", "aten::floor_divide_.Tensor", "aten::floor_divide.Scalar"}, inferBinary,
      roundedQuotientKernel<kFloored>,
      convertRoundedQuotient<floorDivideSteps, roundedQuotientKernel<kFloored, ConvertCall>>, kRoundedSteps);
  constexpr KernelFunction kRemainder = realKernel<kRemainderOf>;
  add({"aten::remainder.Tensor", "aten::remainder.Scalar"}, inferBinary, kRemainder,
      convertStepsOr<remainderSteps, realKernel<kRemainderOf, ConvertCall>>);
  add({"aten::fmod.Tensor", "aten::fmod.Scalar"}, inferBinary, realKernel<kTruncatedRemainder>,
      convertStepsOr<singleStep<PointwiseOp::Fmod>, realKernel<kTruncatedRemainder, ConvertCall>>);
  ops.add({.schema = "aten::remainder.Scalar_Tensor",
           .infer = inferBinary,
           .kernel = kRemainder,
           .convert = convertStepsOr<singleStep<PointwiseOp::Remainder>, realKernel<kRemainderOf, ConvertCall>>,
           .dtypes = kAllTypes,
           .traits = {Trait::Elementwise}});
}

}  // namespace tscompile
