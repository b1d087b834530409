// Numbers as integers of eight bits: how weights are rounded that are stored so.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tscompile {

// To the nearest one, ties to even; NaN becomes 0.
inline int8_t toInt8(float v) {
  return std::isnan(v) ? int8_t{0} : static_cast<int8_t>(std::clamp(std::nearbyint(v), -127.0f, 127.0f));
}
// What 1 stands for where the largest magnitude is `largest`.
inline float int8Scale(float largest) { return largest > 0 && std::isfinite(largest) ? largest / 127.0f : 1.0f; }

}  // namespace tscompile
