// Where a grid of grid_sampler points to.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tscompile {

// As the operator's arguments number them.
enum class GridMode : uint8_t { Bilinear, Nearest, Bicubic };
enum class GridPadding : uint8_t { Zeros, Border, Reflection };

// Turns a coordinate of the grid, -1 to 1 over the input, into one in elements.
template <class T>
struct GridCoordinates {
  GridPadding padding;
  bool alignCorners;
  bool isVolume;  // PyTorch treats what is not a number otherwise there

  T scaled(T v, int64_t size) const {
    auto n = static_cast<T>(size);
    return alignCorners ? (v + 1) / 2 * (n - 1) : ((v + 1) * n - 1) / 2;
  }
  T clipped(T v, int64_t size) const {
    auto last = static_cast<T>(size - 1);
    if (v != v) return isVolume ? last : T(0);
    return std::min(std::max(v, T(0)), last);
  }
  T reflected(T v, int64_t size) const {
    T low = alignCorners ? T(0) : T(-0.5), span = static_cast<T>(alignCorners ? size - 1 : size);
    if (span <= 0) return T(0);
    T distance = std::abs(v - low), extra = distance - std::trunc(distance / (2 * span)) * (2 * span);
    return std::min(extra, 2 * span - extra) + low;
  }
  // Into the input, as the padding mode has it.
  T bounded(T v, int64_t size) const {
    if (padding == GridPadding::Reflection) v = reflected(v, size);
    if (padding != GridPadding::Zeros) v = clipped(v, size);
    if (isVolume && !(std::abs(v) < T(0x1p31))) v = T(-100);
    return v;
  }
  T source(T v, int64_t size) const { return bounded(scaled(v, size), size); }
};

// The weights of four neighbours at distance t from the second.
template <class T>
void cubicWeights(T t, T* w) {
  constexpr T a = T(-0.75);
  auto near = [](T x) { return ((a + 2) * x - (a + 3)) * x * x + 1; };
  auto far = [](T x) { return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a; };
  w[0] = far(t + 1);
  w[1] = near(t);
  w[2] = near(1 - t);
  w[3] = far(2 - t);
}

}  // namespace tscompile
