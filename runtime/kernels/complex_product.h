// Products of complex numbers of f32 that lie in pairs, and quotients by real ones.
#pragma once

#include <cstdint>

namespace tscompile {

// Numbers of a row: pairs, or real ones; one number for all places, or one behind the other.
struct ComplexRow {
  const float* data = nullptr;
  bool isComplex = true;
  bool moves = true;
};

// out[i] = a[i] * b[i]: real numbers have the imaginary part 0.
void complexProducts(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out);
// out[i] = a[i] / b[i], b being real.
void complexQuotients(const ComplexRow& a, const ComplexRow& b, int64_t count, float* out);

}  // namespace tscompile
