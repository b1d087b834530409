// Matrix products of tensors of any dtype and strides.
#pragma once

#include "ir/tensor.h"

namespace tscompile {

// out = beta * out + alpha * a @ b for matrices a: [..., m, k], b: [..., k, n], out: [..., m, n] with equal leading
// dimensions, or without them. `out` must not share memory with a or b. With beta 0 it is not read. Integers wrap;
// 16-bit floats are multiplied and summed up in float32 and rounded once.
void matmulInto(const Tensor& out, const Tensor& a, const Tensor& b, double alpha = 1, double beta = 0);

}  // namespace tscompile
