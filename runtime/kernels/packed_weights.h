// Panels of packed weights in a stored precision, f32 to int8, as a Product reads them.
#pragma once

#include "ir/values/dtype.h"
#include "ir/values/int8.h"
#include "runtime/kernels/product.h"
#include "runtime/kernels/simd.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>

namespace tscompile {

// `panels` panels of `depth` rows of 16 columns. For I8 four rows lie together, as products of bytes want them: a
// column's four bytes, then the next column's; one f32 scale a column follows the panels, and then the sum of its bytes
// as int32. Of Bytes four rows lie together as well, of BF16 and Integers two.
struct PackedWeights {
  int64_t panels, depth;
  WeightStorage storage;

  int64_t bytes() const {
    return panels * (panelBytes(depth, storage) + (storage == WeightStorage::I8 ? kBlock * int64_t{8} : 0));
  }
  const void* values(const void* packed, int64_t panel) const {
    return static_cast<const char*>(packed) + panel * panelBytes(depth, storage);
  }
  const float* scales(const void* packed, int64_t panel) const {
    if (storage != WeightStorage::I8) return nullptr;
    return static_cast<const float*>(values(packed, panels)) + panel * kBlock;
  }

  const int32_t* sums(const void* packed, int64_t panel) const {
    if (storage != WeightStorage::I8) return nullptr;
    return reinterpret_cast<const int32_t*>(scales(packed, panels)) + panel * kBlock;
  }

  // row(panel, row, float to[16]) gives a row in f32, with zeros past the edges; rows are asked for in order.
  template <class Row>
  void pack(void* packed, Row&& row) const {
    for (int64_t panel = 0; panel < panels; ++panel) {
      float factors[kBlock];
      auto* to = static_cast<char*>(packed) + panel * panelBytes(depth, storage);
      if (storage == WeightStorage::I8) {
        scaleColumns(packed, panel, row, factors);
      }
      if (rowsTogether(storage) > 1) std::memset(to, 0, static_cast<size_t>(panelBytes(depth, storage)));
      for (int64_t i = 0; i < depth; ++i) {
        if (storage == WeightStorage::F32) {
          row(panel, i, reinterpret_cast<float*>(to) + i * kBlock);
          continue;
        }
        float rowValues[kBlock];
        row(panel, i, rowValues);
        store(to, i, rowValues, factors);
      }
      if (storage == WeightStorage::I8) addColumns(to, const_cast<int32_t*>(sums(packed, panel)));
    }
  }

 private:
  // A row that is rounded.
  void store(void* panel, int64_t row, const float* values, const float* factors) const {
    const int64_t together = rowsTogether(storage), first = row / together * together * kBlock + row % together;
    auto put = [&](auto* to, auto&& rounded) {
      for (int64_t lane = 0; lane < kBlock; ++lane) to[first + lane * together] = rounded(lane);
    };
    switch (storage) {
      case WeightStorage::F16:
        return put(static_cast<Half*>(panel), [&](int64_t lane) { return Half(values[lane]); });
      case WeightStorage::BF16:
        return put(static_cast<BFloat16*>(panel), [&](int64_t lane) { return BFloat16(values[lane]); });
      case WeightStorage::I8:
        return put(static_cast<int8_t*>(panel), [&](int64_t lane) { return toInt8(values[lane] * factors[lane]); });
      case WeightStorage::F32:
      case WeightStorage::Integers:
      case WeightStorage::Bytes:
        return put(static_cast<int8_t*>(panel), [&](int64_t lane) { return static_cast<int8_t>(values[lane]); });
    }
  }

  void addColumns(const void* panel, int32_t* sums) const {
    const auto* bytes = static_cast<const int8_t*>(panel);
    std::fill_n(sums, kBlock, 0);
    for (int64_t i = 0; i < panelBytes(depth, storage); ++i) sums[i / 4 % kBlock] += bytes[i];
  }

  template <class Row>
  void scaleColumns(void* packed, int64_t panel, Row&& row, float* factors) const {
    float largest[kBlock] = {};
    for (int64_t i = 0; i < depth; ++i) {
      float values[kBlock];
      row(panel, i, values);
      for (int64_t lane = 0; lane < kBlock; ++lane) largest[lane] = std::max(largest[lane], std::fabs(values[lane]));
    }
    auto* scale = const_cast<float*>(scales(packed, panel));
    for (int64_t lane = 0; lane < kBlock; ++lane) {
      scale[lane] = int8Scale(largest[lane]);
      factors[lane] = 1.0f / scale[lane];
    }
  }
};

// Sixteen values `stride` apart, of which only `count` are there.
inline void gatherLanes(const float* from, int64_t stride, int64_t count, float* to) {
  if (count >= kBlock) {
    if (stride == 1) return std::copy_n(from, kBlock, to), void();
    for (int64_t lane = 0; lane < kBlock; ++lane) to[lane] = from[lane * stride];
    return;
  }
  for (int64_t lane = 0; lane < kBlock; ++lane) to[lane] = lane < count ? from[lane * stride] : 0.0f;
}

}  // namespace tscompile
