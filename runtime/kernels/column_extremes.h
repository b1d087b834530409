// Extremes of rows and of neighbouring columns, and where they stand.
#pragma once

#include <cstdint>

namespace tscompile {

// Where the largest or smallest of a row stands, the first of several; NaN wins.
int64_t extremeOfRow(bool isLargest, const float* row, int64_t count);
// Of `width` columns of `count` rows, which are `stride` apart: the largest or smallest value and its row, the first of
// several; NaN wins, the first.
void extremesOfColumns(bool isLargest, const float* rows, int64_t stride, int64_t count, int64_t width, float* values,
                       int32_t* places);

}  // namespace tscompile
