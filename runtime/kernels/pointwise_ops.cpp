#include "runtime/kernels/pointwise_ops.h"

#include "ir/values/dtype.h"
#include "runtime/kernels/simd.h"

#include <cmath>
#include <cstring>

// Included once per instruction set, in this order.
// clang-format off
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "runtime/kernels/pointwise_ops.cpp"
#include <hwy/foreach_target.h>
#include "runtime/kernels/simd_math-inl.h"
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace tscompile {
namespace HWY_NAMESPACE {

// f(d, load, start) per vector, the rest under a mask.
template <class F>
HWY_INLINE void overTile(float* out, int64_t count, F f) {
  const hn::ScalableTag<float> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    hn::StoreU(f(d, [&](const float* p) HWY_ATTR { return hn::LoadU(d, p + i); }), d, out + i);
  if (i < count) {
    auto mask = hn::FirstN(d, static_cast<size_t>(count - i));
    hn::BlendedStore(f(d, [&](const float* p) HWY_ATTR { return hn::MaskedLoad(mask, d, p + i); }), mask, d, out + i);
  }
}

template <class D, class M>
HWY_INLINE auto truth(D d, M mask) {
  return hn::IfThenElseZero(mask, hn::Set(d, 1.0f));
}
template <class D, class V>
HWY_INLINE auto isTrue(D d, V x) {
  return hn::Not(hn::Eq(x, hn::Zero(d)));  // NaN is true
}

// clang-format off
#define TS_ARGUMENTS \
  [[maybe_unused]] const float *a, [[maybe_unused]] const float *b, [[maybe_unused]] const float *c, float *out, \
      int64_t count, [[maybe_unused]] float alpha, [[maybe_unused]] float beta
#define TS_UNARY(name, expression)                                                                  \
  void tile##name(TS_ARGUMENTS) {                                                                   \
    overTile(out, count, [=]([[maybe_unused]] auto d, auto load) HWY_ATTR { auto x = load(a); return expression; }); \
  }
#define TS_BINARY(name, expression)                                                                 \
  void tile##name(TS_ARGUMENTS) {                                                                   \
    overTile(out, count, [=]([[maybe_unused]] auto d, auto load) HWY_ATTR {                         \
      auto x = load(a);                                                                             \
      auto y = load(b);                                                                             \
      return expression;                                                                            \
    });                                                                                             \
  }
#define TS_TERNARY(name, expression)                                                                \
  void tile##name(TS_ARGUMENTS) {                                                                   \
    overTile(out, count, [=]([[maybe_unused]] auto d, auto load) HWY_ATTR {                         \
      auto x = load(a);                                                                             \
      auto y = load(b);                                                                             \
      auto z = load(c);                                                                             \
      return expression;                                                                            \
    });                                                                                             \
  }

