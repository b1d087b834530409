// Operators on numbers: arithmetic, comparison, logic, bits. Python's semantics where TorchScript keeps them, 64-bit
// integers that wrap.
#include "runtime/call/kernel_call.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/loops/numbers.h"
#include "runtime/reference/loops/scalars.h"

#include <functional>

namespace tscompile {
namespace {

constexpr const char* kDivisionByZero = "ZeroDivisionError: integer division or modulo by zero";

// What an operator does with a pair of numbers of any types: one overload for each common type that it has.
template <class Op>
void onNumbers(Arguments a, IValue& r) {
  const IValue& x = *a[0];
  const IValue& y = *a[1];
  if (x.isInt() && y.isInt()) {
    r = Op::of(x.toInt(), y.toInt());
    return;
  }
  if constexpr (requires { Op::of(Complex128(), Complex128()); }) {
    if (x.isComplex() || y.isComplex()) {
      if (!x.isComplex())
        r = Op::of(floatOf(x), y.toComplex());
      else if (!y.isComplex())
        r = Op::of(x.toComplex(), floatOf(y));
      else
        r = Op::of(x.toComplex(), y.toComplex());
      return;
    }
  }
  r = Op::of(floatOf(x), floatOf(y));
}

// ---- arithmetic ----

// A real operand has no imaginary part that could turn infinities into NaN.
struct Add {
  static int64_t of(int64_t a, int64_t b) { return wrapAdd(a, b); }
  static double of(double a, double b) { return a + b; }
  static Complex128 of(Complex128 a, Complex128 b) { return a + b; }
  static Complex128 of(double a, Complex128 b) { return {a + b.real(), b.imag()}; }
  static Complex128 of(Complex128 a, double b) { return {a.real() + b, a.imag()}; }
};
struct Sub {
  static int64_t of(int64_t a, int64_t b) { return wrapSub(a, b); }
  static double of(double a, double b) { return a - b; }
  static Complex128 of(Complex128 a, Complex128 b) { return a - b; }
  static Complex128 of(double a, Complex128 b) { return {a - b.real(), -b.imag()}; }
  static Complex128 of(Complex128 a, double b) { return {a.real() - b, a.imag()}; }
};
struct Mul {
  static int64_t of(int64_t a, int64_t b) { return wrapMul(a, b); }
  static double of(double a, double b) { return a * b; }
  static Complex128 of(Complex128 a, Complex128 b) { return multiplyComplex(a, b); }
  static Complex128 of(double a, Complex128 b) { return {a * b.real(), a * b.imag()}; }
  static Complex128 of(Complex128 a, double b) { return {a.real() * b, a.imag() * b}; }
};
struct Div {
  static double of(int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); }
  static double of(double a, double b) { return a / b; }
};
void divComplex(Arguments a, IValue& r) { r = IValue(divideComplex(complexOf(*a[0]), complexOf(*a[1]))); }

struct FloorDiv {
  static int64_t of(int64_t a, int64_t b) {
    if (b == 0) failRun("ZeroDivisionError: division by 0");
    return floorDiv(a, b);
  }
  static double of(double a, double b) { return std::floor(a / b); }
};
struct Remainder {
  // As PyTorch computes it: b + a % b may wrap.
  static int64_t of(int64_t a, int64_t b) {
    if (b == 0) failRun(kDivisionByZero);
    return truncMod(wrapAdd(b, truncMod(a, b)), b);
  }
  static double of(double a, double b) { return std::fmod(b + std::fmod(a, b), b); }
};
int64_t roundToZeroDiv(int64_t a, int64_t b) {
  if (b == 0) failRun(kDivisionByZero);
  return truncDiv(a, b);
}

double power(double a, double b) {
  if (a == 0 && b < 0) failRun("0.0 cannot be raised to a negative power");
  return std::pow(a, b);
}
// int ** int is a float: a negative exponent gives one.
struct Pow {
  static double of(int64_t a, int64_t b) { return power(static_cast<double>(a), static_cast<double>(b)); }
  static double of(double a, double b) { return power(a, b); }
};
struct UncheckedPow {
  static double of(int64_t a, int64_t b) { return std::pow(static_cast<double>(a), static_cast<double>(b)); }
  static double of(double a, double b) { return std::pow(a, b); }
};
// As std::pow computes them, which must not be asked for a magnitude that is NaN.
std::complex<double> polarOf(double magnitude, double angle) {
  return {magnitude * std::cos(angle), magnitude * std::sin(angle)};
}
std::complex<double> powerOf(double a, std::complex<double> b) {
  return a > 0 ? polarOf(std::pow(a, b.real()), b.imag() * std::log(a)) : std::pow(std::complex<double>(a), b);
}
std::complex<double> powerOf(std::complex<double> a, double b) {
  if (a.imag() == 0 && a.real() > 0) return std::pow(a.real(), b);
  const std::complex<double> logarithm = std::log(a);
  return polarOf(std::exp(b * logarithm.real()), b * logarithm.imag());
}
void powComplex(Arguments a, IValue& r) {
  const IValue& x = *a[0];
  const IValue& y = *a[1];
  if (!x.isComplex())
    r = powerOf(floatOf(x), complexOf(y));
  else if (!y.isComplex())
    r = powerOf(complexOf(x), floatOf(y));
  else
    r = std::pow(complexOf(x), complexOf(y));
}
void powIntToInt(Arguments a, IValue& r) {
  r = truncatedInt(power(static_cast<double>(intOf(*a[0])), static_cast<double>(intOf(*a[1]))));
}

struct Min {
  static int64_t of(int64_t a, int64_t b) { return a < b ? a : b; }
  static double of(double a, double b) { return a < b ? a : b; }
};
struct Max {
  static int64_t of(int64_t a, int64_t b) { return a > b ? a : b; }
  static double of(double a, double b) { return a > b ? a : b; }
};

// ---- comparison ----

template <class Compare>
struct Ordered {
  static bool of(int64_t a, int64_t b) { return Compare{}(a, b); }
  static bool of(double a, double b) { return Compare{}(a, b); }
};
template <class Compare>
struct Equality : Ordered<Compare> {
  using Ordered<Compare>::of;
  static bool of(Complex128 a, Complex128 b) { return Compare{}(a, b); }
  static bool of(double a, Complex128 b) { return Compare{}(Complex128(a), b); }
  static bool of(Complex128 a, double b) { return Compare{}(a, Complex128(b)); }
};
template <class Compare>
void onStrings(Arguments a, IValue& r) {
  r = Compare{}(stringOf(*a[0]).compare(stringOf(*a[1])), 0);
}
template <class Compare>
void onBools(Arguments a, IValue& r) {
  r = Compare{}(boolOf(*a[0]), boolOf(*a[1]));
}
template <bool kEqual>
void onDevices(Arguments a, IValue& r) {
  r = (deviceOf(*a[0]) == deviceOf(*a[1])) == kEqual;
}
template <bool kEqual>
void onEnums(Arguments a, IValue& r) {
  for (int i = 0; i < 2; ++i)
    if (!a[i]->isEnum()) failArgument(*a[i], "an enum");
  r = valuesEqual(*a[0], *a[1]) == kEqual;
}
template <bool kSame>
void identity(Arguments a, IValue& r) {
  // NaN is not even itself.
  bool nan = a[0]->isFloat() && std::isnan(a[0]->toFloat());
  r = (a[0]->isSame(*a[1]) && !nan) == kSame;
}

// ---- logic and bits ----

int64_t shiftLeft(int64_t a, int64_t b) { return static_cast<int64_t>(static_cast<uint64_t>(a) << (b & 63)); }
int64_t shiftRight(int64_t a, int64_t b) { return a >> (b & 63); }
void logicalNot(Arguments a, IValue& r) { r = !boolOf(*a[0]); }

// ---- ranges ----

void rangeLength(Arguments a, IValue& r) {
  int64_t from = intOf(*a[0]), to = intOf(*a[1]), step = intOf(*a[2]);
  if (step == 0) failRun("range() arg 3 must not be zero");
  int64_t length = 0;
  if (step > 0 && from < to)
    length = wrapAdd(1, wrapSub(wrapSub(to, 1), from) / step);
  else if (step < 0 && from > to)
    length = wrapAdd(1, truncDiv(wrapSub(wrapSub(from, 1), to), wrapNeg(step)));
  r = length;
}
void deriveIndex(Arguments a, IValue& r) { r = wrapAdd(intOf(*a[1]), wrapMul(intOf(*a[0]), intOf(*a[2]))); }

// ---- registration ----

// Which overloads an operator has besides `int` and `float`.
enum Overloads : unsigned {
  kMixed = 1,       // int_float, float_int
  kScalars = 2,     // without a name: (Scalar, Scalar)
  kComplex = 4,     // complex, float_complex, complex_float
  kIntComplex = 8,  // int_complex, complex_int
};

struct NumberOperator {
  const char* kind;
  ScalarFunction ints, floats, any;  // `any`: of the other overloads
  unsigned overloads;
};

template <auto kInts, auto kFloats, class Op>
constexpr NumberOperator numberOperator(const char* kind, unsigned overloads) {
  return {kind, intOperator<kInts>, floatOperator<kFloats>, onNumbers<Op>, overloads};
}
// Operators whose cases go by the tags; those that loops use have addresses that the interpreter knows.
template <class Op>
constexpr NumberOperator numberOperator(const char* kind, unsigned overloads) {
  return {kind, onNumbers<Op>, onNumbers<Op>, onNumbers<Op>, overloads};
}

constexpr unsigned kOrder = kMixed | kScalars;
constexpr NumberOperator kBinary[] = {
    numberOperator<wrapAdd, std::plus<double>{}, Add>("aten::add", kMixed | kScalars | kComplex | kIntComplex),
    numberOperator<wrapSub, std::minus<double>{}, Sub>("aten::sub", kMixed | kScalars | kComplex | kIntComplex),
    numberOperator<wrapMul, std::multiplies<double>{}, Mul>("aten::mul", kMixed | kScalars | kComplex | kIntComplex),
    numberOperator<Div>("aten::div", kScalars),
    numberOperator<FloorDiv>("aten::floordiv", kMixed | kScalars),
    numberOperator<Remainder>("aten::remainder", kMixed | kScalars),
    numberOperator<Pow>("aten::pow", kMixed),
    numberOperator<Min>("prim::min", kMixed | kScalars),
    numberOperator<Max>("prim::max", kMixed | kScalars),
    numberOperator<std::less<int64_t>{}, std::less<double>{}, Ordered<std::less<>>>("aten::lt", kOrder),
    numberOperator<std::less_equal<int64_t>{}, std::less_equal<double>{}, Ordered<std::less_equal<>>>("aten::le",
                                                                                                      kOrder),
    numberOperator<std::greater<int64_t>{}, std::greater<double>{}, Ordered<std::greater<>>>("aten::gt", kOrder),
    numberOperator<std::greater_equal<int64_t>{}, std::greater_equal<double>{}, Ordered<std::greater_equal<>>>(
        "aten::ge", kOrder),
    numberOperator<std::equal_to<int64_t>{}, std::equal_to<double>{}, Equality<std::equal_to<>>>("aten::eq",
                                                                                                 kOrder | kComplex),
    numberOperator<std::not_equal_to<int64_t>{}, std::not_equal_to<double>{}, Equality<std::not_equal_to<>>>(
        "aten::ne", kOrder | kComplex),
};

struct Plain {
  const char* schema;
  ScalarFunction function;
  TraitSet traits = {};
};
constexpr Plain kPlain[] = {
    {"aten::div.complex", divComplex},
    {"aten::pow.complex", powComplex},
    {"aten::pow.float_complex", powComplex},
    {"aten::pow.complex_float", powComplex},
    {"aten::pow.Scalar_Scalar", onNumbers<UncheckedPow>},
    {"aten::pow.int_to_int", powIntToInt},
    {"aten::__round_to_zero_floordiv.int", intOperator<roundToZeroDiv>},
    {"aten::eq.bool", onBools<std::equal_to<>>},
    {"aten::ne.bool", onBools<std::not_equal_to<>>},
    {"aten::eq.str", onStrings<std::equal_to<>>},
    {"aten::ne.str", onStrings<std::not_equal_to<>>},
    {"aten::lt.str", onStrings<std::less<>>},
    {"aten::le.str", onStrings<std::less_equal<>>},
    {"aten::gt.str", onStrings<std::greater<>>},
    {"aten::ge.str", onStrings<std::greater_equal<>>},
    {"aten::eq.device", onDevices<true>},
    {"aten::ne.device", onDevices<false>},
    {"aten::eq.enum", onEnums<true>},
    {"aten::ne.enum", onEnums<false>},
    {"aten::__is__", identity<true>, {Trait::ReadsGeometry, Trait::ComparesObjects}},
    {"aten::__isnot__", identity<false>, {Trait::ReadsGeometry, Trait::ComparesObjects}},
    {"aten::__not__", logicalNot},
    {"aten::__and__.bool", onBools<std::logical_and<>>},
    {"aten::__or__.bool", onBools<std::logical_or<>>},
    {"aten::__xor__.bool", onBools<std::not_equal_to<>>},
    {"aten::__and__.int", intOperator<std::bit_and<int64_t>{}>},
    {"aten::__or__.int", intOperator<std::bit_or<int64_t>{}>},
    {"aten::__xor__.int", intOperator<std::bit_xor<int64_t>{}>},
    {"aten::__lshift__.int", intOperator<shiftLeft>},
    {"aten::__rshift__.int", intOperator<shiftRight>},
    {"aten::__range_length", rangeLength},
    {"aten::__derive_index", deriveIndex},
};

// ---- divmod ----

void divmodIntegers(KernelCall& call) {
  int64_t a = intOf(call.argument(0)), b = intOf(call.argument(1));
  if (b == 0) call.fail("{}", kDivisionByZero);
  call.setResult(0, floorDiv(a, b));
  call.setResult(1, floorMod(a, b));
}
void divmodFloats(KernelCall& call) {
  double a = floatOf(call.argument(0)), b = floatOf(call.argument(1));
  if (b == 0) call.fail("ZeroDivisionError: float divmod()");
  double rest = std::fmod(a, b);
  if (rest != 0 && (a < 0) != (b < 0)) rest += b;
  call.setResult(0, (a - rest) / b);
  call.setResult(1, rest);
}
template <class T>
T narrow(const IValue& v) {
  if constexpr (std::is_same_v<T, float>)
    return static_cast<float>(floatOf(v));
  else
    return static_cast<T>(intOf(v));
}
// PyTorch computes these in 32 bits, with a floor that is an int.
template <class A, class B>
void divmodMixed(KernelCall& call) {
  A a = narrow<A>(call.argument(0));
  B b = narrow<B>(call.argument(1));
  if (b == 0) call.fail("ZeroDivisionError: float divmod()");
  double quotient = std::floor(static_cast<float>(a) / static_cast<float>(b));
  if (!(std::fabs(quotient) <= 9223372036854775808.0)) call.fail("cannot convert float {} to integer", quotient);
  quotient = static_cast<double>(truncatedInt(quotient));
  call.setResult(0, quotient);
  call.setResult(1, static_cast<double>(a) - quotient * static_cast<double>(b));
}

}  // namespace

