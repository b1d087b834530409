#include "runtime/ops/elementwise/complex_parts.h"

#include "runtime/engine/layers/complex_layer.h"
#include "runtime/engine/layers/operands.h"
#include "runtime/ops/call_op.h"
#include "runtime/reference/elementwise.h"

#include <limits>
#include <numbers>

namespace tscompile {
namespace {

constexpr DType kComplex = DType::Complex64;

// The complex tensor as a real one with a last dimension of two.
IValue pairsOf(const ConvertCall& call, const Tensor& t) { return call.compute("aten::view_as_real", {t}); }
IValue partOf(const ConvertCall& call, const Tensor& t, int64_t of) {
  return call.compute("aten::select.int", {pairsOf(call, t), int64_t{-1}, of});
}

void setPairs(ConvertCall& call, const IValue& pairs) {
  call.setResult(0, call.compute("aten::view_as_complex", {pairs}));
}
void setParts(ConvertCall& call, const IValue& re, const IValue& im) {
  setPairs(call, call.compute("aten::stack", {tensorList({re.toTensor(), im.toTensor()}), int64_t{-1}}));
}

bool isComplexTensor(const ConvertCall& call, size_t i) {
  return call.argument(i).isTensor() && call.tensor(i).dtype() == kComplex;
}

// An argument as parts; those of real numbers have no imaginary one.
struct Parts {
  IValue re, im;
  bool isReal() const { return im.isNone(); }
};
Parts partsOf(const ConvertCall& call, size_t i) {
  const IValue& v = call.argument(i);
  if (isComplexTensor(call, i)) return {partOf(call, v.toTensor(), 0), partOf(call, v.toTensor(), 1)};
  if (v.isComplex()) return {v.toComplex().real(), v.toComplex().imag()};
  return {v, IValue()};
}

IValue two(const ConvertCall& call, std::string_view name, const IValue& a, const IValue& b) {
  const std::string op = fmt::format("aten::{}.{}", name, b.isTensor() ? "Tensor" : "Scalar");
  return name == "add" || name == "sub" ? call.compute(op, {a, b, int64_t{1}}) : call.compute(op, {a, b});
}
IValue product(const ConvertCall& call, const IValue& a, const IValue& b) {
  return a.isTensor() ? two(call, "mul", a, b) : two(call, "mul", b, a);
}

bool isEmpty(const ConvertCall& call) {
  return !allKnown(call.spec().sizes) || checkedNumel(call.spec().sizes).value_or(0) == 0;
}

}  // namespace

bool isOnParts(const ConvertCall& call) {
  bool some = false;
  for (size_t i = 0; i < call.size(); ++i) {
    const IValue& v = call.argument(i);
    some |= v.isComplex();
    if (!v.isTensor()) continue;
    const DType dtype = v.toTensor().dtype();
    if (dtype != kComplex && dtype != DType::Float32) return false;
    some |= dtype == kComplex;
  }
  return some && call.spec().dtype == kComplex && !isEmpty(call);
}

namespace {

// What the imaginary part 0 of a real number adds to a product or quotient: signs of zeros, and NaN of infinities.
IValue crossed(const ConvertCall& call, const IValue& pairs, float ofReal, float ofImaginary) {
  Tensor zeros = Tensor::empty(DType::Float32, Dims{2});
  zeros.data<float>()[0] = ofReal;
  zeros.data<float>()[1] = ofImaginary;
  return call.compute("aten::mul.Tensor", {call.compute("aten::flip", {pairs, intList(Dims{-1})}), zeros});
}

// The second argument times alpha, 1, which is complex, too.
IValue pairsTimesOne(const ConvertCall& call) {
  const IValue pairs = pairsOf(call, call.tensor(1));
  return two(call, "add", pairs, crossed(call, pairs, -0.0F, 0));
}
Parts partsTimesOne(const ConvertCall& call) {
  const Parts b = partsOf(call, 1);
  auto zeroTimes = [&](const IValue& v) -> IValue {
    return v.isTensor() ? product(call, v, 0.0) : IValue(v.toDouble() * 0.0);
  };
  auto joined = [&](std::string_view name, const IValue& x, const IValue& y) -> IValue {
    if (x.isTensor() || y.isTensor()) return two(call, name, x, y);
    return IValue(name == "add" ? x.toDouble() + y.toDouble() : x.toDouble() - y.toDouble());
  };
  if (b.isReal()) return {b.re, joined("add", zeroTimes(b.re), 0.0)};
  return {joined("sub", b.re, zeroTimes(b.im)), joined("add", b.im, zeroTimes(b.re))};
}

void convertSum(ConvertCall& call, std::string_view name) {
  if (!call.argument(2).isNumber() || call.argument(2).isComplex() || call.number(2) != 1)
    return convertToKernel(call, "alpha is not 1");
  if (isComplexTensor(call, 0) && isComplexTensor(call, 1))
    return setPairs(call, two(call, name, pairsOf(call, call.tensor(0)), pairsTimesOne(call)));
  const Parts a = partsOf(call, 0), b = partsTimesOne(call);
  const IValue sizes = intList(Dims(call.spec().sizes));
  auto expanded = [&](const IValue& part) { return call.compute("aten::expand", {part, sizes}); };
  // Real numbers have the imaginary part 0, which decides the sign of a sum of zeros.
  const IValue zero = 0.0;
  auto besideReal = [&] {
    if (!b.im.isTensor())
      return call.compute("aten::full_like", {a.re, name == "sub" ? 0.0 - b.im.toDouble() : 0.0 + b.im.toDouble()});
    return name == "sub" ? call.compute("aten::rsub.Scalar", {b.im, zero, int64_t{1}}) : two(call, "add", b.im, zero);
  };
  const IValue im = a.isReal() ? besideReal() : two(call, name, a.im, b.im);
  setParts(call, expanded(two(call, name, a.re, b.re)), expanded(im));
}

}  // namespace

void convertComplexAdd(ConvertCall& call) { convertSum(call, "add"); }
void convertComplexSub(ConvertCall& call) { convertSum(call, "sub"); }

namespace {

void addLayer(ConvertCall& call, bool divides) {
  auto factor = [&](size_t i) {
    const Tensor x = operandTensor(call, i);
    return call.argument(i).isTensor() ? x : convertTensor(x, kComplex);
  };
  addComplexLayer(call, factor(0), factor(1), divides);
}

}  // namespace

// Complex numbers lie in pairs: what needs real and imaginary parts apart is faster by one loop over both.
void convertComplexProduct(ConvertCall& call) {
  const IValue& by = call.argument(1);
  if (!isComplexTensor(call, 0) || !by.isNumber() || by.isComplex()) return addLayer(call, false);
  const IValue pairs = pairsOf(call, call.tensor(0));
  setPairs(call, two(call, "add", product(call, pairs, by), crossed(call, pairs, -0.0F, 0)));
}

void convertComplexQuotient(ConvertCall& call) {
  const IValue& by = call.argument(1);
  if (by.isTensor() && !isComplexTensor(call, 1)) return addLayer(call, true);
  if (!by.isNumber() || by.isComplex()) return convertToKernel(call, "the divisor is complex");
  const IValue pairs = pairsOf(call, call.tensor(0));
  const auto zero = static_cast<float>(0.0 / by.toDouble());
  setPairs(call, two(call, "div", two(call, "add", pairs, crossed(call, pairs, zero, -zero)), by));
}

void convertComplexNegation(ConvertCall& call) {
  setPairs(call, call.compute("aten::neg", {pairsOf(call, call.tensor(0))}));
}

int hypotenuse(StepBuilder& b, int x, int y) {
  const int a = b.step(PointwiseOp::Abs, x), c = b.step(PointwiseOp::Abs, y);
  const int most = b.step(PointwiseOp::Max, a, c), least = b.step(PointwiseOp::Min, a, c);
  const int infinity = b.constant(std::numeric_limits<double>::infinity());
  // Of zeros the quotient is NaN; of an infinity the length is infinite, whatever the other is.
  const int ratio = b.step(PointwiseOp::Div, least, most);
  const int length =
      b.step(PointwiseOp::Mul, most,
             b.step(PointwiseOp::Sqrt, b.stepWith(1, 1, PointwiseOp::Scale, b.step(PointwiseOp::Square, ratio))));
  const int nonZero = b.step(PointwiseOp::Where, b.step(PointwiseOp::Eq, most, b.constant(0)), most, length);
  const int isInfinite =
      b.step(PointwiseOp::Or, b.step(PointwiseOp::Eq, a, infinity), b.step(PointwiseOp::Eq, c, infinity));
  return b.step(PointwiseOp::Where, isInfinite, infinity, nonZero);
}

void convertMagnitude(ConvertCall& call) {
  if (call.tensor(0).dtype() != kComplex || isEmpty(call)) return convertPointwise<PointwiseOp::Abs>(call);
  const Tensor x = call.tensor(0);
  call.setResult(0, call.compute("aten::hypot", {partOf(call, x, 0), partOf(call, x, 1)}));
}

namespace {

int angleOfReal(StepBuilder& b) {
  const int x = b.value(0);
  const int isNegative = b.step(PointwiseOp::Lt, x, b.constant(0));
  const int angle = b.step(PointwiseOp::Where, isNegative, b.constant(std::numbers::pi), b.constant(0));
  return b.step(PointwiseOp::Where, b.step(PointwiseOp::IsNan, x), x, angle);
}

}  // namespace

void convertAngle(ConvertCall& call) {
  if (call.tensor(0).dtype() != kComplex || isEmpty(call)) return convertSteps(call, angleOfReal);
  const Tensor x = call.tensor(0);
  call.setResult(0, call.compute("aten::atan2", {partOf(call, x, 1), partOf(call, x, 0)}));
}

void convertComplexExp(ConvertCall& call) {
  if (call.tensor(0).dtype() != kComplex || isEmpty(call)) return convertPointwise<PointwiseOp::Exp>(call);
  const Tensor x = call.tensor(0);
  const IValue size = call.compute("aten::exp", {partOf(call, x, 0)}), angle = partOf(call, x, 1);
  // Of real numbers the result is real, also where it is infinite.
  const IValue isReal = call.compute("aten::eq.Scalar", {angle, 0.0});
  setParts(call, product(call, size, call.compute("aten::cos", {angle})),
           call.compute("aten::where.self", {isReal, angle, product(call, size, call.compute("aten::sin", {angle}))}));
}

void convertFromParts(ConvertCall& call) {
  if (call.spec().dtype != kComplex || isEmpty(call)) return convertToKernel(call, kNotF32);
  const IValue sizes = intList(Dims(call.spec().sizes));
  setParts(call, call.compute("aten::expand", {call.argument(0), sizes}),
           call.compute("aten::expand", {call.argument(1), sizes}));
}

void convertFromPolar(ConvertCall& call) {
  if (call.spec().dtype != kComplex || isEmpty(call)) return convertToKernel(call, kNotF32);
  setParts(call, product(call, call.argument(0), call.compute("aten::cos", {call.argument(1)})),
           product(call, call.argument(0), call.compute("aten::sin", {call.argument(1)})));
}

void convertConjugate(ConvertCall& call) {
  if (call.tensor(0).dtype() != kComplex || isEmpty(call)) return convertToKernel(call);
  Tensor signs = Tensor::empty(DType::Float32, Dims{2});
  signs.data<float>()[0] = 1;
  signs.data<float>()[1] = -1;
  setPairs(call, call.compute("aten::mul.Tensor", {pairsOf(call, call.tensor(0)), signs}));
}

}  // namespace tscompile
