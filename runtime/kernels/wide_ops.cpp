#include "runtime/kernels/wide_ops.h"

#include "runtime/kernels/wide/extremes.h"
#include "runtime/kernels/wide/vector_math.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <numbers>

namespace tscompile {
namespace {

// ---- tiles ----

template <class T, size_t kOperands, auto kF>
void numberTile(const T* a, [[maybe_unused]] const T* b, [[maybe_unused]] const T* c, T* out, int64_t count,
                [[maybe_unused]] double alpha, [[maybe_unused]] double beta) {
#pragma GCC ivdep
  for (int64_t i = 0; i < count; ++i) {
    if constexpr (kOperands == 3)
      out[i] = static_cast<T>(kF(a[i], b[i], c[i]));
    else if constexpr (kOperands == 2)
      out[i] = static_cast<T>(kF(a[i], b[i]));
    else if constexpr (std::is_invocable_v<decltype(kF), T>)
      out[i] = static_cast<T>(kF(a[i]));
    else
      out[i] = static_cast<T>(kF(a[i], alpha, beta));
  }
}

// The same by vectors, the last of which is filled up with its first number.
template <size_t kOperands, auto kF>
void vectorTile(const double* a, [[maybe_unused]] const double* b, const double*, double* out, int64_t count,
                [[maybe_unused]] double alpha, double) {
  constexpr int64_t kWidth = kLanes<F64x4>;
  auto apply = [&](int64_t i, size_t bytes) {
    auto load = [&](const double* from) {
      F64x4 v{};
      if (bytes < sizeof v) v = splat<F64x4>(from[i]);
      std::memcpy(&v, from + i, bytes);
      return v;
    };
    F64x4 made;
    if constexpr (kOperands == 2)
      made = kF(load(a), load(b));
    else if constexpr (std::is_invocable_v<decltype(kF), F64x4>)
      made = kF(load(a));
    else
      made = kF(load(a), alpha);
    std::memcpy(out + i, &made, bytes);
  };
  int64_t i = 0;
  for (; i + kWidth <= count; i += kWidth) apply(i, sizeof(F64x4));
  if (i < count) apply(i, static_cast<size_t>(count - i) * sizeof(double));
}

// ---- what both kinds of numbers have ----

template <class T>
T sign(T x) {
  return static_cast<T>((T(0) < x) - (x < T(0)));
}

// Of comparisons, logic and choices; null for all others.
template <class T>
WideFunction<T> commonFunction(PointwiseOp op) {
  switch (op) {
    case PointwiseOp::Copy:
      return numberTile<T, 1, [](T x) { return x; }>;
    case PointwiseOp::Sign:
      return numberTile<T, 1, sign<T>>;
    case PointwiseOp::Relu:
      return numberTile<T, 1, [](T x) { return greater(x, T(0)); }>;
    case PointwiseOp::Min:
      return numberTile<T, 2, lesser<T>>;
    case PointwiseOp::Max:
      return numberTile<T, 2, greater<T>>;
    case PointwiseOp::Eq:
      return numberTile<T, 2, [](T x, T y) { return x == y; }>;
    case PointwiseOp::Ne:
      return numberTile<T, 2, [](T x, T y) { return x != y; }>;
    case PointwiseOp::Lt:
      return numberTile<T, 2, [](T x, T y) { return x < y; }>;
    case PointwiseOp::Le:
      return numberTile<T, 2, [](T x, T y) { return x <= y; }>;
    case PointwiseOp::Gt:
      return numberTile<T, 2, [](T x, T y) { return y < x; }>;
    case PointwiseOp::Ge:
      return numberTile<T, 2, [](T x, T y) { return x >= y; }>;
    case PointwiseOp::And:
      return numberTile<T, 2, [](T x, T y) { return (x != 0) & (y != 0); }>;
    case PointwiseOp::Or:
      return numberTile<T, 2, [](T x, T y) { return (x != 0) | (y != 0); }>;
    case PointwiseOp::Xor:
      return numberTile<T, 2, [](T x, T y) { return (x != 0) != (y != 0); }>;
    case PointwiseOp::Not:
      return numberTile<T, 1, [](T x) { return x == 0; }>;
    case PointwiseOp::IsNan:
      return numberTile<T, 1, [](T x) { return x != x; }>;
    case PointwiseOp::Where:
      return numberTile<T, 3, [](T x, T y, T z) { return x != 0 ? y : z; }>;
    default:
      return nullptr;
  }
}

// ---- integers: modulo 2^64 ----

int64_t wrapped(uint64_t x) { return static_cast<int64_t>(x); }
uint64_t bits(int64_t x) { return static_cast<uint64_t>(x); }

// Rounded towards minus infinity. The one quotient that does not fit wraps.
int64_t flooredQuotient(int64_t a, int64_t b) {
  if (b == -1) return wrapped(-bits(a));
  const int64_t q = a / b, r = a % b;
  return q - static_cast<int64_t>((r != 0) & ((r ^ b) < 0));
}
int64_t flooredRest(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r + (b & -static_cast<int64_t>((r != 0) & ((r ^ b) < 0)));
}

// Counts that are negative, or no smaller than the bits there are, leave nothing but the sign.
int64_t shiftedLeft(int64_t a, int64_t count) { return bits(count) < 64 ? wrapped(bits(a) << (bits(count) & 63)) : 0; }
int64_t shiftedRight(int64_t a, int64_t count) { return a >> std::min(bits(count), uint64_t{63}); }

// The bounds are whole numbers or infinite.
int64_t clampedInteger(int64_t x, double low, double high) {
  constexpr double kEnd = 0x1p63;
  auto bound = [](double v) {
    return v >= kEnd    ? std::numeric_limits<int64_t>::max()
           : v <= -kEnd ? std::numeric_limits<int64_t>::min()
                        : static_cast<int64_t>(v);
  };
  return std::min(std::max(x, bound(low)), bound(high));
}

// ---- doubles ----

double flooredQuotient(double a, double b) {
  if (b == 0) return a / b;
  const double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest != 0 && (b < 0) != (rest < 0)) quotient -= 1;
  if (quotient == 0) return std::copysign(0.0, a / b);
  const double whole = std::floor(quotient);
  return quotient - whole > 0.5 ? whole + 1 : whole;
}
double flooredRest(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (b < 0) != (rest < 0) ? rest + b : rest;
}

F64x4 sigmoid(F64x4 x) { return 1 / (1 + exp(-x)); }
F64x4 softplus(F64x4 x) { return select(x > 20, x, log1p(exp(x))); }
F64x4 gelu(F64x4 x) { return 0.5 * x * (1 + erf(x * std::numbers::sqrt2 / 2)); }
F64x4 geluTanh(F64x4 x) {
  constexpr double kBeta = std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  return 0.5 * x * (1 + tanh(kBeta * (x + 0.044715 * (x * x * x))));
}
double hardRamp(double x) { return lesser(greater(x + 3, 0.0), 6.0); }
double hardSigmoid(double x) { return hardRamp(x) / 6; }

}  // namespace

