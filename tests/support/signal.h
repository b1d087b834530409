// How much of a result that was rounded is left.
#pragma once

#include "ir/values/tensor.h"

#include <cmath>

namespace tscompile::test {

// Sums of squares: of what is wanted, and of the difference from it.
struct Signal {
  double signal = 0, noise = 0;

  Signal(const Tensor& got, const Tensor& want) {
    for (int64_t i = 0; i < want.numel(); ++i) {
      const double difference = got.real(i) - want.real(i);
      signal += want.real(i) * want.real(i);
      noise += difference * difference;
    }
  }
  double decibels() const { return 10 * std::log10(signal / noise); }
};

}  // namespace tscompile::test
