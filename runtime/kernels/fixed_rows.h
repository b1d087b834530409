// Products of f32 rows and int8 weights in integers, where the processor multiplies bytes (AVX512-VNNI). A row becomes
// fixed point of 24 bits, scaled by its largest magnitude: three signed digits of 8 bits. A weight is then multiplied
// as it is stored, four to an instruction of each lane, and sums are exact.
#pragma once

#include "runtime/kernels/product.h"

#include <cstdint>

namespace tscompile {

struct FixedRows {
  int64_t count, depth;
  const int8_t* digits;  // [count][3][depth], the most significant first
  const int32_t* sums;   // [count][3]: of the digits
  const float* steps;    // [count]: what one unit of the last digit is worth
};

// With more rows the digits, which are loaded for each panel anew, cost more than weights in f32.
inline constexpr int64_t kMostFixedRows = 4;
// The deepest rows whose sums of 32 bits cannot overflow.
inline constexpr int64_t kMostFixedDepth = 65536;

bool hasFixedProducts();
// Bytes that `count` rows need.
int64_t fixedRowsBytes(int64_t count, int64_t depth);
// Rows of k floats, lda apart, with zeros up to `depth`, a multiple of 16. False, and nothing of use in memory, where
// fixed point cannot stand for a row: it has infinities or NaNs, or nothing but tiny values.
bool makeFixedRows(const float* a, int64_t lda, int64_t count, int64_t k, int64_t depth, void* memory, FixedRows& rows);
// gemm's product of these rows with panels [firstPanel, endPanel) of int8; p's A and steps are not used. Any epilogue.
void runFixedRows(const FixedRows& rows, const Product& p, int64_t firstPanel, int64_t endPanel);

}  // namespace tscompile
