// Element-wise functions of one tensor: signs, rounding, powers, exponentials, logarithms, trigonometry.
#include "runtime/engine/layers/alone/map_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/ops/elementwise/complex_parts.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/dtype_range.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/special/complex_log.h"

#include <numbers>

namespace tscompile {
namespace {

using C128 = std::complex<double>;

constexpr double kPi = std::numbers::pi;

// ---- signs ----

double absolute(C128 x) { return std::abs(x); }
int64_t absolute(int64_t x) {  // without a branch, which signs in no order would make slow
  const auto sign = static_cast<uint64_t>(x >> 63);
  return static_cast<int64_t>((static_cast<uint64_t>(x) ^ sign) - sign);
}
template <std::floating_point T>
T absolute(T x) {
  return std::abs(x);
}

template <class T>
T negated(T x) {
  if constexpr (std::is_same_v<T, int64_t>)
    return wrapNeg(x);
  else
    return -x;
}

constexpr auto kNegated = [](auto x) { return negated(x); };

// -1, 0 or 1; NaN has the sign 0.
template <class T>
T sign(T x) {
  return static_cast<T>((T(0) < x) - (x < T(0)));
}

C128 direction(C128 x) { return x == 0.0 ? C128() : x / std::abs(x); }
template <class T>
T direction(T x) {
  return sign(x);
}

template <class T>
bool hasSignBit(T x) {
  if constexpr (std::is_same_v<T, int64_t>)
    return x < 0;
  else
    return std::signbit(x);
}

template <class T>
auto angle(T x) {
  if constexpr (std::is_same_v<T, C128>)
    return std::arg(x);
  else
    return x != x ? x : x < 0 ? T(kPi) : T(0);
}

void inferAbs(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.require(!isComplex(t.dtype) || !call.op().isInPlaceVariant(),
               "in-place abs is not supported for complex tensors");
  call.result(t, realPart(t.dtype));
}

void inferAngle(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.require(!isComplex(t.dtype) || !call.op().isInPlaceVariant(),
               "in-place angle is not supported for complex tensors");
  call.result(t, t.dtype == DType::Undefined ? t.dtype : toFloating(realPart(t.dtype)));
}

void angleKernel(KernelCall& call) {
  if (isComplex(call.tensor(0).dtype())) call.out();  // contiguous
  mapInputs<kFloats | kC128, 1>(call, [](auto x) { return angle(x); });
}

void positiveKernel(KernelCall& call) { call.setResult(call.argument(0)); }

// ---- rounding ----

// Rounding leaves integers as they are.
template <auto kF>
void roundingKernel(KernelCall& call) {
  mapInputs<kReals, 1>(call, [](auto x) {
    if constexpr (std::is_same_v<decltype(x), int64_t>)
      return x;
    else
      return kF(x);
  });
}

template <class Call>
void roundDecimalsKernel(Call& call) {
  int64_t decimals = call.integer(1);
  double power = std::pow(10.0, std::abs(static_cast<double>(decimals)));
  mapInputs<kFloats, 1>(call, [=](auto x) {
    using T = decltype(x);
    if (decimals == 0)
      return std::nearbyint(x);
    else
      return decimals < 0 ? std::nearbyint(x / T(power)) * T(power) : std::nearbyint(x * T(power)) / T(power);
  });
}

// ---- NaN and infinities ----

template <class T>
bool isNan(T x) {
  return x != x;
}
template <class T>
bool isInf(T x) {
  if constexpr (std::is_same_v<T, C128>)
    return std::isinf(x.real()) || std::isinf(x.imag());
  else if constexpr (std::is_same_v<T, int64_t>)
    return false;
  else
    return std::abs(x) == std::numeric_limits<T>::infinity();
}
template <class T>
bool isFinite(T x) {
  return !isNan(x) && !isInf(x);
}

void nanToNumKernel(KernelCall& call) {
  double most = largestNumber(realPart(call.spec().dtype));
  double nan = call.isNone(1) ? 0 : call.number(1);
  double high = call.isNone(2) ? most : call.number(2), low = call.isNone(3) ? -most : call.number(3);
  const auto ofReal = [=](auto x) {
    using T = decltype(x);
    constexpr T kInfinity = std::numeric_limits<T>::infinity();
    return x != x ? T(nan) : x == kInfinity ? T(high) : x == -kInfinity ? T(low) : x;
  };
  mapInputs<kNumbers, 1>(call, [=](auto x) {
    using T = decltype(x);
    if constexpr (std::is_same_v<T, int64_t>)
      return x;
    else if constexpr (std::is_same_v<T, C128>)
      return C128(ofReal(x.real()), ofReal(x.imag()));
    else
      return ofReal(x);
  });
}

int nanToNumSteps(StepBuilder& b) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  if (b.call().spec().dtype != DType::Float32) return b.fail(kNotF32);
  const double most = largestNumber(DType::Float32);
  auto given = [&](size_t i, double otherwise) { return b.constant(b.call().isNone(i) ? otherwise : b.number(i)); };
  const int x = b.value(0), isNan = b.step(PointwiseOp::IsNan, x);
  if (b.call().isNone(2) && b.call().isNone(3))
    return b.step(PointwiseOp::Where, isNan, given(1, 0), b.stepWith(-most, most, PointwiseOp::Clamp, x));
  const int known = b.step(PointwiseOp::Where, isNan, given(1, 0), x);
  const int isHigh = b.step(PointwiseOp::Eq, x, b.constant(kInfinity));
  const int low =
      b.step(PointwiseOp::Where, b.step(PointwiseOp::Eq, x, b.constant(-kInfinity)), given(3, -most), known);
  return b.step(PointwiseOp::Where, isHigh, given(2, most), low);
}

// The absolute value beside infinity.
template <PointwiseOp kOp>
int besideInfinity(StepBuilder& b) {
  return b.step(kOp, b.step(PointwiseOp::Abs, b.value(0)), b.constant(std::numeric_limits<double>::infinity()));
}

// ---- two results ----

void inferFrexp(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t);
  call.result(t, DType::Int32);
}

