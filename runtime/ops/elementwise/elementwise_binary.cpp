// Element-wise arithmetic on two or three tensors or numbers.
#include "runtime/engine/layers/alone/map_layer.h"
#include "runtime/ops/call_op.h"
#include "runtime/ops/elementwise/complex_parts.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/half_operands.h"
#include "runtime/reference/loops/arithmetic.h"
#include "runtime/reference/loops/cpp_types.h"
#include "runtime/reference/loops/scalars.h"
#include "runtime/reference/pytorch_words.h"

namespace tscompile {
namespace {

// ---- add, sub, rsub: self + alpha * other ----

// Integers and bool take no alpha of a higher category.
void checkAlpha(InferCall& call, DType result) {
  if (call.size() < 3 || result == DType::Undefined) return;
  DType alpha = call.scalarType(2);
  call.require(!isIntegral(result, true) || isIntegral(alpha, true),
               "For integral input tensors, argument alpha must not be a floating point number.");
  call.require(!isComplex(alpha) || isComplex(result),
               "For non-complex input tensors, argument alpha must not be a complex number.");
}

void inferAdd(InferCall& call) {
  DType dtype = promotedDType(call, 2);
  resultBroadcast(call, dtype, 2);
  checkAlpha(call, dtype);
}

void inferSub(InferCall& call) {
  auto isBool = [&](size_t i) { return call.isTensor(i) && call.tensor(i).dtype == DType::Bool; };
  call.require(!isBool(0) || !isBool(1),
               "subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or `logical_xor()` "
               "operator instead.");
  call.require(
      !isBool(0) && !isBool(1),
      "subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to invert a mask, "
      "use the `~` or `logical_not()` operator instead.");
  inferAdd(call);
}

// Of booleans every factor but 0 is true.
bool isOne(const IValue& v, DType dtype) {
  if (dtype == DType::Bool && !v.isComplex()) return v.toDouble() != 0;
  return (v.isInt() && v.toInt() == 1) || (v.isFloat() && v.toFloat() == 1) || (v.isBool() && v.toBool());
}

// Complex numbers are multiplied by alpha even if it is 1: of infinity that makes NaN.
template <bool kReversed, bool kMinus, class Call>
void addComplex(Call& call, DType dtype) {
  std::complex<double> alpha = call.size() < 3 ? 1. : complexOf(numberFor(call.argument(2), dtype));
  if (kMinus) alpha = {-alpha.real(), alpha.imag() == 0 ? 0. : -alpha.imag()};
  mapElements<kC128, 2>(call, dtype,
                        [=](auto a, auto b) { return kReversed ? b + times(alpha, a) : a + times(alpha, b); });
}

// Runs f(a, b) or, where alpha is not 1, f(a, alpha * b).
template <bool kReversed, bool kMinus, class Call = KernelCall>
void addKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (isComplex(dtype)) return addComplex<kReversed, kMinus>(call, dtype);
  if (call.size() < 3 || isOne(call.argument(2), dtype))
    return mapElements<kReals, 2>(call, dtype, [](auto a, auto b) {
      if constexpr (!kMinus) return plus(a, b);
      return kReversed ? minus(b, a) : minus(a, b);
    });
  double sign = kMinus ? -1 : 1;
  ScalarArgument alpha(call, 2, dtype);
  if (dtype == DType::Float16) {  // the product is rounded, too, as in PyTorch 1.13
    float factor = alpha.as<float>() * static_cast<float>(sign);
    return mapElements<kF32, 2>(call, dtype, [=](float a, float b) {
      if (kReversed) std::swap(a, b);
      return a + static_cast<float>(Half(factor * b));
    });
  }
  mapElements<kReals, 2>(call, dtype, [=](auto a, auto b) {
    using T = decltype(a);
    if (kReversed) std::swap(a, b);
    T factor = times(alpha.as<T>(), T(sign));
    if constexpr (std::is_same_v<T, int64_t>)
      return plus(a, times(factor, b));
    else
      return std::fma(factor, b, a);
  });
}

// The sum, brought into what is finite and not negative; NaN becomes 0 in float32 only.
void addReluKernel(KernelCall& call) {
  Tensor sum = invokeTensor(call, call.argument(1).isTensor() ? "aten::add.Tensor" : "aten::add.Scalar",
                            {call.argument(0), call.argument(1), call.argument(2)});
  mapTensors<kReals>(
      sum.dtype(),
      [](auto x) {
        using T = decltype(x);
        if (std::is_same_v<T, double> && x != x) return x;
        return x > 0 ? lesser(x, std::numeric_limits<T>::max()) : T(0);
      },
      sum, sum);
  call.setResult(sum);
}

// Complex numbers of f32, as words that loops take as they are: they are multiplied in f32, as by PyTorch's vectors.
Tensor wordsOf(const Tensor& t) { return Tensor::view(DType::Int64, t.storage(), t.sizes(), t.strides(), t.offset()); }

void multiplyWords(const Tile& t) {
  constexpr int64_t kPairs = sizeof(F32x8) / sizeof(std::complex<float>);
  using C64 = std::complex<float>;
  const auto *a = static_cast<const C64*>(t.operand[1]), *b = static_cast<const C64*>(t.operand[2]);
  auto* out = static_cast<C64*>(t.operand[0]);
  int64_t i = 0;
  for (; i + kPairs <= t.n; i += kPairs) {
    F32x8 x, y;
    std::memcpy(&x, a + i, sizeof x);
    std::memcpy(&y, b + i, sizeof y);
    const F32x8 re = __builtin_shufflevector(x, x, 0, 0, 2, 2, 4, 4, 6, 6),
                im = __builtin_shufflevector(x, x, 1, 1, 3, 3, 5, 5, 7, 7),
                turned = __builtin_shufflevector(y, y, 1, 0, 3, 2, 5, 4, 7, 6);
    const F32x8 signs{-1, 1, -1, 1, -1, 1, -1, 1}, product = re * y + im * turned * signs;
    std::memcpy(static_cast<void*>(out + i), &product, sizeof product);
  }
  for (; i < t.n; ++i) out[i] = times(a[i], b[i]);
}

void multiplyComplex64(const Tensor& out, const Tensor& a, const Tensor& b) {
  auto operand = [&](const Tensor& t) {
    return Operand{wordsOf(t.dtype() == out.dtype() ? t : convertTensor(t, out.dtype())), Compute::I64};
  };
  const Operand operands[] = {operand(out), operand(a), operand(b)};
  loopTiles(out.sizes(), operands, 1, multiplyWords);
}

constexpr auto kTimes = [](auto a, auto b) { return times(a, b); };

// Numbers that are multiplied in place come first there, and are rounded.
DType factorOf(const KernelCall& call) {
  const DType dtype = promotedDType(call, 2);
  return call.op().isInPlaceVariant() && !call.argument(1).isTensor() ? dtype : factorDType(call, dtype);
}

void mulKernel(KernelCall& call) {
  const DType dtype = factorOf(call);
  if (dtype == DType::Complex64) {
    const Tensor a = operandTensor(call, 0), b = operandTensor(call, 1);
    const Tensor out = elementwiseOutput(call, {&a, &b});
    if (out.dtype() == dtype) return multiplyComplex64(out, a, b);
  }
  mapElements<kNumbers, 2>(call, dtype, kTimes);
}
// Products of complex64 are a layer of their own.
void mapProduct(ConvertCall& call) {
  const DType dtype = factorDType(call, promotedDType(call, 2));
  if (dtype == DType::Complex64) refuseDType(dtype);
  mapElements<kNumbers, 2>(call, dtype, kTimes);
}

// ---- addcmul, addcdiv: self + value * tensor1 (* or /) tensor2 ----

void inferAddcdiv(InferCall& call) {
  TensorInfo a = call.tensor(1), b = call.tensor(2);
  bool known = a.dtype != DType::Undefined && b.dtype != DType::Undefined;
  call.require(!known || !isIntegral(a.dtype, true) || !isIntegral(b.dtype, true),
               "Integer division with addcdiv is no longer supported, and in a future  release addcdiv will perform a "
               "true division of tensor1 and tensor2. Divide with a rounding mode instead.");
  inferTernary(call);
}

template <bool kDivide, class Call = KernelCall>
void addcKernel(Call& call) {
  DType dtype = promotedDType(call, 3);
  if (dtype == DType::Bool) refuseDType(dtype);
  auto combine = [](auto self, auto value, auto a, auto b) {
    auto scaled = times(value, a);
    if constexpr (kDivide)
      return plus(self, quotient(scaled, b));
    else if constexpr (std::is_floating_point_v<decltype(self)>)
      return std::fma(scaled, b, self);
    else
      return plus(self, times(scaled, b));
  };
  if (isComplex(dtype)) {
    std::complex<double> value = call.complex(3);
    return mapElements<kC128, 3>(call, dtype, [=](auto self, auto a, auto b) { return combine(self, value, a, b); });
  }
  const bool isHalf = dtype == DType::Float16 || dtype == DType::BFloat16;
  ScalarArgument value(call, 3, isHalf ? DType::Float32 : dtype);
  mapElements<kDivide ? kFloats : kReals, 3>(
      call, dtype, [=](auto self, auto a, auto b) { return combine(self, value.as<decltype(self)>(), a, b); });
}

// ---- lerp ----

// Tensors of one dtype; a weight without dimensions may have any, and is promoted with them.
void inferLerp(InferCall& call) {
  DType dtype = call.tensor(0).dtype;
  const bool promotes = call.isTensor(2) && call.tensor(2).hasRank && call.tensor(2).rank() == 0;
  for (size_t i = 1; i < (promotes ? 2 : 3); ++i) {
    if (!call.isTensor(i)) continue;
    DType other = call.tensor(i).dtype;
    bool known = dtype != DType::Undefined && other != DType::Undefined;
    call.require(!known || dtype == other, "expected dtype {} for `{}` but got dtype {}", cppName(dtype),
                 i == 1 ? "end" : "weight", cppName(other));
  }
  resultBroadcast(call, promotes ? promotedDType(call, 3) : dtype, 3);
}

// From the nearer end, so that both ends are exact.
template <class T>
T interpolate(T start, T end, T weight) {
  const T difference = end - start, rest = weight - T(1);
  if constexpr (std::is_floating_point_v<T>)
    return std::abs(weight) < 0.5 ? std::fma(weight, difference, start) : std::fma(rest, difference, end);
  else
    return std::abs(weight) < 0.5 ? start + times(weight, difference) : end + times(rest, difference);
}

template <class Call>
void lerpKernel(Call& call) {
  DType dtype = call.spec().dtype;
  if (!isFloating(dtype) && !isComplex(dtype)) refuseDType(dtype);
  call.require(isComplex(dtype) || !call.argument(2).isComplex(),
               "the weight must not be complex where the tensors are not");
  // The weight, if it is a number, is not rounded.
  const bool isHalf = dtype == DType::Float16 || dtype == DType::BFloat16;
  if (isHalf && !call.argument(2).isTensor()) dtype = DType::Float32;
  mapElements<kFloats | kC128, 3>(call, dtype, [](auto a, auto b, auto w) { return interpolate(a, b, w); });
}

// ---- floats ----

// The next number towards b among those that keep the upper 16 bits.
float nextBFloat16(float a, float b) {
  if (a != a || b != b || a == b) return a == b ? b : std::numeric_limits<float>::quiet_NaN();
  if (a == 0) return std::copysign(std::bit_cast<float>(uint32_t{1} << 16), b);
  uint32_t bits = std::bit_cast<uint32_t>(a), step = uint32_t{1} << 16;
  return std::bit_cast<float>((a < b) == (a > 0) ? bits + step : bits - step);
}

// The same among those of float16: below 2^-14 the distance stays 2^-24.
float nextFloat16(float a, float b) {
  if (a != a || b != b || a == b) return a == b ? b : std::numeric_limits<float>::quiet_NaN();
  if (a == 0) return std::copysign(0x1p-24f, b);
  const bool away = (a < b) == (a > 0);
  const float size = std::abs(a);
  if (size == std::numeric_limits<float>::infinity()) return std::copysign(65504.0f, a);
  if (away ? size < 0x1p-14f : size <= 0x1p-14f) return a + std::copysign(0x1p-24f, away ? a : -a);
  uint32_t bits = std::bit_cast<uint32_t>(a), step = uint32_t{1} << 13;
  return std::bit_cast<float>(away ? bits + step : bits - step);
}

void nextafterKernel(KernelCall& call) {
  DType dtype = call.spec().dtype;
  if (dtype == DType::Float16)
    return mapElements<kF32, 2>(call, dtype, [](float a, float b) { return nextFloat16(a, b); });
  if (dtype == DType::BFloat16)
    return mapElements<kF32, 2>(call, dtype, [](float a, float b) { return nextBFloat16(a, b); });
  if (!isFloating(dtype)) refuseDType(dtype);
  mapElements<kFloats, 2>(call, dtype, [](auto a, auto b) { return std::nextafter(a, b); });
}

// log(exp(a) + exp(b)) with the greater taken out.
template <class V>
V logAddExp(V a, V b) {
  V most = select(a < b, b, a), result = most + log1p(exp(-abs(a - b)));
  return select((a == b) & (abs(a) == std::numeric_limits<Lane<V>>::infinity()), a, result);
}
template <class V>
V logAddExp2(V a, V b) {
  constexpr Lane<V> kLog2E = Lane<V>(1.4426950408889634074);
  V most = select(a < b, b, a), result = most + log1p(exp2(-abs(a - b))) * kLog2E;
  return select((a == b) & (abs(a) == std::numeric_limits<Lane<V>>::infinity()), a, result);
}

constexpr auto kLogAddExp2 = [](auto a, auto b) { return logAddExp2(a, b); };

template <auto kF, class Call = KernelCall>
void floatsOnlyKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (!isFloating(dtype)) refuseDType(dtype);
  mapElements<kVectors, 2>(call, dtype, kF);
}

