// Extremes of neighbouring columns, with the rows that they stand in.
#pragma once

#include <cstdint>

namespace tscompile {

// Of `width` columns of `count` rows, which are `stride` apart: the largest or smallest value and its row, the first of
// several; NaN wins, the first.
void extremesOfColumns(bool isLargest, const float* rows, int64_t stride, int64_t count, int64_t width, float* values,
                       int32_t* places);

}  // namespace tscompile