TS_UNARY(Copy, x)
TS_UNARY(Neg, hn::Neg(x))
TS_UNARY(Abs, hn::Abs(x))
TS_UNARY(Square, hn::Mul(x, x))
TS_UNARY(Sqrt, hn::Sqrt(x))
TS_UNARY(Rsqrt, hn::Div(hn::Set(d, 1.0f), hn::Sqrt(x)))
TS_UNARY(Reciprocal, hn::Div(hn::Set(d, 1.0f), x))
TS_UNARY(Sign, hn::Sub(truth(d, hn::Gt(x, hn::Zero(d))), truth(d, hn::Lt(x, hn::Zero(d)))))
TS_UNARY(Floor, hn::Floor(x))
TS_UNARY(Ceil, hn::Ceil(x))
TS_UNARY(Round, hn::Round(x))
TS_UNARY(Trunc, hn::Trunc(x))
TS_UNARY(Not, truth(d, hn::Eq(x, hn::Zero(d))))
TS_UNARY(IsNan, truth(d, hn::IsNaN(x)))
TS_UNARY(Exp, exp(d, x))
TS_UNARY(Expm1, expm1(d, x))
TS_UNARY(Log, log(d, x))
TS_UNARY(Log1p, log1p(d, x))
TS_UNARY(Tanh, tanh(d, x))
TS_UNARY(Sigmoid, sigmoid(d, x))
TS_UNARY(Erf, erf(d, x))
TS_UNARY(Relu, atLeast(d, 0.0f, x))
TS_UNARY(Gelu, gelu(d, x))
TS_UNARY(GeluTanh, geluTanh(d, x))
TS_UNARY(Silu, hn::Mul(x, sigmoid(d, x)))
TS_UNARY(HardSwish, hn::Mul(x, hardSigmoid(d, x)))
TS_UNARY(HardSigmoid, hardSigmoid(d, x))
TS_UNARY(Mish, hn::Mul(x, tanh(d, softplus(d, x))))
TS_UNARY(Softplus, softplus(d, x))
TS_UNARY(Clamp, atMost(d, beta, atLeast(d, alpha, x)))
TS_UNARY(LeakyRelu, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(x, hn::Set(d, alpha))))
TS_UNARY(Elu, hn::IfThenElse(hn::Gt(x, hn::Zero(d)), x, hn::Mul(expm1(d, x), hn::Set(d, alpha))))
TS_UNARY(Scale, hn::Add(hn::Mul(x, hn::Set(d, alpha)), hn::Set(d, beta)))
TS_BINARY(Add, hn::Add(x, y))
TS_BINARY(Sub, hn::Sub(x, y))
TS_BINARY(Mul, hn::Mul(x, y))
TS_BINARY(Div, hn::Div(x, y))
TS_BINARY(Min, hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::IsNaN(y), y, hn::Min(x, y))))
TS_BINARY(Max, hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenElse(hn::IsNaN(y), y, hn::Max(x, y))))
TS_BINARY(Eq, truth(d, hn::Eq(x, y)))
TS_BINARY(Ne, truth(d, hn::Not(hn::Eq(x, y))))
TS_BINARY(Lt, truth(d, hn::Lt(x, y)))
TS_BINARY(Le, truth(d, hn::Le(x, y)))
TS_BINARY(Gt, truth(d, hn::Gt(x, y)))
TS_BINARY(Ge, truth(d, hn::Ge(x, y)))
TS_BINARY(And, truth(d, hn::And(isTrue(d, x), isTrue(d, y))))
TS_BINARY(Or, truth(d, hn::Or(isTrue(d, x), isTrue(d, y))))
TS_BINARY(Xor, truth(d, hn::Xor(isTrue(d, x), isTrue(d, y))))
TS_TERNARY(Where, hn::IfThenElse(isTrue(d, x), y, z))
TS_TERNARY(MulAdd, hn::MulAdd(x, y, z))
// clang-format on

