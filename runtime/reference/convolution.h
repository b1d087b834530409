// Convolutions of 1 to 3 spatial dimensions, and their transposes.
#pragma once

#include "ir/values/tensor.h"

namespace tscompile {

// One entry for each spatial dimension.
struct ConvolutionShape {
  Dims stride, padding, dilation, outputPadding;
  int64_t groups = 1;
};

// The spatial size of the output, for one dimension; negative if the kernel does not fit.
int64_t convolvedSize(int64_t size, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation);

// out = input * weight (+ bias). input: [n, c, ...], weight: [o, c / groups, ...], bias: [o] or undefined,
// out: [n, o, ...]; all of one dtype and contiguous. Pads by zeros, `padding` on both sides.
void convolve(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
              const ConvolutionShape& shape);
// The transpose: weight: [c, o / groups, ...].
void convolveTransposed(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& bias,
                        const ConvolutionShape& shape);

}  // namespace tscompile