template <class T>
void frexpTile(const Tile& t) {
  auto* mantissa = static_cast<T*>(t.operand[0]);
  auto* exponent = static_cast<int64_t*>(t.operand[1]);
  auto* in = static_cast<const T*>(t.operand[2]);
  for (int64_t i = 0; i < t.n; ++i) {
    int e = 0;
    mantissa[i] = std::frexp(in[i], &e);
    exponent[i] = e;
  }
}

void frexpKernel(KernelCall& call) {
  Tensor t = call.tensor(0);
  Compute c = computeTypeOf(t.dtype());
  Tensor mantissa = elementwiseOutput(call, {&t});
  Tensor exponent = Tensor::emptyStrided(DType::Int32, mantissa.sizes(), mantissa.strides());
  Operand operands[] = {{mantissa, c}, {exponent, Compute::I64}, {t, c}};
  loopTiles(mantissa.sizes(), operands, 2, c == Compute::F64 ? frexpTile<double> : frexpTile<float>);
  call.setResult(1, exponent);
}

// ---- powers, logits, sinc ----

void inferSquare(InferCall& call) {
  TensorInfo t = call.tensor(0);
  call.result(t, t.dtype == DType::Bool ? DType::Int64 : t.dtype);
}

template <class T>
T squared(T x) {
  return times(x, x);
}

template <class V>
V binaryLogarithm(V x) {
  if constexpr (std::is_same_v<V, C128>)
    return std::log(x) / std::log(2.0);
  else
    return log2(x);
}

template <class T>
T sqrtOf(T x) {
  return std::sqrt(x);
}

template <class T>
T inverse(T x) {
  return quotient(T(1), x);
}

template <class V>
V logarithmOfSuccessor(V x) {
  if constexpr (std::is_same_v<V, C128>)
    return complexLog1p(x);
  else
    return log1p(x);
}

