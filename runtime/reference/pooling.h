// Windows that slide over the last one to three dimensions, and what is computed in them: the loops of all pooling.
#pragma once

#include "ir/values/tensor.h"

#include <array>
#include <vector>

namespace tscompile {

// One dimension: window o covers begin, begin + step, ... below end. `count` is what a mean divides by.
struct Window {
  int64_t begin, end, count;
};
struct Windows {
  int64_t in = 1, step = 1;
  std::vector<Window> windows;
  // Of windows of a fixed size: window o has its elements, seen or not, from o * stride - padding on. Else 0.
  int64_t kernel = 0, stride = 0, padding = 0;
  int64_t out() const { return static_cast<int64_t>(windows.size()); }
};
using WindowGrid = std::array<Windows, 3>;  // depth, height, width

// Windows of a fixed size. A mean divides by what lies inside the input, or inside the padded input.
Windows slidingWindows(int64_t in, int64_t out, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation,
                       bool countPadding);
// Windows that divide the input into `out` parts.
Windows adaptiveWindows(int64_t in, int64_t out);

// The number of windows of a pooling operator; with `ceil` the last one may begin inside the input and end after it.
int64_t pooledSize(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil);

// `in` and `out` are row-major, of one dtype: float32, float64 or int64; they hold planes of the sizes of the grid.
// The maximum, and where in its plane it is (int64, or undefined); the last NaN wins.
void maxPool(const WindowGrid& grid, const Tensor& in, const Tensor& out, const Tensor& indices);
// The sum over the count, or over `divisor` if it is not 0.
void averagePool(const WindowGrid& grid, const Tensor& in, const Tensor& out, int64_t divisor);

}  // namespace tscompile
