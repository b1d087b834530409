// Sizes that may be unknown: arithmetic, broadcasting, the canonical form of dimensions.
#pragma once

#include "ir/values/tensor.h"
#include "ir/values/type.h"

#include <optional>

namespace tscompile {

// Sizes are numbers from 0 up; kUnknownSize and the symbols below it are not known. While a graph runs, all are known.
inline bool isKnownSize(int64_t size) { return size >= 0; }
bool allKnown(DimSpan sizes);
// Whether two sizes are known to be different.
inline bool differ(int64_t a, int64_t b) { return isKnownSize(a) && isKnownSize(b) && a != b; }
// The product, or nothing if a size is not known. Sizes that are known must have a product that fits.
std::optional<int64_t> knownNumel(DimSpan sizes);

// Integers that a graph computes with may be any number, -1 included, so unknown ones and symbols are written otherwise
// there: from INT64_MIN on.
inline constexpr int64_t kUnknownInteger = INT64_MIN;
inline bool isUnknownInteger(int64_t v) { return v < INT64_MIN + (int64_t{1} << 32); }
inline int64_t sizeAsInteger(int64_t size) { return isKnownSize(size) ? size : INT64_MIN + (kUnknownSize - size); }
inline int64_t integerAsSize(int64_t v) { return isUnknownInteger(v) ? kUnknownSize - (v - INT64_MIN) : v; }

inline int64_t addSizes(int64_t a, int64_t b) { return isKnownSize(a) && isKnownSize(b) ? a + b : kUnknownSize; }
inline int64_t multiplySizes(int64_t a, int64_t b) {
  if (a == 1) return b;
  if (b == 1) return a;
  if (a == 0 || b == 0) return 0;
  int64_t product;
  return isKnownSize(a) && isKnownSize(b) && !__builtin_mul_overflow(a, b, &product) ? product : kUnknownSize;
}

// Broadcasts `sizes` into `result` by numpy's rules; false if they do not fit. An unknown size next to a 1 stays
// unknown; next to a larger known size it is taken to be that size.
bool broadcastInto(Dims& result, DimSpan sizes);

// Counts a negative dimension from the end. False if it is out of range; tensors without dimensions take -1 and 0.
bool wrapDim(int64_t& dim, int64_t rank);

}  // namespace tscompile
