// Matrix products in f32 with constant right sides packed once. Results do not depend on the number of threads.
#pragma once

#include "runtime/call/function_ref.h"
#include "runtime/kernels/epilogue.h"
#include "runtime/kernels/product.h"

#include <cstdint>

namespace tscompile {

// A k x n matrix in panels of 16 columns: [n / 16][k rounded up to packedDepth][16], with zeros past the edges; I8 has
// its rows in fours, [k / 4][16][4], and the scales of the columns follow, f32 [n rounded up to 16]. BF16 has them in
// twos. The same on every instruction set. The data belongs to the caller.
struct PackedMatrix {
  int64_t k = 0, n = 0;
  WeightStorage storage = WeightStorage::F32;
  const void* data = nullptr;
  float least = 0;         // Bytes: no element of A is less or more than 255 above; an integer bias makes good for it
  bool roundsRows = true;  // ProductPrecision
};

// Rows of a packed matrix: those past k are zeros. At least one block.
int64_t packedDepth(int64_t k, WeightStorage storage);

int64_t packedBytes(int64_t k, int64_t n, WeightStorage storage);
// b[i, j] is at b + i * rowStride + j * columnStride. Values round to nearest, ties to even; I8 is symmetric:
// scale = largest magnitude of the column / 127.
void packMatrix(int64_t k, int64_t n, const float* b, int64_t rowStride, int64_t columnStride, WeightStorage storage,
                void* packed);
// The same of a matrix that is made as it is packed: columns(first, count, to) gives `count` columns, at most 16, one
// after the other. They are asked for in order.
void packColumns(int64_t k, int64_t n, FunctionRef<void(int64_t first, int64_t count, float* to)> columns,
                 WeightStorage storage, void* packed);

// Bytes of scratch that gemm needs.
int64_t gemmWorkspace(int64_t m, const PackedMatrix& b);

// C = epilogue(A * B): A is m x k, C is m x n, both row-major; rows start lda and ldc floats apart. The epilogue's
// bias has n values, its residual C's layout.
void gemm(int64_t m, const float* a, int64_t lda, const PackedMatrix& b, float* c, int64_t ldc,
          const Epilogue& epilogue, void* workspace, int threads);

}  // namespace tscompile