// self * 2 ** other
void inferLdexp(InferCall& call) {
  DType exponent = call.tensor(1).dtype;
  if (exponent == DType::Undefined) return inferFloatBinary(call);
  const DType self = call.tensor(0).dtype;
  if (self == DType::Undefined || (isFloating(self) && isIntegral(exponent, true)))
    return resultBroadcast(call, self, 2);
  // 2.0 ** other is float32 for integers.
  ResultType type;
  type.add(call, 0);
  TensorInfo power = call.tensor(1);
  power.dtype = toFloating(exponent);
  type.add(power);
  resultBroadcast(call, type.get(), 2);
}
void ldexpKernel(KernelCall& call) {
  const DType exponent = call.tensor(1).dtype();
  if (isFloating(call.tensor(0).dtype()) && isIntegral(exponent, true)) {
    if (exponent == DType::Bool) throw DTypeRefused(exponent);
    // PyTorch takes 32 bits of it.
    return mapElements<kF64, 2>(call, DType::Float64, [](double x, double power) {
      return std::ldexp(x, static_cast<int32_t>(static_cast<int64_t>(std::fmod(power, 0x1p32))));
    });
  }
  // Of floats the base is a tensor, which exponents without dimensions are promoted with.
  const DType self = call.tensor(0).dtype();
  IValue power = isFloating(self) ? invoke(call, "aten::pow.Tensor_Tensor", {elementOf(2.0, self), call.argument(1)})
                                  : invoke(call, "aten::pow.Scalar", {2.0, call.argument(1)});
  call.setResult(invoke(call, "aten::mul.Tensor", {call.argument(0), power}));
}

