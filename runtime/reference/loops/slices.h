// Indices and slices of lists and strings as Python has them.
#pragma once

#include "runtime/reference/loops/scalars.h"

#include <algorithm>
#include <cstdint>

namespace tscompile {

// The position that an index means, counted from the front; -1 if it is out of range.
inline int64_t positionOf(int64_t index, size_t size) {
  auto n = static_cast<int64_t>(size);
  if (index < 0) index = index < -n ? -1 : index + n;
  return index < n ? index : -1;
}

// The elements start, start + step ... of a slice.
struct Slice {
  int64_t start = 0, step = 1, count = 0;
};

// From the arguments `int? start, int? end, int step`.
inline Slice sliceOf(const IValue& start, const IValue& end, const IValue& stepValue, size_t size) {
  int64_t step = intOf(stepValue);
  if (step == 0) failRun("List slice should have non-zero step");
  step = std::max(step, -INT64_MAX);
  auto n = static_cast<int64_t>(size);
  int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? n - 1 : n;
  auto bound = [&](const IValue& v, int64_t absent) {
    int64_t i = v.isNone() ? INT64_MAX : intOf(v);
    if (i == INT64_MAX) return absent;  // PyTorch takes it for none
    if (i < 0) i = i < -n ? lowest : i + n;
    return std::clamp(i, lowest, highest);
  };
  int64_t from = bound(start, step < 0 ? highest : lowest), to = bound(end, step < 0 ? lowest : highest);
  int64_t distance = step < 0 ? from - to : to - from;
  if (distance <= 0) return {from, step, 0};
  return {from, step, (distance - 1) / (step < 0 ? -step : step) + 1};
}

}  // namespace tscompile
