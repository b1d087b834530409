#include "ir/values/quantization.h"

#include "ir/values/error.h"

namespace tscompile {

Ref<Quantization> Quantization::perTensor(double scale, int64_t zeroPoint) {
  auto q = Ref<Quantization>::make();
  q->scale = scale;
  q->zeroPoint = zeroPoint;
  return q;
}

const Quantization& quantizationOf(const Tensor& t) {
  const Quantization* q = t.storage()->quantization();
  if (!q || !isQuantized(t.dtype())) throw ExecutionError(ErrorKind::Model, "expected a quantised tensor");
  return *q;
}

DType storedAs(DType dtype) {
  switch (dtype) {
    case DType::QInt8:
      return DType::Int8;
    case DType::QUInt8:
      return DType::UInt8;
    case DType::QInt32:
      return DType::Int32;
    default:
      return dtype;
  }
}

Tensor integersOf(const Tensor& t) {
  return Tensor::view(storedAs(t.dtype()), t.storage(), t.sizes(), t.strides(), t.offset());
}

Tensor quantizedAs(const Tensor& t, DType dtype, const Quantization& q) {
  TS_CHECK(storedAs(dtype) == t.dtype());
  if (!t.storage()->quantization()) t.storage()->setQuantization(q);
  return Tensor::view(dtype, t.storage(), t.sizes(), t.strides(), t.offset());
}

}  // namespace tscompile