template <class V>
V exponentialLessOne(V x) {
  if constexpr (std::is_same_v<V, C128>) {
    const double half = std::sin(x.imag() / 2);
    return {std::expm1(x.real()) * std::cos(x.imag()) - 2 * half * half, std::exp(x.real()) * std::sin(x.imag())};
  } else {
    return expm1(x);
  }
}

template <class V>
V powerOfTwo(V x) {
  if constexpr (std::is_same_v<V, C128>)
    return std::exp(x * std::log(2.0));
  else
    return exp2(x);
}

template <class V>
V sinc(V x) {
  using T = Lane<V>;
  V y = x * T(kPi), quotient = sin(y) / y;
  if constexpr (Vector<V>)
    return select(x == 0, T(1), quotient);
  else
    return x == 0.0 ? V(1) : quotient;
}

template <class Call>
void sincKernel(Call& call) {
  mapInputs<kVectors | kC128, 1>(call, [](auto x) { return sinc(x); });
}

// In 16-bit floats every step is rounded.
template <class Narrow>
void narrowLogit(KernelCall& call, double eps) {
  auto rounded = [](float v) { return static_cast<float>(Narrow(v)); };
  const float low = rounded(static_cast<float>(eps)), high = rounded(1 - low);
  mapInputs<kF32, 1>(call, [=](float x) {
    if (eps >= 0) x = x < low ? low : x > high ? high : x;
    return std::log(rounded(x / rounded(1 - x)));
  });
}

void logitKernel(KernelCall& call) {
  double eps = call.isNone(1) ? -1 : call.number(1);
  const DType dtype = call.tensor(0).dtype();
  if (dtype == DType::Float16) return narrowLogit<Half>(call, eps);
  if (dtype == DType::BFloat16) return narrowLogit<BFloat16>(call, eps);
  mapInputs<kVectors, 1>(call, [=](auto x) {
    using T = Lane<decltype(x)>;
    T low = T(eps), high = T(1) - T(eps);
    if (eps >= 0) x = select(x < low, low, select(x > high, high, x));
    return log(x / (1 - x));
  });
}

// ---- as steps ----

constexpr double kInfinite = std::numeric_limits<double>::infinity();

int sincSteps(StepBuilder& b) {
  const int x = b.value(0), y = b.step(PointwiseOp::Mul, x, b.constant(kPi));
  const int quotient = b.step(PointwiseOp::Div, b.step(PointwiseOp::Sin, y), y);
  return b.step(PointwiseOp::Where, b.step(PointwiseOp::Eq, x, b.constant(0)), b.constant(1), quotient);
}

int mulBy(StepBuilder& b, int x, double factor) { return b.step(PointwiseOp::Mul, x, b.constant(factor)); }
int plusNumber(StepBuilder& b, int x, double more) { return b.step(PointwiseOp::Add, x, b.constant(more)); }

// The other side of a right triangle whose longest one is 1; NaN outside of [-1, 1].
int otherSide(StepBuilder& b, int x) {
  const int less = b.step(PointwiseOp::Sub, b.constant(1), x);
  return b.step(PointwiseOp::Sqrt, b.step(PointwiseOp::Mul, less, plusNumber(b, x, 1)));
}
int asinSteps(StepBuilder& b) {
  const int x = b.value(0);
  return b.step(PointwiseOp::Atan2, x, otherSide(b, x));
}
int acosSteps(StepBuilder& b) {
  const int x = b.value(0);
  return b.step(PointwiseOp::Atan2, otherSide(b, x), x);
}