void inferHeaviside(InferCall& call) {
  DType a = call.tensor(0).dtype, b = call.tensor(1).dtype;
  call.require(a == b || a == DType::Undefined || b == DType::Undefined,
               "heaviside is not yet implemented for tensors with different dtypes.");
  inferBinary(call);
}

// ---- greatest common divisor ----

uint64_t magnitude(int64_t x) { return x < 0 ? -static_cast<uint64_t>(x) : static_cast<uint64_t>(x); }
uint64_t gcd(int64_t a, int64_t b) {
  uint64_t x = magnitude(a), y = magnitude(b);
  while (y) x = std::exchange(y, x % y);
  return x;
}
// The magnitude of a product that wraps in T.
template <class T>
int64_t lcm(int64_t a, int64_t b) {
  auto divisor = static_cast<int64_t>(gcd(a, b));
  return divisor == 0 ? 0 : static_cast<int64_t>(magnitude(static_cast<T>(wrapMul(truncDiv(a, divisor), b))));
}

constexpr auto kGcd = [](int64_t a, int64_t b) { return static_cast<int64_t>(gcd(a, b)); };
constexpr auto kLcm = [](int64_t a, int64_t b) { return lcm<int64_t>(a, b); };
constexpr auto kNarrowLcm = [](int64_t a, int64_t b) { return lcm<int32_t>(a, b); };

