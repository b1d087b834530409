// What the dtypes can hold.
#pragma once

#include "ir/values/dtype.h"

#include <cstdint>
#include <limits>

namespace tscompile {

// The largest finite number of a floating dtype; its negative is the least.
inline double largestNumber(DType dtype) {
  switch (realPart(dtype)) {
    case DType::Float16:
      return 65504;
    case DType::BFloat16:
      return 0x1.fep127;
    case DType::Float32:
      return std::numeric_limits<float>::max();
    default:
      return std::numeric_limits<double>::max();
  }
}

struct IntegerRange {
  int64_t least, most;
};
// Of an integer dtype or bool.
inline IntegerRange integerRange(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return {0, 1};
    case DType::UInt8:
      return {0, UINT8_MAX};
    case DType::Int8:
      return {INT8_MIN, INT8_MAX};
    case DType::Int16:
      return {INT16_MIN, INT16_MAX};
    case DType::Int32:
      return {INT32_MIN, INT32_MAX};
    default:
      return {INT64_MIN, INT64_MAX};
  }
}

}  // namespace tscompile