// Half of e^|x|, which fits where e^|x| does not.
int halfExponential(StepBuilder& b, int size) {
  const int root = b.step(PointwiseOp::Exp, mulBy(b, size, 0.5));
  return b.step(PointwiseOp::Mul, mulBy(b, root, 0.5), root);
}
// With e = e^|x| - 1: (e + e / (e + 1)) / 2; what is far from 0 is half of e^|x|.
int sinhSteps(StepBuilder& b) {
  constexpr double kFar = 20;
  const int x = b.value(0), size = b.step(PointwiseOp::Abs, x), e = b.step(PointwiseOp::Expm1, size);
  const int near = mulBy(b, b.step(PointwiseOp::Add, e, b.step(PointwiseOp::Div, e, plusNumber(b, e, 1))), 0.5);
  const int isFar = b.step(PointwiseOp::Gt, size, b.constant(kFar));
  const int result = b.step(PointwiseOp::Where, isFar, halfExponential(b, size), near);
  return b.step(PointwiseOp::Mul, result, b.step(PointwiseOp::Sign, x));
}
int coshSteps(StepBuilder& b) {
  const int half = halfExponential(b, b.step(PointwiseOp::Abs, b.value(0)));
  return b.step(PointwiseOp::Add, half, b.step(PointwiseOp::Div, b.constant(0.25), half));
}

// log(2 x), for numbers whose squares are too large.
int logOfTwice(StepBuilder& b, int x) { return plusNumber(b, b.step(PointwiseOp::Log, x), std::numbers::ln2); }
// log(a + sqrt(a^2 + 1)) for a = |x|, as log1p(a + a^2 / (1 + sqrt(a^2 + 1))).
int asinhSteps(StepBuilder& b) {
  constexpr double kFar = 1e9;
  const int x = b.value(0), size = b.step(PointwiseOp::Abs, x), square = b.step(PointwiseOp::Square, size);
  const int root = b.step(PointwiseOp::Sqrt, plusNumber(b, square, 1));
  const int more = b.step(PointwiseOp::Div, square, plusNumber(b, root, 1));
  const int near = b.step(PointwiseOp::Log1p, b.step(PointwiseOp::Add, size, more));
  const int isFar = b.step(PointwiseOp::Gt, size, b.constant(kFar));
  const int result = b.step(PointwiseOp::Where, isFar, logOfTwice(b, size), near);
  return b.step(PointwiseOp::Mul, result, b.step(PointwiseOp::Sign, x));
}
// log(x + sqrt(x^2 - 1)), with t = x - 1 as log1p(t + sqrt(t) sqrt(t + 2)).
int acoshSteps(StepBuilder& b) {
  constexpr double kFar = 1e30;
  const int x = b.value(0), t = plusNumber(b, x, -1);
  const int roots =
      b.step(PointwiseOp::Mul, b.step(PointwiseOp::Sqrt, t), b.step(PointwiseOp::Sqrt, plusNumber(b, t, 2)));
  const int near = b.step(PointwiseOp::Log1p, b.step(PointwiseOp::Add, t, roots));
  return b.step(PointwiseOp::Where, b.step(PointwiseOp::Gt, x, b.constant(kFar)), logOfTwice(b, x), near);
}

template <bool kNegative>
int isInfinitySteps(StepBuilder& b) {
  return b.step(PointwiseOp::Eq, b.value(0), b.constant(kNegative ? -kInfinite : kInfinite));
}

// ---- the records ----

constexpr TypeSet kWithComplex = kVectors | kC128;

constexpr TraitSet kElementwise{Trait::Elementwise};