void loadHalf(const void* from, int64_t count, float* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<hwy::float16_t, decltype(d)> d16;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  const auto* values = static_cast<const hwy::float16_t*>(from);
  int64_t i = 0;
  for (; i + lanes <= count; i += lanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(d16, values + i)), d, to + i);
  for (; i < count; ++i) to[i] = static_cast<float>(static_cast<const Half*>(from)[i]);
}

}  // namespace HWY_NAMESPACE
}  // namespace tscompile
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tscompile {
namespace {

// Operations that the standard library computes, element by element.
template <float (*kFunction)(float)>
void scalarUnary(const float* a, const float*, const float*, float* out, int64_t count, float, float) {
  for (int64_t i = 0; i < count; ++i) out[i] = kFunction(a[i]);
}
template <float (*kFunction)(float, float)>
void scalarBinary(const float* a, const float* b, const float*, float* out, int64_t count, float, float) {
  for (int64_t i = 0; i < count; ++i) out[i] = kFunction(a[i], b[i]);
}

float remainderOf(float a, float b) {
  float r = std::fmod(a, b);
  return r != 0 && (b < 0) != (r < 0) ? r + b : r;
}

// PyTorch's rule: exact where a / b would round up to a whole number.
float floorDivide(float a, float b) {
  if (b == 0) return a / b;
  float r = std::fmod(a, b), quotient = (a - r) / b;
  if (r != 0 && (b < 0) != (r < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0f, a / b);
  float whole = std::floor(quotient);
  return quotient - whole > 0.5f ? whole + 1 : whole;
}

}  // namespace

PointwiseFunction pointwiseFunction(PointwiseOp op) {
// clang-format off
#define TS_CASE(name) \
  case PointwiseOp::name: return TS_SIMD(tile##name);
  switch (op) {
    TS_CASE(Copy) TS_CASE(Neg) TS_CASE(Abs) TS_CASE(Square) TS_CASE(Sqrt) TS_CASE(Rsqrt) TS_CASE(Reciprocal)
    TS_CASE(Sign) TS_CASE(Floor) TS_CASE(Ceil) TS_CASE(Round) TS_CASE(Trunc) TS_CASE(Not) TS_CASE(IsNan)
    TS_CASE(Exp) TS_CASE(Expm1) TS_CASE(Log) TS_CASE(Log1p) TS_CASE(Tanh) TS_CASE(Sigmoid) TS_CASE(Erf)
    TS_CASE(Relu) TS_CASE(Gelu) TS_CASE(GeluTanh) TS_CASE(Silu) TS_CASE(HardSwish) TS_CASE(HardSigmoid)
    TS_CASE(Mish) TS_CASE(Softplus) TS_CASE(Clamp) TS_CASE(LeakyRelu) TS_CASE(Elu) TS_CASE(Scale)
    TS_CASE(Add) TS_CASE(Sub) TS_CASE(Mul) TS_CASE(Div) TS_CASE(Min) TS_CASE(Max)
    TS_CASE(Eq) TS_CASE(Ne) TS_CASE(Lt) TS_CASE(Le) TS_CASE(Gt) TS_CASE(Ge)
    TS_CASE(And) TS_CASE(Or) TS_CASE(Xor) TS_CASE(Where) TS_CASE(MulAdd)
    case PointwiseOp::Log2: return scalarUnary<std::log2>;
    case PointwiseOp::Log10: return scalarUnary<std::log10>;
    case PointwiseOp::Sin: return scalarUnary<std::sin>;
    case PointwiseOp::Cos: return scalarUnary<std::cos>;
    case PointwiseOp::Tan: return scalarUnary<std::tan>;
    case PointwiseOp::Atan: return scalarUnary<std::atan>;
    case PointwiseOp::Pow: return scalarBinary<std::pow>;
    case PointwiseOp::Atan2: return scalarBinary<std::atan2>;
    case PointwiseOp::Fmod: return scalarBinary<std::fmod>;
    case PointwiseOp::Remainder: return scalarBinary<remainderOf>;
    case PointwiseOp::FloorDiv: return scalarBinary<floorDivide>;
  }
  // clang-format on
  return nullptr;
}

void loadPointwise(PointwiseType type, const void* from, int64_t count, float* to) {
  switch (type) {
    case PointwiseType::F32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case PointwiseType::F16:
      return TS_SIMD(loadHalf)(from, count, to);
    case PointwiseType::BF16:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<float>(static_cast<const BFloat16*>(from)[i]);
      return;
    case PointwiseType::Bool:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<const uint8_t*>(from)[i] ? 1.0f : 0.0f;
      return;
  }
}

void storePointwise(PointwiseType type, const float* from, int64_t count, void* to) {
  switch (type) {
    case PointwiseType::F32:
      std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
      return;
    case PointwiseType::F16:
      for (int64_t i = 0; i < count; ++i) static_cast<Half*>(to)[i] = Half(from[i]);
      return;
    case PointwiseType::BF16:
      for (int64_t i = 0; i < count; ++i) static_cast<BFloat16*>(to)[i] = BFloat16(from[i]);
      return;
    case PointwiseType::Bool:
      for (int64_t i = 0; i < count; ++i) static_cast<uint8_t*>(to)[i] = from[i] != 0;
      return;
  }
}

}  // namespace tscompile
#endif
