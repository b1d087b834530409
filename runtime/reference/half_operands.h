// Products and quotients of tensors of 16 bits.
#pragma once

#include "runtime/call/kernel_call.h"

namespace tscompile {

// Whether a tensor of 16 bits is multiplied by, or divided by, a number or a tensor of one element.
template <class Call>
bool hasOneFactor(const Call& call) {
  return !call.argument(1).isTensor() || call.tensor(1).numel() == 1;
}

// The dtype that operands of such an operator are brought to before it computes: PyTorch takes what is one factor as it
// is in float32; on the left, and in all other operators, it is rounded first.
template <class Call>
DType factorDType(const Call& call, DType dtype) {
  const bool isHalf = dtype == DType::Float16 || dtype == DType::BFloat16;
  const bool isRounded = call.argument(1).isTensor() && call.tensor(1).dtype() == dtype;
  return isHalf && hasOneFactor(call) && !isRounded ? DType::Float32 : dtype;
}

// What the steps of functions are rounded by that PyTorch's vectors of 16 bits round; std::identity does not.
template <class Storage>
struct RoundedTo {
  float operator()(float v) const { return static_cast<float>(Storage(v)); }
};

}  // namespace tscompile
