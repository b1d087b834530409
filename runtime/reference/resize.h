// Resizing along one dimension at a time: each output is a weighted sum of a few inputs.
#pragma once

#include "ir/values/tensor.h"

#include <optional>
#include <vector>

namespace tscompile {

enum class Interpolation { Nearest, NearestExact, Linear, Cubic, LinearAntialias, CubicAntialias, LanczosAntialias };

// How output coordinates become input coordinates.
struct ResizeScale {
  bool alignCorners = false;
  std::optional<double> factor;  // out / in, if it is to be taken from here rather than from the sizes
};

// The input that each output is a copy of. T is float or double: coordinates are computed in it.
template <class T>
std::vector<int64_t> nearestIndices(Interpolation kind, int64_t in, int64_t out, const ResizeScale& scale);

// Output o is the sum of weights[o * width + k] * input[index[o * width + k]] for k < width; where an index is
// negative, no more follow.
struct ResizeTaps {
  int64_t width;
  std::vector<int64_t> index;
  std::vector<float> weights;
};
ResizeTaps resizeTaps(Interpolation kind, int64_t in, int64_t out, const ResizeScale& scale);

// Resizes dimension `dim` of a row-major tensor of T to `out` by linear or cubic interpolation.
template <class T>
Tensor interpolated(const Tensor& t, int64_t dim, int64_t out, Interpolation kind, const ResizeScale& scale);
// The same of a tensor of uint8.
Tensor interpolatedBytes(const Tensor& t, int64_t dim, int64_t out, Interpolation kind, const ResizeScale& scale);

}  // namespace tscompile
