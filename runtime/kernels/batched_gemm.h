// Products of many small matrices that lie anywhere, and of planes.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tscompile {

// A matrix of each pair (outer, inner), as batch and head: element [i, j] is at
// data + outer * outerStride + inner * innerStride + i * row + j * column (floats; 0 repeats).
struct BatchedMatrix {
  const float* data;
  int64_t outerStride, innerStride, row, column;
  const int64_t* places = nullptr;  // the place of each inner matrix, where they are in another order

  const float* at(int64_t outer, int64_t inner) const {
    return data + outer * outerStride + (places ? places[inner] : inner) * innerStride;
  }
};

// A matrix times a vector, out[i] = alpha * sum over j; element [i, j] of the matrix is at i * row + j * column.
struct MatrixVector {
  int64_t rows, depth;
  float alpha;
  const float* matrix;
  int64_t row, column;
  const float* vector;  // contiguous
  float* out;
  int64_t outStep;
};

// The same with some rows of A, at most kMostFewRows, and rows of B that lie side by side: C is m x n.
inline constexpr int64_t kMostFewRows = 4;
struct FewRows {
  int64_t m, n, k;
  float alpha;
  const float* a;
  int64_t aRow, aColumn;
  const float* b;
  int64_t bRow;
  float* c;
  int64_t cRow;
};

// C = alpha * A * B per pair; C's column stride is 1. A is m x k, B is k x n.
void batchedGemm(int64_t outer, int64_t inner, int64_t m, int64_t n, int64_t k, float alpha, const BatchedMatrix& a,
                 const BatchedMatrix& b, float* c, int64_t cOuter, int64_t cInner, int64_t cRow, float* workspace,
                 int threads);
// Bytes that it needs there, for as many pairs, and columns of B that are so far apart.
size_t batchedWorkspace(int64_t pairs, int64_t m, int64_t n, int64_t k, int64_t bColumn);

// ---- sums of planes with a weight each ----

inline constexpr int64_t kMostMixedPlanes = 32;  // in and out; more are better brought into rows

// A product with a small matrix over a dimension that lies outermost, as where heads of attention are mixed.
struct PlaneMix {
  int64_t images, in, out, area;     // planes of each image, elements of each plane
  int64_t imageStride, planeStride;  // floats between what is read; what is written lies side by side
};

// output[image][o] = bias[o] + sum over i of weights[o * in + i] * input[image][i]. Bias may be null.
void mixPlanes(const PlaneMix& mix, const float* input, const float* weights, const float* bias, float* output,
               int threads);

}  // namespace tscompile