void registerSigns(OpRegistry& ops) {
  OpDef magnitude{.infer = inferAbs,
                  .kernel = unaryKernel<kNumbers, [](auto x) { return absolute(x); }>,
                  .convert = convertMagnitude,
                  .dtypes = kRealTypes | kComplexTypes,
                  .traits = kElementwise};
  addAliases(ops, {"prim::abs(Tensor x) -> Tensor"}, magnitude);
  magnitude.inplace = InPlace::Direct;
  addAliases(ops, {"aten::abs", "aten::absolute"}, magnitude);
  addAliases(
      ops, {"aten::neg", "aten::negative"},
      {.infer = inferSameAsSelf,
       .kernel = unaryKernel<kNumbers, kNegated>,
       .convert = convertNumbers<singleStep<PointwiseOp::Neg>, convertComplexNegation, mapAll<kNumbers, 1, kNegated>>,
       .dtypes = kRealTypes | kComplexTypes,
       .inplace = InPlace::Direct,
       .traits = kElementwise});
  constexpr MappedFunction kSign = kStepsOr<singleStep<PointwiseOp::Sign>, kReals, [](auto x) { return sign(x); }>;
  constexpr MappedFunction kDirection =
      kStepsOr<singleStep<PointwiseOp::Sign>, kNumbers, [](auto x) { return direction(x); }>;
  ops.add({.schema = "aten::sign",
           .infer = inferSameAsSelf,
           .kernel = kSign.kernel,
           .convert = kSign.convert,
           .inplace = InPlace::Direct,
           .traits = kElementwise});
  ops.add({.schema = "aten::sgn",
           .infer = inferSameAsSelf,
           .kernel = kDirection.kernel,
           .convert = kDirection.convert,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = kElementwise});
  constexpr MappedFunction kSignBit = kMapped<kReals, [](auto x) { return hasSignBit(x); }>;
  ops.add({.schema = "aten::signbit",
           .infer = inferPredicate,
           .kernel = kSignBit.kernel,
           .convert = kSignBit.convert,
           .traits = kElementwise});
  ops.add({.schema = "aten::positive",
           .infer = inferSameAsSelf,
           .kernel = positiveKernel,
           .dtypes = kRealTypes | kComplexTypes});
  ops.add({.schema = "aten::angle",
           .infer = inferAngle,
           .kernel = angleKernel,
           .convert = convertAngle,
           .dtypes = kAllTypes,
           .traits = kElementwise,
           .cost = Cost::Function});
}

int fracSteps(StepBuilder& b) {
  int x = b.value(0);
  return b.step(PointwiseOp::Sub, x, b.step(PointwiseOp::Trunc, x));
}

void registerRounding(OpRegistry& ops) {
  auto rounding = [&](std::initializer_list<std::string_view> names, KernelFunction kernel, ConvertFunction convert,
                      DTypeSet dtypes = kRealTypes) {
    addAliases(ops, names,
               {.infer = inferSameAsSelf,
                .kernel = kernel,
                .convert = convert,
                .dtypes = dtypes,
                .inplace = InPlace::Direct,
                .traits = kElementwise});
  };
  rounding({"aten::ceil"}, roundingKernel<[](auto x) { return std::ceil(x); }>, convertPointwise<PointwiseOp::Ceil>);
  rounding({"aten::floor"}, roundingKernel<[](auto x) { return std::floor(x); }>, convertPointwise<PointwiseOp::Floor>);
  rounding({"aten::trunc", "aten::fix"}, roundingKernel<[](auto x) { return std::trunc(x); }>,
           convertPointwise<PointwiseOp::Trunc>);
  rounding({"aten::round"}, roundingKernel<[](auto x) { return std::nearbyint(x); }>,
           convertPointwise<PointwiseOp::Round>);
  rounding({"aten::round.decimals", "aten::special_round"}, roundDecimalsKernel<KernelCall>,
           convertMapped<roundDecimalsKernel<ConvertCall>>, kFloatingTypes);
  ops.add({.schema = "aten::frac",
           .infer = inferSameAsSelf,
           .kernel = unaryKernel<kFloats, [](auto x) { return x - std::trunc(x); }>,
           .convert = convertPointwise<fracSteps>,
           .dtypes = kFloatingTypes,
           .inplace = InPlace::Direct,
           .traits = kElementwise});
  ops.add({.schema = "aten::frexp.Tensor", .infer = inferFrexp, .kernel = frexpKernel, .dtypes = kFloatingTypes});
}

