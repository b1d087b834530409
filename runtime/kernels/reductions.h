// Sums and extremes over one dimension of f32. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

namespace tscompile {

enum class RowReduction : uint8_t { Sum, Max, Min };

// [outer][count][inner] -> [outer][inner]. A sum is divided by `divisor`; NaN wins over all other values.
void reduceMiddle(RowReduction kind, int64_t outer, int64_t count, int64_t inner, float divisor, const float* input,
                  float* output, int threads);

}  // namespace tscompile
