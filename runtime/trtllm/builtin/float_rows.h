// SIMD on rows of f32 that plugins share. Results do not depend on how callers divide the work.
#pragma once

#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/simd.h"

#include <cstdint>

namespace tscompile {

// out[r, c] = rows[r] . weights[c]: rows of k floats wherever they are; weights [n][k], out [m][..], at these strides.
// Each number is the same whatever m and n are.
void productOfRows(const float* const* rows, int64_t m, const float* weights, int64_t n, int64_t weightStride,
                   int64_t k, float* out, int64_t outStride);

// None, Relu, Gelu, GeluTanh, Silu, Softplus; in place or not.
void activateRow(Activation activation, const float* in, float* out, int64_t count);

// One step of a state-space scan over `width` channels, a multiple of kBlock; rows of a and h are `width` apart.
struct ScanStep {
  int64_t states, width;
  const float* a;        // [states][width]; with sameDecay: [width]
  bool sameDecay;        // of all states
  const float *dt, *dx;  // [width]; dx = dt * x
  const float *b, *c;    // [states]
  float* h;              // [states][width]: becomes exp(dt * a) * h + b * dx
  float* y;              // [width]: sum of c * h
};
void scanStep(const ScanStep& step);

}  // namespace tscompile