void registerPredicates(OpRegistry& ops) {
  auto predicate = [&](std::string_view name, MappedFunction function, DTypeSet dtypes) {
    ops.add({.schema = name,
             .infer = inferPredicate,
             .kernel = function.kernel,
             .convert = function.convert,
             .dtypes = dtypes,
             .traits = kElementwise});
  };
  predicate("aten::isnan", kStepsOr<singleStep<PointwiseOp::IsNan>, kNumbers, [](auto x) { return isNan(x); }>,
            kAllTypes);
  predicate("aten::isinf", kStepsOr<besideInfinity<PointwiseOp::Eq>, kNumbers, [](auto x) { return isInf(x); }>,
            kAllTypes);
  predicate("aten::isfinite", kStepsOr<besideInfinity<PointwiseOp::Lt>, kNumbers, [](auto x) { return isFinite(x); }>,
            kAllTypes);
  predicate("aten::isposinf", kStepsOr<isInfinitySteps<false>, kReals, [](auto x) { return isInf(x) && 0 < x; }>,
            kRealAndBool);
  predicate("aten::isneginf", kStepsOr<isInfinitySteps<true>, kReals, [](auto x) { return isInf(x) && x < 0; }>,
            kRealAndBool);
  predicate("aten::isreal", kMapped<kNumbers, [](auto x) { return std::imag(x) == 0; }>, kAllTypes);
  ops.add({.schema = "aten::nan_to_num",
           .infer = inferSameAsSelf,
           .kernel = nanToNumKernel,
           .convert = convertPointwise<nanToNumSteps>,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = kElementwise | TraitSet{Trait::ReadsLimits}});
}

// Degrees in radians, or radians in degrees.
constexpr double angleFactor(bool toRadians) { return toRadians ? kPi / 180 : 180 / kPi; }
template <bool kToRadians>
int angleSteps(StepBuilder& b) {
  return b.stepWith(angleFactor(kToRadians), -0.0, PointwiseOp::Scale, b.value(0));  // -0 added leaves -0 what it is
}

