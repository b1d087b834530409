// Softmax and normalisation over rows of f32. Input and output may be the same memory.
#pragma once

#include "runtime/kernels/layout.h"

#include <cstdint>

namespace tscompile {

// Over the last dimension of [rows][count].
void softmaxRows(int64_t rows, int64_t count, const float* input, float* output, int threads);
void logSoftmaxRows(int64_t rows, int64_t count, const float* input, float* output, int threads);
// Over the middle dimension of [outer][count][inner].
void softmaxMiddle(int64_t outer, int64_t count, int64_t inner, bool logarithm, const float* input, float* output,
                   int threads);

// (x - mean) / sqrt(variance + epsilon) * weight + bias; weight and bias have `count` values, or are null.
void layerNormRows(int64_t rows, int64_t count, const float* input, const float* weight, const float* bias,
                   double epsilon, float* output, int threads);
// x / sqrt(mean of squares + epsilon) * weight.
void rmsNormRows(int64_t rows, int64_t count, const float* input, const float* weight, double epsilon, float* output,
                 int threads);
// Plain [batch][channels][area]: each group of channels is normalised as a whole; weight and bias are per channel, or
// null. With groups = channels this is instance normalisation.
void groupNorm(int64_t batch, int64_t channels, int64_t area, int64_t groups, const float* input, const float* weight,
               const float* bias, double epsilon, float* output, int threads);
// The same on blocked activations (layout.h), both floats or both lines of one kind.
void groupNormOfBlocks(int64_t batch, int64_t channels, int64_t area, int64_t groups, const float* input,
                       const ElementType& inputType, const float* weight, const float* bias, double epsilon,
                       float* output, const ElementType& outputType, int threads);

}  // namespace tscompile
