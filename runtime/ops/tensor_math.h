// Arithmetic on whole tensors, for operators that are made of it: the registered operators, by short names.
#pragma once

#include "runtime/call/kernel_call.h"

namespace tscompile {

// The second operand is a tensor or a number; dtypes are promoted and sizes broadcast as these operators do.
class TensorMath {
 public:
  explicit TensorMath(const KernelCall& call) : call_(call) {}

  Tensor add(const Tensor& a, const IValue& b) const;
  Tensor sub(const Tensor& a, const IValue& b) const;
  Tensor mul(const Tensor& a, const IValue& b) const;
  Tensor div(const Tensor& a, const IValue& b) const;
  Tensor neg(const Tensor& a) const;
  Tensor sum(const Tensor& a) const;
  Tensor sum(const Tensor& a, int64_t dim) const;
  Tensor cat(std::vector<Tensor> tensors, int64_t dim) const;

 private:
  const KernelCall& call_;
};

}  // namespace tscompile