template <>
WideFunction<int64_t> wideFunction(PointwiseOp op) {
  using T = int64_t;
  switch (op) {
    case PointwiseOp::Neg:
      return numberTile<T, 1, [](T x) { return wrapped(-bits(x)); }>;
    case PointwiseOp::Abs:
      return numberTile<T, 1, [](T x) { return x < 0 ? wrapped(-bits(x)) : x; }>;
    case PointwiseOp::Square:
      return numberTile<T, 1, [](T x) { return wrapped(bits(x) * bits(x)); }>;
    case PointwiseOp::Floor:
    case PointwiseOp::Ceil:
    case PointwiseOp::Round:
    case PointwiseOp::Trunc:
      return commonFunction<T>(PointwiseOp::Copy);
    case PointwiseOp::Clamp:
      return numberTile<T, 1, clampedInteger>;
    case PointwiseOp::Add:
      return numberTile<T, 2, [](T x, T y) { return wrapped(bits(x) + bits(y)); }>;
    case PointwiseOp::Sub:
      return numberTile<T, 2, [](T x, T y) { return wrapped(bits(x) - bits(y)); }>;
    case PointwiseOp::Mul:
      return numberTile<T, 2, [](T x, T y) { return wrapped(bits(x) * bits(y)); }>;
    case PointwiseOp::FloorDiv:
      return numberTile<T, 2, [](T x, T y) { return flooredQuotient(x, y); }>;
    case PointwiseOp::Remainder:
      return numberTile<T, 2, [](T x, T y) { return flooredRest(x, y); }>;
    case PointwiseOp::Fmod:
      return numberTile<T, 2, [](T x, T y) { return y == -1 ? 0 : x % y; }>;
    case PointwiseOp::BitAnd:
      return numberTile<T, 2, [](T x, T y) { return x & y; }>;
    case PointwiseOp::BitOr:
      return numberTile<T, 2, [](T x, T y) { return x | y; }>;
    case PointwiseOp::BitXor:
      return numberTile<T, 2, [](T x, T y) { return x ^ y; }>;
    case PointwiseOp::ShiftLeft:
      return numberTile<T, 2, shiftedLeft>;
    case PointwiseOp::ShiftRight:
      return numberTile<T, 2, shiftedRight>;
    default:
      return commonFunction<T>(op);
  }
}

