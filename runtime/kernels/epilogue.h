// What a matrix product or convolution does to a result before it leaves the registers:
// activation(product + bias + residual).
#pragma once

#include "runtime/kernels/layout.h"

#include <cstdint>
#include <limits>

namespace tscompile {

enum class Activation : uint8_t {
  None,
#define TS_ACTIVATION(name, ...) name,
#include "runtime/kernels/pointwise_ops.def"
};

struct Epilogue {
  const float* bias = nullptr;      // per column (output channel), or null; read in full blocks of kBlock when `packed`
  const float* residual = nullptr;  // added; same layout and strides as the result, may be the result itself; or null
  Activation activation = Activation::None;
  float alpha = 0, beta = 0;
  // For sums that stand for integers, or null: a factor for each column, in full blocks of kBlock. The result is
  // rounded(sum * factor) within [alpha, beta] (requantize.h); there is neither residual nor activation.
  const float* factors = nullptr;
  const int32_t* integerBias = nullptr;  // of products of integers, in the place of bias; in full blocks
  // Of blocked results and what is added to them. If they are not floats, neither are factors there.
  ElementType resultType = {}, residualType = {};
};

// Those that are two instructions on registers.
inline bool isClamp(Activation a) { return a == Activation::Relu || a == Activation::Clamp; }
inline float clampLow(const Epilogue& e) { return e.activation == Activation::Relu ? 0.0f : e.alpha; }
inline float clampHigh(const Epilogue& e) {
  return e.activation == Activation::Relu ? std::numeric_limits<float>::infinity() : e.beta;
}

}  // namespace tscompile
