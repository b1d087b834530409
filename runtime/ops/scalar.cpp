// Operators on numbers: arithmetic, comparison, conversion, mathematics. Python's semantics, 64-bit integers that wrap.
#include <complex>

#include "ir/error.h"
#include "runtime/ops/ops.h"
#include "runtime/reference/numbers.h"

namespace tscompile {
namespace {

using C128 = std::complex<double>;
using Args = const IValue* const*;

[[noreturn]] void fail(const char* message) { throw ExecutionError(ErrorKind::Model, message); }

C128 toComplex(const IValue& v) { return v.isComplex() ? v.toComplex() : C128(v.toDouble(), 0); }

// ---- one function for each pair of types that programs use in loops; the others go by the tags ----

template <auto kF>
void onInts(Args a, IValue& r) { r = kF(a[0]->toInt(), a[1]->toInt()); }
template <auto kF>
void onFloats(Args a, IValue& r) { r = kF(a[0]->toFloat(), a[1]->toFloat()); }
template <auto kF>
void onInt(Args a, IValue& r) { r = kF(a[0]->toInt()); }
template <auto kF>
void onFloat(Args a, IValue& r) { r = kF(a[0]->toFloat()); }

// Op has overloads for (int64, int64), (double, double) and, where it means something, (C128, C128).
template <class Op>
void onNumbers(Args a, IValue& r) {
  const IValue& x = *a[0];
  const IValue& y = *a[1];
  if (x.isInt() && y.isInt()) {
    r = Op::of(x.toInt(), y.toInt());
  } else if constexpr (requires { Op::of(C128(), C128()); }) {
    if (x.isComplex() || y.isComplex())
      r = Op::of(toComplex(x), toComplex(y));
    else
      r = Op::of(x.toDouble(), y.toDouble());
  } else {
    r = Op::of(x.toDouble(), y.toDouble());
  }
}

struct Add {
  static int64_t of(int64_t a, int64_t b) { return wrapAdd(a, b); }
  static double of(double a, double b) { return a + b; }
  static C128 of(C128 a, C128 b) { return a + b; }
};
struct Sub {
  static int64_t of(int64_t a, int64_t b) { return wrapSub(a, b); }
  static double of(double a, double b) { return a - b; }
  static C128 of(C128 a, C128 b) { return a - b; }
};
struct Mul {
  static int64_t of(int64_t a, int64_t b) { return wrapMul(a, b); }
  static double of(double a, double b) { return a * b; }
  static C128 of(C128 a, C128 b) { return a * b; }
};
struct Less {
  static bool of(int64_t a, int64_t b) { return a < b; }
  static bool of(double a, double b) { return a < b; }
};
struct LessEqual {
  static bool of(int64_t a, int64_t b) { return a <= b; }
  static bool of(double a, double b) { return a <= b; }
};
struct Greater {
  static bool of(int64_t a, int64_t b) { return a > b; }
  static bool of(double a, double b) { return a > b; }
};
struct GreaterEqual {
  static bool of(int64_t a, int64_t b) { return a >= b; }
  static bool of(double a, double b) { return a >= b; }
};
struct Equal {
  static bool of(int64_t a, int64_t b) { return a == b; }
  static bool of(double a, double b) { return a == b; }
  static bool of(C128 a, C128 b) { return a == b; }
};
struct NotEqual {
  static bool of(int64_t a, int64_t b) { return a != b; }
  static bool of(double a, double b) { return a != b; }
  static bool of(C128 a, C128 b) { return a != b; }
};

struct Entry {
  const char* name;
  ScalarFunction f;
};
constexpr Entry kTable[] = {
    {"aten::add.int", onInts<wrapAdd>},
    {"aten::add.float", onFloats<[](double a, double b) { return a + b; }>},
    {"aten::add.complex", onNumbers<Add>},
    {"aten::add.int_complex", onNumbers<Add>},
    {"aten::add.complex_int", onNumbers<Add>},
    {"aten::add.float_complex", onNumbers<Add>},
    {"aten::add.complex_float", onNumbers<Add>},
    {"aten::add.int_float", onNumbers<Add>},
    {"aten::add.float_int", onNumbers<Add>},
    {"aten::add", onNumbers<Add>},
    {"aten::sub.int", onInts<wrapSub>},
    {"aten::sub.float", onFloats<[](double a, double b) { return a - b; }>},
    {"aten::sub", onNumbers<Sub>},
    {"aten::mul.int", onInts<wrapMul>},
    {"aten::mul.float", onFloats<[](double a, double b) { return a * b; }>},
    {"aten::mul", onNumbers<Mul>},
    {"aten::lt.int", onInts<[](int64_t a, int64_t b) { return a < b; }>},
    {"aten::gt.int", onInts<[](int64_t a, int64_t b) { return (a > b); }>},
    {"aten::eq.int", onInts<[](int64_t a, int64_t b) { return a == b; }>},
};

}  // namespace

void registerScalarOps(OpRegistry& ops) {
  for (const Entry& e : kTable) ops.add({.schema = e.name, .scalar = e.f});
}

}  // namespace tscompile
