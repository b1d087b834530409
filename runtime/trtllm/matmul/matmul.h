// Products of f32 rows with matrices in other formats, which are read where they lie: a few values at a time become f32
// in registers or in cache, never all of them. Each result is the same for every number of threads.
#pragma once

#include "ir/values/dtype.h"
#include "runtime/call/function_ref.h"

#include <cstddef>
#include <cstdint>

namespace tscompile {

// A matrix [k][n] as it is stored, row by row, in f32, f16, bf16, int8 or int4: two columns a byte, the first one in
// the lower half.
struct WeightRows {
  DType format = DType::Float32;
  const std::byte* data = nullptr;
  int64_t k = 0, n = 0;  // n is even for Int4
  // Values are stored * scales[row / group][column] + zeros[row / group][column].
  int64_t group = 0;              // rows; 0: all of them
  const float* scales = nullptr;  // null: 1
  const float* zeros = nullptr;   // null: 0

  int64_t rowBytes() const;
  int64_t groupRows() const { return group > 0 ? group : (k > 0 ? k : 1); }
};

// y[m][n] = x[m][k] * w + bias; bias may be null. x and y are contiguous.
void multiplyRows(const WeightRows& w, int64_t m, const float* x, const float* bias, float* y, int threads);

// Writes the values [first, end) of a column of a matrix; its columns lie one after the other.
using LoadColumn = FunctionRef<void(int64_t column, int64_t first, int64_t end, float* to)>;
// y[m][n] = x[m][k] * the matrix whose n columns are loaded. Calls `load` from several threads.
void multiplyColumns(int64_t m, int64_t n, int64_t k, const float* x, LoadColumn load, float* y, int threads);

// c[m][n] = a[m][k] * b[n][k]^T of int8, exact unless a sum leaves int32: then it wraps.
void multiplyInt8(int64_t m, int64_t n, int64_t k, const int8_t* a, const int8_t* b, int32_t* c, int threads);

}  // namespace tscompile
