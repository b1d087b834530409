// Quantised tensors: integers that stand for numbers on a grid. The dtype is QInt8, QUInt8 or QInt32; the storage knows
// the grid, so that all views of it do.
#pragma once

#include "ir/values/tensor.h"

namespace tscompile {

// An integer q stands for (q - zero point) * scale.
struct Quantization : RefCounted {
  enum class Scheme : uint8_t { PerTensorAffine, PerChannelAffine, PerChannelAffineFloatParams };
  Scheme scheme = Scheme::PerTensorAffine;
  double scale = 1;  // per tensor
  int64_t zeroPoint = 0;
  Tensor scales, zeroPoints;  // per channel: as many as the tensor's size along `axis`
  int64_t axis = 0;

  bool isPerTensor() const { return scheme == Scheme::PerTensorAffine; }
  static Ref<Quantization> perTensor(double scale, int64_t zeroPoint);
};

// How the integers of a quantised tensor stand for numbers; throws ExecutionError if that was never said.
const Quantization& quantizationOf(const Tensor& t);
// The dtype of the integers that a quantised one is stored as; others are as they are.
DType storedAs(DType dtype);
// The same memory as integers.
Tensor integersOf(const Tensor& quantized);
// The same memory as a quantised tensor. What is not known of a storage is said to it.
Tensor quantizedAs(const Tensor& integers, DType dtype, const Quantization& q);

}  // namespace tscompile
