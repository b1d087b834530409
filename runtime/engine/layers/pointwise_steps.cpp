#include "runtime/engine/layers/pointwise_steps.h"

#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/kernels/wide_ops.h"
#include "runtime/reference/loops/copy.h"
#include "runtime/reference/promotion.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

constexpr std::string_view kNoLoop = "no loop computes in the dtypes of the arguments";

// What loops on integers load; on f64 as well, but for narrow ones.
bool isNarrowInteger(DType d) { return d == DType::UInt8 || d == DType::Int8 || d == DType::Int16; }
bool isWideInteger(DType d) { return d == DType::Int64 || d == DType::Int32; }

// Steps that give a truth value where their operands are truth values.
bool keepsTruth(PointwiseOp op) {
  return (op >= PointwiseOp::Eq && op <= PointwiseOp::Xor) || op == PointwiseOp::Not || op == PointwiseOp::Where ||
         op == PointwiseOp::Copy || op == PointwiseOp::Min || op == PointwiseOp::Max || op == PointwiseOp::IsNan;
}

}  // namespace

int StepBuilder::fail(std::string_view why) {
  if (problem_.empty()) problem_ = why;
  return constant(0);
}

int StepBuilder::value(size_t i) {
  const IValue& v = call_.argument(i);
  if (!v.isTensor()) {
    hasFloat_ |= v.isFloat();
    return constant(number(i));
  }
  Tensor t = v.toTensor();
  if (t.rank() == 0 && !t.storage()->isSymbolic() && !isComplex(t.dtype())) {
    hasFloat_ |= isFloating(t.dtype());
    hasDouble_ |= t.dtype() == DType::Float64;
    return constant(numberOf(t).toDouble());
  }
  if (!isPointwise(t.dtype()) && t.dtype() != DType::Float64 && !isIntegral(t.dtype(), false)) return fail(kNoLoop);
  arguments_.push_back(i);
  return program_.input(t.dtype());
}

double StepBuilder::number(size_t i) {
  const IValue& v = call_.argument(i);
  if (v.isNumber() && !v.isComplex()) return v.toDouble();
  fail("an argument is not a known real number");
  return 0;
}

bool StepBuilder::isElement(size_t i) const {
  const IValue& v = call_.argument(i);
  return !v.isNumber() || v.isComplex() || isInRange(v.toDouble(), call_.spec().dtype);
}

int StepBuilder::scaled(int v, size_t alphaAt) {
  double alpha = number(alphaAt);
  return alpha == 1 ? v : step(PointwiseOp::Mul, v, constant(alpha));
}

namespace {

bool isLogic(const PointwiseProgram& program) {
  return std::all_of(program.values().begin(), program.values().end(), [](const PointwiseProgram::Value& v) {
    return v.kind != PointwiseProgram::Value::Kind::Step || v.op == PointwiseOp::And || v.op == PointwiseOp::Or ||
           v.op == PointwiseOp::Xor || v.op == PointwiseOp::Not;
  });
}

}  // namespace

DType StepBuilder::computeType() const {
  const DType result = call_.spec().dtype;
  if (result == DType::Float32 || result == DType::Float64) return result;
  if (isWideInteger(result)) return DType::Int64;
  if (result != DType::Bool) return DType::Undefined;
  // Of comparisons and logic: what the operands promote to.
  bool floats = false, doubles = false, integers = false;
  for (size_t i : arguments_) {
    const DType d = call_.tensor(i).dtype();
    (d == DType::Float32 ? floats : d == DType::Float64 ? doubles : integers) |= d != DType::Bool;
  }
  if (doubles) return floats ? DType::Undefined : DType::Float64;
  if (hasDouble_ && !floats) return DType::Undefined;
  return floats || hasFloat_ || (isLogic(program_) && !integers) ? DType::Float32 : DType::Int64;
}

std::string_view StepBuilder::narrowProblem() const {
  for (size_t i : arguments_)
    if (call_.tensor(i).dtype() == DType::Float64) return kNoLoop;
  for (const PointwiseProgram::Value& v : program_.values())
    if (!isInRange(v.alpha, DType::Float32) || !isInRange(v.beta, DType::Float32)) return kTooLarge;
  return {};
}

