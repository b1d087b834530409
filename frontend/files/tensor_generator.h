// Tensors made by a rule: zeros, ones, arange, and the seeded random numbers of ir/values/random.h. samples/seeded.py
// makes the same elements.
#pragma once

#include "ir/values/tensor.h"

#include <complex>
#include <string>
#include <string_view>

namespace tscompile {

// Whether elements are complex numbers.
template <class T>
inline constexpr bool kIsComplex = false;
template <class T>
inline constexpr bool kIsComplex<std::complex<T>> = true;

struct TensorGenerator {
  enum class Rule : uint8_t { Zeros, Ones, Arange, Randn, Uniform, Randint };
  Rule rule = Rule::Zeros;
  uint64_t seed = 0;
  double mean = 0, deviation = 1;  // of Randn
  double low = 0, high = 1;        // of Uniform: [low, high)
  int64_t first = 0, end = 0;      // of Randint: [first, end), not empty
};

// Why a tensor of this dtype and number of elements cannot be made so, or "".
std::string whyNotGenerated(const TensorGenerator& generator, DType dtype, int64_t numel);
// Sets all elements of a row-major tensor that can be made.
void generateTensor(const TensorGenerator& generator, const Tensor& tensor);

// A double as an element, rounded once to the nearest, ties to even.
template <class T>
T roundedTo(double value) {
  return static_cast<T>(value);
}
template <>
Half roundedTo<Half>(double value);
template <>
BFloat16 roundedTo<BFloat16>(double value);

}  // namespace tscompile
