// The part of matmul.h that many rows share: pieces of the matrix become f32 panels in cache.
#pragma once

#include "runtime/call/function_ref.h"

#include <cstdint>

namespace tscompile {

inline constexpr int64_t kFewRows = 4;  // up to so many rows are computed without panels

// Writes rows [first, end) of `panels` panels of 16 columns, from `column` on, as [panel][row][16], with zeros past
// the last column.
using FillPanels = FunctionRef<void(int64_t column, int64_t panels, int64_t first, int64_t end, float* to)>;

// y[m][n] = x[m][k] * the matrix that is filled in + bias (may be null).
void multiplyPanels(int64_t m, int64_t n, int64_t k, const float* x, FillPanels fill, const float* bias, float* y,
                    int threads);

}  // namespace tscompile