template <auto kF, class Call = KernelCall>
void integersOnlyKernel(Call& call) {
  DType dtype = promotedDType(call, 2);
  if (!isIntegral(dtype, false)) refuseDType(dtype);
  mapElements<kI64, 2>(call, dtype, kF);
}

template <class Call>
void lcmKernel(Call& call) {
  promotedDType(call, 2) == DType::Int64 ? integersOnlyKernel<kLcm>(call) : integersOnlyKernel<kNarrowLcm>(call);
}

// ---- as steps ----

// x + alpha * y, of floats rounded once.
int scaledSum(StepBuilder& b, int x, int y, double alpha) {
  if (isFloating(b.call().spec().dtype)) return b.step(PointwiseOp::MulAdd, y, b.constant(alpha), x);
  return b.step(PointwiseOp::Add, x, b.step(PointwiseOp::Mul, y, b.constant(alpha)));
}
template <PointwiseOp kOp>
int scaledSteps(StepBuilder& b) {
  const int x = b.value(0), y = b.value(1);
  const double given = b.number(2);
  const double alpha = b.call().spec().dtype == DType::Bool && given != 0 ? 1 : given;
  return alpha == 1 ? b.step(kOp, x, y) : scaledSum(b, x, y, kOp == PointwiseOp::Sub ? -alpha : alpha);
}
int reversedSteps(StepBuilder& b) {
  const double alpha = b.number(2);
  if (alpha == 1 && b.call().argument(1).isNumber()) return b.stepWith(-1, b.number(1), PointwiseOp::Scale, b.value(0));
  const int x = b.value(0), y = b.value(1);
  return alpha == 1 ? b.step(PointwiseOp::Sub, y, x) : scaledSum(b, y, x, -alpha);
}
template <PointwiseOp kOp>
int addcSteps(StepBuilder& b) {
  const int x = b.value(0), y = b.scaled(b.value(1), 3), z = b.value(2);
  if (kOp == PointwiseOp::Mul && isFloating(b.call().spec().dtype)) return b.step(PointwiseOp::MulAdd, y, z, x);
  return b.step(PointwiseOp::Add, x, b.step(kOp, y, z));
}

