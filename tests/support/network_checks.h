// How near results of networks are to what is expected of them.
#pragma once

#include "ir/values/tensor.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tscompile::test {

// The first place where two tensors differ by more than rounding, relative to the largest magnitude; or nothing.
inline std::string difference(const Tensor& got, const Tensor& want) {
  if (got.dtype() != want.dtype() || !std::ranges::equal(got.sizes(), want.sizes()))
    return dimsText(got.sizes()) + ", expected " + dimsText(want.sizes());
  constexpr double kTolerance = 1e-3;
  double largest = 1;
  for (int64_t i = 0; i < want.numel(); ++i) largest = std::max(largest, std::fabs(want.real(i)));
  for (int64_t i = 0; i < want.numel(); ++i)
    if (!(std::fabs(got.real(i) - want.real(i)) <= kTolerance * largest))
      return "element " + std::to_string(i) + " of " + dimsText(want.sizes()) + " is " + std::to_string(got.real(i)) +
             ", expected " + std::to_string(want.real(i));
  return "";
}

}  // namespace tscompile::test
