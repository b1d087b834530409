#include "runtime/reference/dense.h"

#include "runtime/reference/loops/copy.h"

namespace tscompile {

DType computeDType(DType dtype) {
  if (isIntegral(dtype, true)) return DType::Int64;
  return dtype == DType::Float16 || dtype == DType::BFloat16 ? DType::Float32 : dtype;
}

Tensor denseTensor(const Tensor& t) { return t.defined() ? convertTensor(t, computeDType(t.dtype())) : t; }
Tensor denseTensor(const Tensor& t, DType dtype) { return t.defined() ? convertTensor(t, dtype) : t; }

DenseResult::DenseResult(Tensor result) : result_(std::move(result)) {
  DType dtype = computeDType(result_.dtype());
  dense_ = result_.dtype() == dtype && result_.isContiguous() ? result_ : Tensor::empty(dtype, result_.sizes());
}

void DenseResult::store() const { copyTensor(result_, dense_); }

}  // namespace tscompile
