// Mathematical functions of numbers: what Python's math and cmath modules have.
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/scalars.h"

#include <cmath>
#include <numbers>

namespace tscompile {
namespace {

// ---- functions of one number ----

#define TS_FUNCTION(Name, function)                    \
  struct Name {                                        \
    static double of(double a) { return function(a); } \
  };
#define TS_COMPLEX_FUNCTION(Name, function)                    \
  struct Name {                                                \
    static double of(double a) { return function(a); }         \
    static Complex128 of(Complex128 a) { return function(a); } \
  };

double logGamma(double a) {
  int sign;  // std::lgamma would write a global
  return lgamma_r(a, &sign);
}
double degrees(double a) { return a * (180.0 / std::numbers::pi); }
double radians(double a) { return a * (std::numbers::pi / 180.0); }

TS_COMPLEX_FUNCTION(Exp, std::exp)
TS_COMPLEX_FUNCTION(Log, std::log)
TS_COMPLEX_FUNCTION(Log10, std::log10)
TS_COMPLEX_FUNCTION(Sqrt, std::sqrt)
TS_COMPLEX_FUNCTION(Sin, std::sin)
TS_COMPLEX_FUNCTION(Cos, std::cos)
TS_COMPLEX_FUNCTION(Tan, std::tan)
TS_COMPLEX_FUNCTION(Asin, std::asin)
TS_COMPLEX_FUNCTION(Acos, std::acos)
TS_COMPLEX_FUNCTION(Atan, std::atan)
TS_COMPLEX_FUNCTION(Sinh, std::sinh)
TS_COMPLEX_FUNCTION(Cosh, std::cosh)
TS_COMPLEX_FUNCTION(Tanh, std::tanh)
TS_COMPLEX_FUNCTION(Asinh, std::asinh)
TS_COMPLEX_FUNCTION(Acosh, std::acosh)
TS_COMPLEX_FUNCTION(Atanh, std::atanh)
TS_FUNCTION(Log1p, std::log1p)
TS_FUNCTION(Expm1, std::expm1)
TS_FUNCTION(Erf, std::erf)
TS_FUNCTION(Erfc, std::erfc)
TS_FUNCTION(Gamma, std::tgamma)
TS_FUNCTION(LogGamma, logGamma)
TS_FUNCTION(Fabs, std::fabs)
TS_FUNCTION(Degrees, degrees)
TS_FUNCTION(Radians, radians)
TS_FUNCTION(Round, std::nearbyint)  // halves go to the even neighbour
#undef TS_FUNCTION
#undef TS_COMPLEX_FUNCTION

struct Angle {
  static double of(double a) { return std::arg(a); }
  static double of(Complex128 a) { return std::arg(a); }
};
struct Neg {
  static int64_t of(int64_t a) { return wrapNeg(a); }
  static double of(double a) { return -a; }
  static Complex128 of(Complex128 a) { return -a; }
};
struct Abs {
  static int64_t of(int64_t a) { return a < 0 ? wrapNeg(a) : a; }
  static double of(double a) { return std::fabs(a); }
  static double of(Complex128 a) { return std::abs(a); }
};
int64_t toInt(double rounded, double original) {
  if (!(std::fabs(original) <= 9223372036854775808.0))
    failRun(fmt::format("cannot convert float {} to integer", original));
  return truncatedInt(rounded);
}
struct Floor {
  static int64_t of(double a) { return toInt(std::floor(a), a); }
};
struct Ceil {  // PyTorch, too, has the floor of an int by way of a double, and the ceiling as it is
  static int64_t of(int64_t a) { return a; }
  static int64_t of(double a) { return toInt(std::ceil(a), a); }
};

template <class Op>
constexpr bool kHasComplex = requires {
  Op::of(Complex128{});
};

template <class Op>
void onInt(Arguments a, IValue& r) {
  if constexpr (std::is_same_v<Op, Neg> || std::is_same_v<Op, Abs> || std::is_same_v<Op, Ceil>)
    r = Op::of(intOf(*a[0]));
  else
    r = Op::of(static_cast<double>(intOf(*a[0])));
}
template <class Op>
void onFloat(Arguments a, IValue& r) {
  r = Op::of(floatOf(*a[0]));
}
template <class Op>
void onComplex(Arguments a, IValue& r) {
  r = Op::of(complexOf(*a[0]));
}
// PyTorch rounds the results of these overloads to 32 bits.
template <class Op>
void onScalar(Arguments a, IValue& r) {
  if constexpr (kHasComplex<Op>) {
    if (a[0]->isComplex()) {
      onComplex<Op>(a, r);
      if (r.isFloat()) r = static_cast<double>(static_cast<float>(r.toFloat()));
      return;
    }
  }
  a[0]->isInt() ? onInt<Op>(a, r) : onFloat<Op>(a, r);
  if (r.isInt())
    r = static_cast<int64_t>(static_cast<int32_t>(r.toInt()));
  else
    r = static_cast<double>(static_cast<float>(r.toFloat()));
}

struct FunctionOfOne {
  const char* kind;
  ScalarFunction ints, floats, scalars, complex;
};
template <class Op>
constexpr FunctionOfOne functionOfOne(const char* kind) {
  if constexpr (kHasComplex<Op>)
    return {kind, onInt<Op>, onFloat<Op>, onScalar<Op>, onComplex<Op>};
  else
    return {kind, onInt<Op>, onFloat<Op>, onScalar<Op>, nullptr};
}
constexpr FunctionOfOne kFunctionsOfOne[] = {
    functionOfOne<Exp>("aten::exp"),         functionOfOne<Log>("aten::log"),
    functionOfOne<Log10>("aten::log10"),     functionOfOne<Sqrt>("aten::sqrt"),
    functionOfOne<Sin>("aten::sin"),         functionOfOne<Cos>("aten::cos"),
    functionOfOne<Tan>("aten::tan"),         functionOfOne<Asin>("aten::asin"),
    functionOfOne<Acos>("aten::acos"),       functionOfOne<Atan>("aten::atan"),
    functionOfOne<Sinh>("aten::sinh"),       functionOfOne<Cosh>("aten::cosh"),
    functionOfOne<Tanh>("aten::tanh"),       functionOfOne<Asinh>("aten::asinh"),
    functionOfOne<Acosh>("aten::acosh"),     functionOfOne<Atanh>("aten::atanh"),
    functionOfOne<Log1p>("aten::log1p"),     functionOfOne<Expm1>("aten::expm1"),
    functionOfOne<Erf>("aten::erf"),         functionOfOne<Erfc>("aten::erfc"),
    functionOfOne<Gamma>("aten::gamma"),     functionOfOne<LogGamma>("aten::lgamma"),
    functionOfOne<Fabs>("aten::fabs"),       functionOfOne<Degrees>("aten::degrees"),
    functionOfOne<Radians>("aten::radians"), functionOfOne<Round>("aten::round"),
    functionOfOne<Angle>("aten::angle"),     functionOfOne<Neg>("aten::neg"),
    functionOfOne<Abs>("prim::abs"),         functionOfOne<Floor>("aten::floor"),
    functionOfOne<Ceil>("aten::ceil"),
};

// ---- functions of two numbers, as floats ----

double logarithm(double a, double base) { return std::log(a) / std::log(base); }

template <auto kF>
void onTwo(Arguments a, IValue& r) {
  r = kF(floatOf(*a[0]), floatOf(*a[1]));
}
// Of a negative real number the logarithm is NaN here, too.
void logComplex(Arguments a, IValue& r) {
  auto log = [](const IValue& v) { return v.isComplex() ? std::log(v.toComplex()) : Complex128(std::log(floatOf(v))); };
  Complex128 x = log(*a[0]), y = log(*a[1]);
  r = IValue(a[1]->isComplex() ? divideComplex(x, y) : Complex128(x.real() / y.real(), x.imag() / y.real()));
}
void polar(Arguments a, IValue& r) {
  double length = floatOf(*a[0]), angle = floatOf(*a[1]);
  r = Complex128(length * std::cos(angle), length * std::sin(angle));
}
double arcTangent(double a, double b) { return std::atan2(a, b); }
double copySign(double a, double b) { return std::copysign(a, b); }
double floatMod(double a, double b) { return std::fmod(a, b); }
double nearestRemainder(double a, double b) { return std::remainder(a, b); }

struct FunctionOfTwo {
  const char* kind;
  ScalarFunction function;
  std::initializer_list<const char*> overloads;
};
const FunctionOfTwo kFunctionsOfTwo[] = {
    {"aten::atan2", onTwo<arcTangent>, {"int", "float", "int_float", "float_int", "Scalar_Scalar"}},
    {"aten::log", onTwo<logarithm>, {"int_int", "float_float", "int_float", "float_int", "Scalar_Scalar"}},
    {"aten::log", logComplex, {"complex_complex", "int_complex", "complex_int", "float_complex", "complex_float"}},
    {"aten::polar", polar, {"int", "float", "int_float", "float_int", "Scalar_Scalar"}},
    {"aten::fmod", onTwo<floatMod>, {"int", "float", "int_float", "float_int", ""}},
    {"aten::copysign", onTwo<copySign>, {"int", "float", "int_float", "float_int", ""}},
    {"aten::mathremainder", onTwo<nearestRemainder>, {"int", "float", "int_float", "float_int", ""}},
};

// ---- others ----

template <auto kF>
void testFloat(Arguments a, IValue& r) {
  r = kF(floatOf(*a[0]));
}
bool isNan(double a) { return std::isnan(a); }
bool isInf(double a) { return std::isinf(a); }
bool isFinite(double a) { return std::isfinite(a); }
void isNanComplex(Arguments a, IValue& r) {
  Complex128 v = complexOf(*a[0]);
  r = isNan(v.real()) || isNan(v.imag());
}
void isInfComplex(Arguments a, IValue& r) {
  Complex128 v = complexOf(*a[0]);
  r = isInf(v.real()) || isInf(v.imag());
}
void isFiniteComplex(Arguments a, IValue& r) {
  Complex128 v = complexOf(*a[0]);
  r = isFinite(v.real()) && isFinite(v.imag());
}

void gcd(Arguments a, IValue& r) {
  int64_t x = intOf(*a[0]), y = intOf(*a[1]);
  while (y != 0) {
    int64_t rest = truncMod(x, y);
    x = y;
    y = rest;
  }
  r = Abs::of(x);
}

// The product wraps; its powers of two are shifted in last, by a count that wraps too, as PyTorch does it.
void factorial(Arguments a, IValue& r) {
  auto n = static_cast<int32_t>(intOf(*a[0]));
  if (n < 0) failRun("factorial() not defined for negative values");
  uint64_t odd = 1;
  for (int64_t part = n; part > 1; part /= 2)
    for (int64_t i = 3; i <= part; i += 2) {
      odd *= static_cast<uint64_t>(i);
      if (i % 4096 == 1) RunContext::current().checkInterrupt(4096);
    }
  int shift = n - __builtin_popcount(static_cast<unsigned>(n));
  r = static_cast<int64_t>(odd << (shift & 63));
}

// The exponent counts modulo 2^32.
void ldexp(Arguments a, IValue& r) { r = std::ldexp(floatOf(*a[0]), static_cast<int32_t>(intOf(*a[1]))); }
void modf(KernelCall& call) {
  double whole, fraction = std::modf(floatOf(call.argument(0)), &whole);
  call.setResult(0, fraction);
  call.setResult(1, whole);
}
void frexp(KernelCall& call) {
  int exponent = 0;
  double mantissa = std::frexp(floatOf(call.argument(0)), &exponent);
  call.setResult(0, mantissa);
  call.setResult(1, std::isfinite(mantissa) ? exponent : 0);
}

struct NumberQuery {
  const char* schema;
  ScalarFunction function;
};
constexpr NumberQuery kNumberQueries[] = {
    {"aten::isnan.float", testFloat<isNan>},
    {"aten::isnan.complex", isNanComplex},
    {"aten::isinf.float", testFloat<isInf>},
    {"aten::isinf.complex", isInfComplex},
    {"aten::isfinite.float", testFloat<isFinite>},
    {"aten::isfinite.complex", isFiniteComplex},
    {"aten::gcd.int", gcd},
    {"aten::factorial.int", factorial},
    {"aten::ldexp", ldexp},
};

}  // namespace

void registerScalarMathOps(OpRegistry& ops) {
  auto add = [&](std::string schema, const char* overload, ScalarFunction f) {
    if (*overload) schema.append(".").append(overload);
    ops.add({.schema = Symbol::of(schema).text(), .scalar = f});
  };
  for (const FunctionOfOne& e : kFunctionsOfOne) {
    add(e.kind, "int", e.ints);
    add(e.kind, "float", e.floats);
    add(e.kind, "Scalar", e.scalars);
    if (e.complex) add(e.kind, "complex", e.complex);
  }
  for (const FunctionOfTwo& b : kFunctionsOfTwo)
    for (const char* overload : b.overloads) add(b.kind, overload, b.function);
  for (const NumberQuery& p : kNumberQueries) ops.add({.schema = p.schema, .scalar = p.function});
  ops.add({.schema = "aten::modf", .kernel = modf});
  ops.add({.schema = "aten::frexp", .kernel = frexp});
}

}  // namespace tscompile
