#include "runtime/engine/layers/pointwise_steps.h"

#include "runtime/engine/layers/pointwise_layer.h"
#include "runtime/reference/loops/copy.h"

#include <algorithm>

namespace tscompile {

int StepBuilder::fail(std::string_view why) {
  if (problem_.empty()) problem_ = why;
  return constant(0);
}

int StepBuilder::value(size_t i) {
  const IValue& v = call_.argument(i);
  if (!v.isTensor()) return constant(number(i));
  Tensor t = v.toTensor();
  if (t.rank() == 0 && !t.storage()->isSymbolic() && !isComplex(t.dtype())) return constant(numberOf(t).toDouble());
  if (!isPointwise(t.dtype())) return fail("an argument is neither float32 nor bool");
  inputs_.push_back(call_.operand(i));
  return program_.input(t.dtype());
}

double StepBuilder::number(size_t i) {
  const IValue& v = call_.argument(i);
  if (v.isNumber() && !v.isComplex()) return v.toDouble();
  fail("an argument is not a known real number");
  return 0;
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

bool StepBuilder::finish(int result) {
  const DType type = call_.spec().dtype;
  bool floats = false;
  for (TensorId id : inputs_) floats |= call_.network()[id].isFloat();
  if (!isPointwise(type)) fail("the result is neither float32 nor bool");
  if (inputs_.empty()) fail("all arguments are known");
  // Arithmetic on bool alone is integer work, or refused.
  if (type != DType::Float32 && !floats && !isLogic(program_)) fail("no argument is float32");
  if (!problem_.empty()) return false;
  program_.output(result, type);
  TensorId output = call_.makeResult();
  auto& layer = call_.add<PointwiseLayer>();
  layer.program = std::move(program_);
  layer.inputs = std::move(inputs_);
  layer.outputs = {output};
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
