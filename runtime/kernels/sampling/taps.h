// Weighted sums of a few elements of a plane for each of many places, in f32.
#pragma once

#include <cstdint>

namespace tscompile {

inline constexpr int kMostTaps = 16;
inline constexpr int32_t kNoTap = -1;  // stands for an element that is 0

// out[p] = sum over taps t of plane[index[t * stride + p]] * weights[t * stride + p], in this order.
void sumTaps(const float* plane, const int32_t* index, const float* weights, int64_t stride, int taps, int64_t count,
             float* out);
// The same of a block of channels (layout.h): elements, and results, are kBlock numbers each.
void sumTapsOfBlock(const float* block, const int32_t* index, const float* weights, int64_t stride, int taps,
                    int64_t count, float* out);

}  // namespace tscompile