void registerFunctions(OpRegistry& ops) {
  auto function = [&](std::initializer_list<std::string_view> names, MappedFunction f, DTypeSet dtypes = kRealAndBool,
                      Cost cost = Cost::Function, TraitSet traits = kElementwise) {
    addAliases(ops, names,
               {.infer = inferFloatUnary,
                .kernel = f.kernel,
                .convert = f.convert,
                .dtypes = dtypes,
                .inplace = InPlace::Direct,
                .traits = traits,
                .cost = cost});
  };
  function({"aten::exp"}, {unaryKernel<kWithComplex, [](auto x) { return exp(x); }>, convertComplexExp}, kAllTypes);
  function({"aten::exp2", "aten::special_exp2"},
           kStepsOr<singleStep<PointwiseOp::Exp2>, kWithComplex, [](auto x) { return powerOfTwo(x); }>, kAllTypes);
  function({"aten::expm1", "aten::special_expm1"},
           kStepsOr<singleStep<PointwiseOp::Expm1>, kWithComplex, [](auto x) { return exponentialLessOne(x); }>,
           kAllTypes);
  function({"aten::log"}, kStepsOr<singleStep<PointwiseOp::Log>, kWithComplex, [](auto x) { return log(x); }>,
           kAllTypes);
  function({"aten::log1p", "aten::special_log1p"},
           kStepsOr<singleStep<PointwiseOp::Log1p>, kWithComplex, [](auto x) { return logarithmOfSuccessor(x); }>,
           kAllTypes);
  function({"aten::log10"}, kStepsOr<singleStep<PointwiseOp::Log10>, kWithComplex, [](auto x) { return log10(x); }>,
           kAllTypes);
  function({"aten::log2"},
           kStepsOr<singleStep<PointwiseOp::Log2>, kWithComplex, [](auto x) { return binaryLogarithm(x); }>, kAllTypes);
  function({"aten::logit", "aten::special_logit"}, {logitKernel, nullptr});

  function({"aten::sqrt"}, kStepsOr<singleStep<PointwiseOp::Sqrt>, kFloats | kC128, [](auto x) { return sqrtOf(x); }>,
           kAllTypes, Cost::Step);
  function({"aten::rsqrt"},
           kStepsOr<singleStep<PointwiseOp::Rsqrt>, kFloats | kC128, [](auto x) { return inverse(sqrtOf(x)); }>,
           kAllTypes, Cost::Step, kElementwise | TraitSet{Trait::RoundsOnce});
  function({"aten::reciprocal"},
           kStepsOr<singleStep<PointwiseOp::Reciprocal>, kFloats | kC128, [](auto x) { return inverse(x); }>, kAllTypes,
           Cost::Step);
  ops.add({.schema = "aten::square",
           .infer = inferSquare,
           .kernel = unaryKernel<kNumbers, [](auto x) { return squared(x); }>,
           .convert = convertPointwise<PointwiseOp::Square>,
           .dtypes = kAllTypes,
           .inplace = InPlace::Direct,
           .traits = kElementwise});

  function({"aten::sin"}, kStepsOr<singleStep<PointwiseOp::Sin>, kWithComplex, [](auto x) { return sin(x); }>,
           kAllTypes);
  function({"aten::cos"}, kStepsOr<singleStep<PointwiseOp::Cos>, kWithComplex, [](auto x) { return cos(x); }>,
           kAllTypes);
  function({"aten::tan"}, kStepsOr<singleStep<PointwiseOp::Tan>, kWithComplex, [](auto x) { return tan(x); }>,
           kAllTypes);
  function({"aten::asin", "aten::arcsin"}, kStepsOr<asinSteps, kWithComplex, [](auto x) { return asin(x); }>,
           kAllTypes);
  function({"aten::acos", "aten::arccos"}, kStepsOr<acosSteps, kWithComplex, [](auto x) { return acos(x); }>,
           kAllTypes);
  function({"aten::atan", "aten::arctan"},
           kStepsOr<singleStep<PointwiseOp::Atan>, kWithComplex, [](auto x) { return atan(x); }>, kAllTypes);
  function({"aten::sinh"}, kStepsOr<sinhSteps, kWithComplex, [](auto x) { return sinh(x); }>, kAllTypes);
  function({"aten::cosh"}, kStepsOr<coshSteps, kWithComplex, [](auto x) { return cosh(x); }>, kAllTypes);
  function({"aten::tanh"}, kStepsOr<singleStep<PointwiseOp::Tanh>, kWithComplex, [](auto x) { return tanh(x); }>,
           kAllTypes);
  function({"aten::asinh", "aten::arcsinh"}, kStepsOr<asinhSteps, kWithComplex, [](auto x) { return asinh(x); }>,
           kAllTypes);
  function({"aten::acosh", "aten::arccosh"}, kStepsOr<acoshSteps, kWithComplex, [](auto x) { return acosh(x); }>,
           kAllTypes);
  function({"aten::atanh", "aten::arctanh"},
           kStepsOr<singleStep<PointwiseOp::Atanh>, kWithComplex, [](auto x) { return atanh(x); }>, kAllTypes);
  function({"aten::sinc", "aten::special_sinc"},
           {sincKernel<KernelCall>, convertStepsOr<sincSteps, sincKernel<ConvertCall>>}, kAllTypes);
  function({"aten::deg2rad"},
           kStepsOr<angleSteps<true>, kFloats, [](auto x) { return x * decltype(x)(angleFactor(true)); }>, kRealAndBool,
           Cost::Step);
  function({"aten::rad2deg"},
           kStepsOr<angleSteps<false>, kFloats, [](auto x) { return x * decltype(x)(angleFactor(false)); }>,
           kRealAndBool, Cost::Step);
  function({"aten::erf", "aten::special_erf"},
           kStepsOr<singleStep<PointwiseOp::Erf>, kVectors, [](auto x) { return erf(x); }>);
  function({"aten::erfc", "aten::special_erfc"},
           kStepsOr<singleStep<PointwiseOp::Erfc>, kVectors, [](auto x) { return erfc(x); }>);
}

}  // namespace

void registerElementwiseUnaryOps(OpRegistry& ops) {
  registerSigns(ops);
  registerRounding(ops);
  registerPredicates(ops);
  registerFunctions(ops);
}

}  // namespace tscompile
