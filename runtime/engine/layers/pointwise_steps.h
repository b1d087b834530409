// Converters of element-wise operators: what an operator computes as steps on its arguments. Those that are one step
// name it in their record; others write down their steps in their family file.
#pragma once

#include "runtime/engine/network/convert_call.h"
#include "runtime/kernels/pointwise.h"

#include <string_view>
#include <vector>

namespace tscompile {

inline constexpr std::string_view kTooLarge = "a number is too large for the dtype";

// Builds the program of one operator from the arguments of its call. What cannot be said fails; what is built then does
// not count.
class StepBuilder {
 public:
  explicit StepBuilder(ConvertCall& call) : call_(call) {}

  // Argument i as a value: a tensor, or a number.
  int value(size_t i);
  // Argument i as a number that is known.
  double number(size_t i);
  int constant(double v) { return program_.constant(v); }
  int step(PointwiseOp op, int a, int b = -1, int c = -1) { return program_.step(op, a, b, c); }
  // Whether argument i is no number, or one that an element of the result can be; kernels refuse all others.
  bool isElement(size_t i) const;
  // Steps with parameters.
  int stepWith(double alpha, double beta, PointwiseOp op, int a) { return program_.step(op, a, -1, -1, alpha, beta); }
  // value * alpha, where an argument says so.
  int scaled(int v, size_t alphaAt);
  // There are no such steps: why.
  int fail(std::string_view why);

  // Adds the layer that gives `result`; false if there is none, and `problem` tells why.
  bool finish(int result);
  std::string_view problem() const { return problem_; }
  const ConvertCall& call() const { return call_; }

 private:
  // What the steps are computed in: Float32, Int64, Float64; Undefined if there are no loops for that.
  DType computeType() const;
  // Why the steps cannot be computed in f32, on integers, on f64; empty if they can.
  std::string_view narrowProblem() const;
  std::string_view integerProblem() const;
  std::string_view doubleProblem() const;
  // Integers among the inputs of steps in f32, as floats.
  void convertIntegers(std::vector<TensorId>& inputs);

  ConvertCall& call_;
  PointwiseProgram program_;
  std::vector<size_t> arguments_;              // of each input of the program, its position in the call
  bool hasFloat_ = false, hasDouble_ = false;  // among the operands that are known
  std::string_view problem_;
};

// Appends the steps of an operator, and returns the value that is its result.
using PointwiseSteps = int (*)(StepBuilder&);
void convertSteps(ConvertCall& call, PointwiseSteps steps);

template <PointwiseSteps kSteps>
void convertPointwise(ConvertCall& call) {
  convertSteps(call, kSteps);
}

// The arguments are the operands of the step.
template <PointwiseOp kOp>
int singleStep(StepBuilder& b) {
  int operands[3] = {-1, -1, -1};
  for (int i = 0; i < pointwiseOperands(kOp); ++i) operands[i] = b.value(static_cast<size_t>(i));
  return b.step(kOp, operands[0], operands[1], operands[2]);
}
template <PointwiseOp kOp>
void convertPointwise(ConvertCall& call) {
  convertSteps(call, singleStep<kOp>);
}

}  // namespace tscompile
