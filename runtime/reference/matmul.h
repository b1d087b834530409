// Matrix products of tensors of any dtype and strides.
#pragma once

#include "ir/values/ivalue.h"
#include "ir/values/tensor.h"

namespace tscompile {

// out = beta * out + alpha * a @ b for matrices a: [..., m, k], b: [..., k, n], out: [..., m, n] with equal leading
// dimensions, or without them. `out` must not share memory with a or b. With beta 0 it is not read. The factors are
// numbers that the dtype can hold. Integers wrap; 16-bit floats are multiplied and summed up in float32 and rounded
// once.
void matmulInto(const Tensor& out, const Tensor& a, const Tensor& b, const IValue& alpha = 1, const IValue& beta = 0);

// a @ b for tensors of at least two dimensions; the leading ones of `out` are those of a and b, broadcast.
void multiplyBatches(const Tensor& out, const Tensor& a, const Tensor& b);

}  // namespace tscompile
