// Products of many small matrices that lie anywhere.
#pragma once

#include <cstdint>

namespace tscompile {

// A matrix of each pair (outer, inner), as batch and head: element [i, j] is at
// data + outer * outerStride + inner * innerStride + i * row + j * column (floats; 0 repeats).
struct BatchedMatrix {
  const float* data;
  int64_t outerStride, innerStride, row, column;

  const float* at(int64_t outer, int64_t inner) const { return data + outer * outerStride + inner * innerStride; }
};

// C = alpha * A * B per pair; C's column stride is 1. A is m x k, B is k x n.
void batchedGemm(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                 const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, int threads);

}  // namespace tscompile