// log(exp(a) + exp(b)) with the greater taken out.
int logAddExpSteps(StepBuilder& b) {
  const int x = b.value(0), y = b.value(1), most = b.step(PointwiseOp::Max, x, y);
  const int distance = b.step(PointwiseOp::Abs, b.step(PointwiseOp::Sub, x, y));
  const int sum = b.step(PointwiseOp::Add, most,
                         b.step(PointwiseOp::Log1p, b.step(PointwiseOp::Exp, b.step(PointwiseOp::Neg, distance))));
  const int infinity = b.constant(std::numeric_limits<double>::infinity());
  const int isSame = b.step(PointwiseOp::And, b.step(PointwiseOp::Eq, x, y),
                            b.step(PointwiseOp::Eq, b.step(PointwiseOp::Abs, x), infinity));
  return b.step(PointwiseOp::Where, isSame, x, sum);
}

int hypotSteps(StepBuilder& b) {
  const int x = b.value(0), y = b.value(1);
  return hypotenuse(b, x, y);
}

// From the nearer end; a weight that is known chooses it at once.
int lerpSteps(StepBuilder& b) {
  const int start = b.value(0), end = b.value(1);
  const int difference = b.step(PointwiseOp::Sub, end, start);
  auto from = [&](int value, int weight) { return b.step(PointwiseOp::MulAdd, weight, difference, value); };
  if (b.call().argument(2).isNumber()) {
    const bool isWide = b.call().spec().dtype == DType::Float64;
    const double weight = isWide ? b.number(2) : static_cast<float>(b.number(2));
    return std::abs(weight) < 0.5 ? from(start, b.constant(weight)) : from(end, b.constant(weight - 1));
  }
  const int weight = b.value(2), isSmall = b.step(PointwiseOp::Lt, b.step(PointwiseOp::Abs, weight), b.constant(0.5));
  return b.step(PointwiseOp::Where, isSmall, from(start, weight),
                from(end, b.step(PointwiseOp::Sub, weight, b.constant(1))));
}

int heavisideSteps(StepBuilder& b) {
  const int x = b.value(0), atZero = b.value(1), zero = b.constant(0);
  return b.step(PointwiseOp::Where, b.step(PointwiseOp::Eq, x, zero), atZero, b.step(PointwiseOp::Gt, x, zero));
}

constexpr TraitSet kPlain{Trait::Elementwise}, kCommutative{Trait::Elementwise, Trait::Commutative},
    kRounded{Trait::Elementwise, Trait::RoundsOnce};

}  // namespace

