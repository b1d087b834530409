// The order of short lanes: how many of its elements come before each, counted for sixteen lanes side by side.
#pragma once

#include <cstdint>

namespace tscompile {

inline constexpr int64_t kRankedLanes = 16;  // that are looked at together
inline constexpr int64_t kMostRanked = 128;  // elements of a lane, for which counting is quicker than sorting

// Of columns[count][16] the elements of each column that come before columns[i][c]: those that are less (larger, if
// `isDescending`), and equal ones with a lower i. NaN is larger than any number.
void rankColumns(bool isDescending, const float* columns, int64_t count, int32_t* ranks);

}  // namespace tscompile
