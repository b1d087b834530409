#include "runtime/ops/tensor_math.h"

#include "runtime/ops/call_op.h"

namespace tscompile {

Tensor TensorMath::add(const Tensor& a, const IValue& b) const {
  return invokeTensor(call_, b.isTensor() ? "aten::add.Tensor" : "aten::add.Scalar", {a, b, 1});
}
Tensor TensorMath::sub(const Tensor& a, const IValue& b) const {
  return invokeTensor(call_, b.isTensor() ? "aten::sub.Tensor" : "aten::sub.Scalar", {a, b, 1});
}
Tensor TensorMath::mul(const Tensor& a, const IValue& b) const {
  return invokeTensor(call_, b.isTensor() ? "aten::mul.Tensor" : "aten::mul.Scalar", {a, b});
}
Tensor TensorMath::div(const Tensor& a, const IValue& b) const {
  return invokeTensor(call_, b.isTensor() ? "aten::div.Tensor" : "aten::div.Scalar", {a, b});
}
Tensor TensorMath::neg(const Tensor& a) const { return invokeTensor(call_, "aten::neg", {a}); }
Tensor TensorMath::sum(const Tensor& a) const { return invokeTensor(call_, "aten::sum", {a, IValue()}); }
Tensor TensorMath::sum(const Tensor& a, int64_t dim) const {
  return invokeTensor(call_, "aten::sum.dim_IntList", {a, intList(Dims{dim}), false, IValue()});
}
Tensor TensorMath::cat(std::vector<Tensor> tensors, int64_t dim) const {
  return invokeTensor(call_, "aten::cat", {tensorList(std::move(tensors)), dim});
}

}  // namespace tscompile
