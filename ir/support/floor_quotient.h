// Quotients of integers, rounded down as in Python.
#pragma once

#include <cstdint>

namespace tscompile {

// b is not 0, and the quotient fits.
inline int64_t floorQuotient(int64_t a, int64_t b) {
  const int64_t q = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? q - 1 : q;
}

}  // namespace tscompile