void registerScalarOps(OpRegistry& ops) {
  for (const NumberOperator& e : kBinary) {
    auto add = [&](const char* overload, ScalarFunction f) {
      std::string schema = e.kind;
      if (*overload) schema.append(".").append(overload);
      ops.add({.schema = Symbol::of(schema).text(), .scalar = f});
    };
    add("int", e.ints);
    add("float", e.floats);
    if (e.overloads & kScalars) add("", e.any);
    if (e.overloads & kMixed)
      for (const char* overload : {"int_float", "float_int"}) add(overload, e.any);
    if (e.overloads & kComplex)
      for (const char* overload : {"complex", "float_complex", "complex_float"}) add(overload, e.any);
    if (e.overloads & kIntComplex)
      for (const char* overload : {"int_complex", "complex_int"}) add(overload, e.any);
  }
  for (const Plain& p : kPlain) ops.add({.schema = p.schema, .scalar = p.function, .traits = p.traits});
  ops.add({.schema = "aten::divmod.int", .kernel = divmodIntegers});
  ops.add({.schema = "aten::divmod.float", .kernel = divmodFloats});
  ops.add({.schema = "aten::divmod.int_float", .kernel = divmodMixed<int32_t, float>});
  ops.add({.schema = "aten::divmod.float_int", .kernel = divmodMixed<float, int32_t>});
}

}  // namespace tscompile
