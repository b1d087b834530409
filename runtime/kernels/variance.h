// Variances over one dimension of f32, in f64. Results do not depend on the number of threads.
#pragma once

#include <cstdint>

namespace tscompile {

// [outer][count][inner] -> [outer][inner]: squared deviations from the mean, divided by `count - correction`, or the
// root of that. `means` may be null.
struct VarianceShape {
  int64_t outer = 1, count = 1, inner = 1;
  int64_t correction = 1;
  bool isRoot = false;
};
void variances(const VarianceShape& shape, const float* input, float* output, float* means, int threads);

}  // namespace tscompile