void registerElementwiseBinaryOps(OpRegistry& ops) {
  auto add = [&](std::initializer_list<std::string_view> names, InferFunction infer, KernelFunction kernel,
                 ConvertFunction convert, TraitSet traits = kPlain) {
    addAliases(ops, names,
               {.infer = infer,
                .kernel = kernel,
                .convert = convert,
                .dtypes = kAllTypes,
                .inplace = InPlace::Direct,
                .traits = traits});
  };
  add({"aten::add.Tensor", "aten::add.Scalar"}, inferAdd, addKernel<false, false>,
      convertNumbers<scaledSteps<PointwiseOp::Add>, convertComplexAdd, addKernel<false, false, ConvertCall>>,
      kCommutative);
  add({"aten::sub.Tensor", "aten::sub.Scalar", "aten::subtract.Tensor", "aten::subtract.Scalar"}, inferSub,
      addKernel<false, true>,
      convertNumbers<scaledSteps<PointwiseOp::Sub>, convertComplexSub, addKernel<false, true, ConvertCall>>);
  add({"aten::mul.Tensor", "aten::mul.Scalar", "aten::multiply.Tensor", "aten::multiply.Scalar"}, inferBinary,
      mulKernel, convertNumbers<singleStep<PointwiseOp::Mul>, convertComplexProduct, mapProduct>,
      kCommutative | TraitSet{Trait::RoundsOnce});
  add({"aten::addcmul"}, inferTernary, addcKernel<false>,
      convertStepsOr<addcSteps<PointwiseOp::Mul>, addcKernel<false, ConvertCall>>, kRounded);
  add({"aten::addcdiv"}, inferAddcdiv, addcKernel<true>,
      convertStepsOr<addcSteps<PointwiseOp::Div>, addcKernel<true, ConvertCall>>, kRounded);
  add({"aten::lerp.Tensor", "aten::lerp.Scalar"}, inferLerp, lerpKernel<KernelCall>,
      convertStepsOr<lerpSteps, lerpKernel<ConvertCall>>, kRounded);

  add({"aten::atan2", "aten::arctan2"}, inferFloatBinary,
      binaryKernel<kVectors, [](auto a, auto b) { return atan2(a, b); }>, convertPointwise<PointwiseOp::Atan2>);
  constexpr MappedFunction kCopySign = kMappedPair<kFloats, [](auto a, auto b) { return std::copysign(a, b); }>;
  add({"aten::copysign.Tensor", "aten::copysign.Scalar"}, inferFloatBinary, kCopySign.kernel, kCopySign.convert);
  add({"aten::hypot"}, inferBinary, floatsOnlyKernel<[](auto a, auto b) { return hypot(a, b); }>,
      convertPointwise<hypotSteps>, kCommutative);
  add({"aten::nextafter"}, inferBinary, nextafterKernel, nullptr);
  add({"aten::heaviside"}, inferHeaviside,
      binaryKernel<kReals, [](auto x, auto atZero) { return x == 0 ? atZero : decltype(x)(0 < x); }>,
      convertPointwise<heavisideSteps>);
  add({"aten::gcd"}, inferBinary, integersOnlyKernel<kGcd>, convertMapped<integersOnlyKernel<kGcd, ConvertCall>>,
      kCommutative);
  add({"aten::lcm"}, inferBinary, lcmKernel<KernelCall>, convertMapped<lcmKernel<ConvertCall>>, kCommutative);

  auto plain = [&](std::initializer_list<std::string_view> names, InferFunction infer, KernelFunction kernel,
                   ConvertFunction convert = nullptr, InPlace inplace = InPlace::No) {
    addAliases(ops, names,
               {.infer = infer,
                .kernel = kernel,
                .convert = convert,
                .dtypes = kAllTypes,
                .inplace = inplace,
                .traits = kPlain});
  };
  plain({"aten::rsub.Tensor", "aten::rsub.Scalar"}, inferSub, addKernel<true, true>,
        convertStepsOr<reversedSteps, addKernel<true, true, ConvertCall>>);
  plain({"aten::_add_relu.Tensor", "aten::_add_relu.Scalar"}, inferAdd, addReluKernel, nullptr, InPlace::ByCopy);
  plain({"aten::logaddexp"}, inferBinary, floatsOnlyKernel<[](auto a, auto b) { return logAddExp(a, b); }>,
        convertPointwise<logAddExpSteps>);
  plain({"aten::logaddexp2"}, inferBinary, floatsOnlyKernel<kLogAddExp2>,
        convertMapped<floatsOnlyKernel<kLogAddExp2, ConvertCall>>);
  plain({"aten::ldexp.Tensor"}, inferLdexp, ldexpKernel);
  plain({"aten::ldexp_"}, inferLdexp, ldexpKernel, nullptr, InPlace::ByCopy);
}

}  // namespace tscompile