template <>
WideFunction<double> wideFunction(PointwiseOp op) {
  using T = double;
  using V = F64x4;
  switch (op) {
    case PointwiseOp::Neg:
      return numberTile<T, 1, [](T x) { return -x; }>;
    case PointwiseOp::Abs:
      return numberTile<T, 1, [](T x) { return std::abs(x); }>;
    case PointwiseOp::Square:
      return numberTile<T, 1, [](T x) { return x * x; }>;
    case PointwiseOp::Sqrt:
      return numberTile<T, 1, [](T x) { return std::sqrt(x); }>;
    case PointwiseOp::Rsqrt:
      return numberTile<T, 1, [](T x) { return 1 / std::sqrt(x); }>;
    case PointwiseOp::Reciprocal:
      return numberTile<T, 1, [](T x) { return 1 / x; }>;
    case PointwiseOp::Floor:
      return numberTile<T, 1, [](T x) { return std::floor(x); }>;
    case PointwiseOp::Ceil:
      return numberTile<T, 1, [](T x) { return std::ceil(x); }>;
    case PointwiseOp::Round:
      return numberTile<T, 1, [](T x) { return std::nearbyint(x); }>;
    case PointwiseOp::Trunc:
      return numberTile<T, 1, [](T x) { return std::trunc(x); }>;
    case PointwiseOp::Exp:
      return vectorTile<1, [](V x) { return exp(x); }>;
    case PointwiseOp::Expm1:
      return vectorTile<1, [](V x) { return expm1(x); }>;
    case PointwiseOp::Log:
      return vectorTile<1, [](V x) { return log(x); }>;
    case PointwiseOp::Log1p:
      return vectorTile<1, [](V x) { return log1p(x); }>;
    case PointwiseOp::Log2:
      return vectorTile<1, [](V x) { return log2(x); }>;
    case PointwiseOp::Log10:
      return vectorTile<1, [](V x) { return log10(x); }>;
    case PointwiseOp::Exp2:
      return vectorTile<1, [](V x) { return exp2(x); }>;
    case PointwiseOp::Sin:
      return vectorTile<1, [](V x) { return sin(x); }>;
    case PointwiseOp::Cos:
      return vectorTile<1, [](V x) { return cos(x); }>;
    case PointwiseOp::Tan:
      return vectorTile<1, [](V x) { return tan(x); }>;
    case PointwiseOp::Atan:
      return vectorTile<1, [](V x) { return atan(x); }>;
    case PointwiseOp::Atanh:
      return vectorTile<1, [](V x) { return atanh(x); }>;
    case PointwiseOp::Erf:
      return vectorTile<1, [](V x) { return erf(x); }>;
    case PointwiseOp::Erfc:
      return vectorTile<1, [](V x) { return erfc(x); }>;
    case PointwiseOp::Tanh:
      return vectorTile<1, [](V x) { return tanh(x); }>;
    case PointwiseOp::Sigmoid:
      return vectorTile<1, sigmoid>;
    case PointwiseOp::Silu:
      return vectorTile<1, [](V x) { return x / (1 + exp(-x)); }>;
    case PointwiseOp::Gelu:
      return vectorTile<1, gelu>;
    case PointwiseOp::GeluTanh:
      return vectorTile<1, geluTanh>;
    case PointwiseOp::Softplus:
      return vectorTile<1, softplus>;
    case PointwiseOp::Mish:
      return vectorTile<1, [](V x) { return x * tanh(log1p(exp(x))); }>;
    case PointwiseOp::Elu:
      return vectorTile<1, [](V x, T alpha) { return select(0 < x, x, expm1(x) * alpha); }>;
    case PointwiseOp::HardSigmoid:
      return numberTile<T, 1, hardSigmoid>;
    case PointwiseOp::HardSwish:
      return numberTile<T, 1, [](T x) { return x * hardRamp(x) / 6; }>;
    case PointwiseOp::LeakyRelu:
      return numberTile<T, 1, [](T x, T alpha, T) { return 0 < x ? x : x * alpha; }>;
    case PointwiseOp::Clamp:
      return numberTile<T, 1, [](T x, T low, T high) { return lesser(greater(x, low), high); }>;
    case PointwiseOp::Scale:
      return numberTile<T, 1, [](T x, T alpha, T beta) { return x * alpha + beta; }>;
    case PointwiseOp::Add:
      return numberTile<T, 2, [](T x, T y) { return x + y; }>;
    case PointwiseOp::Sub:
      return numberTile<T, 2, [](T x, T y) { return x - y; }>;
    case PointwiseOp::Mul:
      return numberTile<T, 2, [](T x, T y) { return x * y; }>;
    case PointwiseOp::Div:
      return numberTile<T, 2, [](T x, T y) { return x / y; }>;
    case PointwiseOp::PRelu:
      return numberTile<T, 2, [](T x, T y) { return (0 < x) ? x : x * y; }>;
    case PointwiseOp::Pow:
      return vectorTile<2, [](V x, V y) { return pow(x, y); }>;
    case PointwiseOp::Atan2:
      return vectorTile<2, [](V x, V y) { return atan2(x, y); }>;
    case PointwiseOp::Fmod:
      return numberTile<T, 2, [](T x, T y) { return std::fmod(x, y); }>;
    case PointwiseOp::Remainder:
      return numberTile<T, 2, [](T x, T y) { return flooredRest(x, y); }>;
    case PointwiseOp::FloorDiv:
      return numberTile<T, 2, [](T x, T y) { return flooredQuotient(x, y); }>;
    case PointwiseOp::MulAdd:
      return numberTile<T, 3, [](T x, T y, T z) {
        if constexpr (std::is_floating_point_v<T>) return std::fma(x, y, z);
        return x * y + z;
      }>;
    default:
      return commonFunction<T>(op);
  }
}

}  // namespace tscompile