std::string_view StepBuilder::doubleProblem() const {
  for (size_t i : arguments_)
    if (const DType d = call_.tensor(i).dtype(); d != DType::Float64 && d != DType::Bool && !isWideInteger(d))
      return kNoLoop;
  for (const PointwiseProgram::Value& v : program_.values())
    if (v.kind == PointwiseProgram::Value::Kind::Step && !wideFunction<double>(v.op))
      return "there is no such loop on float64";
  return {};
}

std::string_view StepBuilder::integerProblem() const {
  using Kind = PointwiseProgram::Value::Kind;
  // Numbers that fit all integers among the operands; those that do not mean others there.
  double least = -0x1p53, most = 0x1p53;
  ResultType common;
  for (size_t i : arguments_) common.add(TensorInfo{call_.tensor(i).dtype(), true, call_.tensor(i).sizes()});
  for (size_t i : arguments_) {
    const DType d = call_.tensor(i).dtype();
    // As in uint8 beside an int64 without dimensions.
    if (d != DType::Bool && promoteTypes(d, common.get()) != common.get()) return "an operand loses bits first";
    if (!isWideInteger(d) && !isNarrowInteger(d) && d != DType::Bool) return kNoLoop;
    if (d == DType::Int32) least = std::max(least, -0x1p31), most = std::min(most, 0x1p31);
    if (isNarrowInteger(d)) least = -1, most = 0x1p7;
  }
  auto fits = [&](double v) { return std::trunc(v) == v && v > least && v < most; };
  const bool isTruth =
      std::ranges::all_of(arguments_, [&](size_t i) { return call_.tensor(i).dtype() == DType::Bool; });
  for (const PointwiseProgram::Value& v : program_.values()) {
    if (v.kind == Kind::Constant && !fits(v.alpha)) return "a number is not whole, or too large";
    if (v.kind != Kind::Step) continue;
    if (!wideFunction<int64_t>(v.op)) return "there is no such loop on integers";
    if (isTruth && !keepsTruth(v.op)) return "arithmetic on bool is integer work, or refused";
    const bool isBounded = fits(v.alpha) || v.alpha == -INFINITY, isBelow = fits(v.beta) || v.beta == INFINITY;
    if (v.op == PointwiseOp::Clamp && !(isBounded && isBelow)) return "a number is not whole, or too large";
    if (v.op != PointwiseOp::FloorDiv && v.op != PointwiseOp::Remainder && v.op != PointwiseOp::Fmod) continue;
    const PointwiseProgram::Value& divisor = program_.values()[static_cast<size_t>(v.b)];
    if (divisor.kind != Kind::Constant || divisor.alpha == 0) return "the divisor is not known";
  }
  return {};
}

void StepBuilder::convertIntegers(std::vector<TensorId>& inputs) {
  for (size_t k = 0; k < arguments_.size(); ++k) {
    const Tensor t = call_.tensor(arguments_[k]);
    if (isPointwise(t.dtype())) continue;
    program_.retype(static_cast<int>(k), DType::Float32);
    inputs[k] = addFloats(call_, t);
  }
}

bool StepBuilder::finish(int result) {
  const DType computed = computeType();
  if (arguments_.empty()) fail("all arguments are known");
  if (computed == DType::Undefined) fail(kNoLoop);
  if (problem_.empty())
    problem_ = computed == DType::Float32   ? narrowProblem()
               : computed == DType::Float64 ? doubleProblem()
                                            : integerProblem();
  if (!problem_.empty()) return false;
  std::vector<TensorId> inputs;
  for (size_t i : arguments_) inputs.push_back(call_.operand(i));
  if (computed == DType::Float32) convertIntegers(inputs);
  program_.computeIn(computed);
  program_.output(result, call_.spec().dtype);
  const TensorId output = call_.makeResult();
  auto settle = [&](auto& layer) {
    layer.program = std::move(program_);
    layer.inputs = std::move(inputs);
    layer.outputs = {output};
  };
  computed == DType::Float32 ? settle(call_.add<PointwiseLayer>()) : settle(call_.add<WideLoopLayer>());
  return true;
}

void convertSteps(ConvertCall& call, PointwiseSteps steps) {
  const TensorSpec& spec = call.spec();
  if (!allKnown(spec.sizes) || checkedNumel(spec.sizes) == 0)
    return convertToKernel(call, "the result has no elements");
  StepBuilder builder(call);
  int result = steps(builder);
  if (!builder.finish(result)) convertToKernel(call, builder.problem());
}

}  // namespace tscompile
