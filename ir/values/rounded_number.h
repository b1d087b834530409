// Numbers as tensors of 16 bits have them.
#pragma once

#include "ir/values/dtype.h"

#include <cmath>

namespace tscompile {

inline bool hasSixteenBits(DType d) { return d == DType::Float16 || d == DType::BFloat16; }

// A number as elements of this dtype have it; of other dtypes than those of 16 bits, and where that is not finite, as
// it is.
inline double roundedTo(DType dtype, double x) {
  const auto given = static_cast<float>(x);
  const float rounded = dtype == DType::BFloat16  ? static_cast<float>(BFloat16(given))
                        : dtype == DType::Float16 ? static_cast<float>(Half(given))
                                                  : given;
  return hasSixteenBits(dtype) && std::isfinite(rounded) ? double{rounded} : x;
}

}  // namespace tscompile
