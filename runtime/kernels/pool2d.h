// 2-d pooling in f32, plain or blocked activations (layout.h); the output has the input's layout.
#pragma once

#include "runtime/kernels/conv.h"

#include <cstdint>

namespace tscompile {

struct PackedWeights;

struct PoolShape {
  int64_t batch = 1, channels = 0, inHeight = 0, inWidth = 0;
  int64_t outHeight = 0, outWidth = 0;  // with or without ceil_mode: the caller's business
  int64_t kernelHeight = 1, kernelWidth = 1, strideHeight = 1, strideWidth = 1;
  int64_t dilationHeight = 1, dilationWidth = 1;  // of max pooling
  int64_t padTop = 0, padLeft = 0, padBottom = 0, padRight = 0;
};

// NaN wins, as in PyTorch; a window wholly outside gives -inf.
void maxPool2d(const PoolShape&, ActivationLayout, const float* input, float* output, int threads);
// Divides by the window's size, with its padding or without, or by `divisor` if that is not 0.
void averagePool2d(const PoolShape&, ActivationLayout, bool countPadding, int64_t divisor, const float* input,
                   float* output, int threads);
// The mean over `area` = H * W of each channel; output [N][C], plain, whatever the layout of the input.
void globalAveragePool(int64_t batch, int64_t channels, int64_t area, ActivationLayout, const float* input,
                       float* output, int threads);

// ---- windows over activations of lines (layout.h), computed in f32 ----

// A line's channels as vectors of 16 floats hold them: channel j * vectors + i is lane j of vector i.
int64_t placeInVectors(int64_t channel, const ElementType& type);

// One channel a group, from lines to lines of one kind; a row of the weights is a kernel position, and they are stored
// as BF16 or I8, as the lines are.
void depthwiseOfLines(const ConvShape& s, const float* input, const PackedWeights& weights, const void* packed,
                      float* output, const Epilogue& epilogue, int threads);

// As in pool2d.h, from lines to lines of the same type.
void maxPoolOfLines(const PoolShape& s, const ElementType& type, const float* input, float* output, int threads);
void averagePoolOfLines(const PoolShape& s, const ElementType& type, bool countPadding, int64_t divisor,
                        const float* input, float* output, int threads);
// To floats, [N][C].
void globalAveragePoolOfLines(int64_t batch, int64_t channels, int64_t area, const ElementType& type,
                              const float* input, float* output, int threads);
// Sixteen channels, from 16 * part on, of some pixels of lines: as rows of floats, and back.
void openPart(const float* lines, int64_t part, int64_t pixels, const ElementType& type, float* to);
void closePart(const float* from, int64_t pixels, const ElementType& type, float* lines, int64_t part);
// To floats, [N][C][area].
void fromLines(int64_t batch, int64_t channels, int64_t area, const ElementType& type, const float* lines, float* plain,
               int threads);

}  // namespace tscompile
