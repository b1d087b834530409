// Python's arithmetic on integers and floats: 64 bits that wrap, floor division, signs as Python has them.
#pragma once

#include <cmath>
#include <cstdint>

namespace tscompile {

inline int64_t wrapAdd(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}
inline int64_t wrapSub(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}
inline int64_t wrapMul(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
}
inline int64_t wrapNeg(int64_t a) { return wrapSub(0, a); }

// Rounds towards minus infinity. `b` is not 0; the one quotient that does not fit wraps. Signs are as good as random
// in a tensor: they are computed with, as processors cannot foresee where a branch on them goes.
inline int64_t floorDiv(int64_t a, int64_t b) {
  if (b == -1) return wrapNeg(a);
  const int64_t q = a / b, r = a % b;
  return q - static_cast<int64_t>((r != 0) & ((r ^ b) < 0));
}
// The sign of the divisor.
inline int64_t floorMod(int64_t a, int64_t b) {
  if (b == -1) return 0;
  const int64_t r = a % b;
  return r + (b & -static_cast<int64_t>((r != 0) & ((r ^ b) < 0)));
}
inline int64_t truncDiv(int64_t a, int64_t b) { return b == -1 ? wrapNeg(a) : a / b; }
inline int64_t truncMod(int64_t a, int64_t b) { return b == -1 ? 0 : a % b; }

// Repeated squaring; wraps.
inline int64_t wrapPow(int64_t base, int64_t exponent) {
  if (exponent < 0) return base == 1 ? 1 : base == -1 ? (exponent % 2 ? -1 : 1) : 0;
  int64_t result = 1;
  for (; exponent; exponent >>= 1) {
    if (exponent & 1) result = wrapMul(result, base);
    base = wrapMul(base, base);
  }
  return result;
}

// As PyTorch's tensor code has it: exact where the quotient is, else the floor corrected for the rounding of a / b.
template <class T>
T floorDivFloat(T a, T b) {
  if (b == 0) return a / b;
  T mod = std::fmod(a, b), div = (a - mod) / b;
  if (mod != 0 && (b < 0) != (mod < 0)) div -= T(1);
  if (div == 0) return std::copysign(T(0), a / b);
  T floored = std::floor(div);
  return div - floored > T(0.5) ? floored + T(1) : floored;
}
template <class T>
T floorModFloat(T a, T b) {
  T mod = std::fmod(a, b);
  return mod != 0 && (b < 0) != (mod < 0) ? mod + b : mod;
}

}  // namespace tscompile
