// One documented seeded generator: the same numbers in C++ and in Python (samples/seeded.py).
//
// Number i of seed s is SplitMix64's output for state s + (i + 1) * 0x9e3779b97f4a7c15 (Steele, Lea, Flood 2014), so
// each can be computed on its own. Uniform numbers take the upper 53 bits. Normal numbers invert the distribution by
// Wichura's algorithm AS 241 (1988) with only +, -, *, / and square roots, which IEEE 754 fixes to the last bit.
#pragma once

#include "ir/values/tensor.h"

#include <cstdint>

namespace tscompile::random {

inline uint64_t bits(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
// In [0, 1), a multiple of 2^-53.
inline double uniform(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }
// Mean 0, deviation 1.
double normal(uint64_t bits);

}  // namespace tscompile::random
