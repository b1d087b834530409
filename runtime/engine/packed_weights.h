// Panels of packed weights in a stored precision, f32 to int8, as a Product reads them.
#pragma once

#include "ir/dtype.h"
#include "runtime/engine/product.h"
#include "runtime/engine/simd.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tscompile {

inline int8_t toInt8(float v) {
  return std::isnan(v) ? int8_t{0} : static_cast<int8_t>(std::clamp(std::nearbyint(v), -127.0f, 127.0f));
}
inline float int8Scale(float largest) { return largest > 0 && std::isfinite(largest) ? largest / 127.0f : 1.0f; }

// `panels` panels of `depth` rows of 16 columns; for I8 followed by one f32 scale a column.
struct PackedWeights {
  int64_t panels, depth;
  WeightStorage storage;

  int64_t bytes() const {
    return panels * depth * kBlock * weightBytes(storage) +
           (storage == WeightStorage::I8 ? panels * kBlock * int64_t{4} : 0);
  }
  const void* values(const void* packed, int64_t panel) const {
    return static_cast<const char*>(packed) + panel * depth * kBlock * weightBytes(storage);
  }
  const float* scales(const void* packed, int64_t panel) const {
    if (storage != WeightStorage::I8) return nullptr;
    return reinterpret_cast<const float*>(static_cast<const char*>(packed) + panels * depth * kBlock) + panel * kBlock;
  }

  // weight(panel, row, lane) is the value in f32; rows are visited in order.
  template <class Weight>
  void pack(void* packed, Weight&& weight) const {
    for (int64_t panel = 0; panel < panels; ++panel) {
      float factors[kBlock];
      if (storage == WeightStorage::I8) scaleColumns(packed, panel, weight, factors);
      for (int64_t i = 0; i < depth * kBlock; ++i) {
        float v = weight(panel, i / kBlock, i % kBlock);
        int64_t at = panel * depth * kBlock + i;
        switch (storage) {
          case WeightStorage::F32:
            static_cast<float*>(packed)[at] = v;
            break;
          case WeightStorage::F16:
            static_cast<Half*>(packed)[at] = Half(v);
            break;
          case WeightStorage::BF16:
            static_cast<BFloat16*>(packed)[at] = BFloat16(v);
            break;
          case WeightStorage::I8:
            static_cast<int8_t*>(packed)[at] = toInt8(v * factors[i % kBlock]);
            break;
        }
      }
    }
  }

 private:
  template <class Weight>
  void scaleColumns(void* packed, int64_t panel, Weight&& weight, float* factors) const {
    auto* scale = const_cast<float*>(scales(packed, panel));
    for (int64_t lane = 0; lane < kBlock; ++lane) {
      float largest = 0;
      for (int64_t row = 0; row < depth; ++row) largest = std::max(largest, std::fabs(weight(panel, row, lane)));
      scale[lane] = int8Scale(largest);
      factors[lane] = 1.0f / scale[lane];
    }
  }
};

}  // namespace tscompile
