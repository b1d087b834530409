// Products of many small matrices that lie anywhere, and attention without its matrix of scores in memory.
#pragma once

#include "runtime/kernels/epilogue.h"

#include <cstdint>

namespace tscompile {

// A matrix of each pair (outer, inner), as batch and head: element [i, j] is at
// data + outer * outerStride + inner * innerStride + i * row + j * column (floats; 0 repeats).
struct BatchedMatrix {
  const float* data;
  int64_t outerStride, innerStride, row, column;
};

// C = alpha * A * B per pair; C's column stride is 1. A is m x k, B is k x n.
void batchedGemm(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                 const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, int threads);

struct AttentionShape {
  int64_t outer = 1, inner = 1;  // batch, heads
  int64_t queries = 0, keys = 0;
  int64_t depth = 0, valueDepth = 0;  // of a query and key; of a value
  float scale = 1;
  bool causal = false;  // query i sees keys 0 .. i (top left, as PyTorch's is_causal)
};

// out = softmax(Q K^T * scale + mask) V. The matrices are [queries][depth], [keys][depth], [keys][valueDepth]; the mask
// is [queries][keys] and added, or its data is null. out's column stride is 1.
void attention(const AttentionShape& shape, const BatchedMatrix& q, const BatchedMatrix& k, const BatchedMatrix& v,
               const BatchedMatrix& mask, float* out, int64_t outOuter, int64_t outInner, int64_t outRow, int threads);

}  // namespace tscompile
