// Sums, products, extremes, logarithms of sums of exponentials, and variances over one dimension of f32. Results do not
// depend on the number of threads.
#pragma once

#include <cstdint>

namespace tscompile {

enum class RowReduction : uint8_t { Sum, Max, Min, Product, LogSumExp };

// [outer][count][inner] -> [outer][inner]. A sum is divided by `divisor`; NaN wins over all other values.
void reduceMiddle(RowReduction kind, int64_t outer, int64_t count, int64_t inner, float divisor, const float* input,
                  float* output, int threads);

// Over the channels of each pixel of blocked activations (layout.h): [batch][area]. Of sums and extremes.
void reduceChannels(RowReduction kind, int64_t batch, int64_t channels, int64_t area, float divisor,
                    const float* blocked, float* output, int threads);

// Where the largest or smallest of a row stands, the first of several; NaN wins.
int64_t extremeOfRow(bool isLargest, const float* row, int64_t count);
// Of `width` columns of `count` rows, which are `stride` apart: the largest or smallest value and its row, the first of
// several; NaN wins, the first.
void extremesOfColumns(bool isLargest, const float* rows, int64_t stride, int64_t count, int64_t width, float* values,
                       int32_t* places);

// [outer][count][inner] -> [outer][inner]: squared deviations from the mean, divided by `count - correction`, or the
// root of that; in f64. `means` may be null.
struct VarianceShape {
  int64_t outer = 1, count = 1, inner = 1;
  double correction = 1;
  bool isRoot = false;
};
void variances(const VarianceShape& shape, const float* input, float* output, float* means, int threads);

}  // namespace tscompile
