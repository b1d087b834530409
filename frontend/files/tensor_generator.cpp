#include "frontend/files/tensor_generator.h"

#include "ir/values/carried_types.h"
#include "ir/values/random.h"

#include <fmt/core.h>

#include <cmath>
#include <limits>

namespace tscompile {
namespace {

using Rule = TensorGenerator::Rule;

// The neighbouring float with an odd last bit, unless the value is a float: rounding it further to a shorter type gives
// what rounding the double at once would.
float roundedToOdd(double value) {
  float near = static_cast<float>(value);
  if (static_cast<double>(near) == value || std::isnan(value)) return near;
  uint32_t bits = std::bit_cast<uint32_t>(near);
  if (bits & 1) return near;
  bool away = std::fabs(static_cast<double>(near)) > std::fabs(value);
  return std::bit_cast<float>(away ? bits - 1 : bits + 1);
}

// Sets element i to value(i); complex elements take the numbers 2i and 2i + 1.
template <class T, class F>
void setEach(const Tensor& t, F&& value) {
  T* out = t.data<T>();
  uint64_t n = static_cast<uint64_t>(t.numel());
  for (uint64_t i = 0; i < n; ++i) {
    if constexpr (kIsComplex<T>) {
      using Part = typename T::value_type;
      out[i] = T(roundedTo<Part>(value(2 * i)), roundedTo<Part>(value(2 * i + 1)));
    } else {
      out[i] = roundedTo<T>(value(i));
    }
  }
}

template <class T>
void setIntegers(const TensorGenerator& g, const Tensor& t) {
  T* out = t.data<T>();
  uint64_t n = static_cast<uint64_t>(t.numel());
  uint64_t range = static_cast<uint64_t>(g.end) - static_cast<uint64_t>(g.first);
  for (uint64_t i = 0; i < n; ++i) {
    uint64_t offset = g.rule == Rule::Arange ? i : random::bits(g.seed, i) % range;
    int64_t value = static_cast<int64_t>(static_cast<uint64_t>(g.first) + offset);
    if constexpr (std::is_integral_v<T>)
      out[i] = static_cast<T>(value);
    else if constexpr (kIsComplex<T>)
      out[i] = T(roundedTo<typename T::value_type>(static_cast<double>(value)));
    else
      out[i] = roundedTo<T>(static_cast<double>(value));
  }
}

// The integers that a dtype holds exactly: [lowest, highest].
std::pair<int64_t, int64_t> integerRange(DType dtype) {
  std::pair<int64_t, int64_t> range{-(int64_t{1} << 53), int64_t{1} << 53};
  visitStoredDType(dtype, [&](auto sample) {
    using T = decltype(sample);
    if constexpr (std::is_same_v<T, uint64_t>)
      range = {0, std::numeric_limits<int64_t>::max()};
    else if constexpr (std::is_integral_v<T>)
      range = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max()};
    else if constexpr (kIsSmallFloat<T>)
      range = {-8, 8};
  });
  return range;
}

}  // namespace

template <>
Half roundedTo<Half>(double value) {
  return Half(roundedToOdd(value));
}
template <>
BFloat16 roundedTo<BFloat16>(double value) {
  return BFloat16(roundedToOdd(value));
}

std::string whyNotGenerated(const TensorGenerator& g, DType dtype, int64_t numel) {
  bool integers = isIntegral(dtype, true) || isWideUnsigned(dtype);
  auto [lowest, highest] = integerRange(dtype);
  switch (g.rule) {
    case Rule::Zeros:
    case Rule::Ones:
      return "";
    case Rule::Randn:
      return integers ? fmt::format("randn makes floats, not {}; use randint", pythonName(dtype)) : "";
    case Rule::Uniform:
      return integers ? fmt::format("uniform makes floats, not {}; use randint", pythonName(dtype)) : "";
    case Rule::Arange:
      if (numel == 0 || numel - 1 <= highest) return "";
      return fmt::format("{} does not hold the numbers up to {}", pythonName(dtype), numel - 1);
    case Rule::Randint:
      if (g.first >= lowest && g.end - 1 <= highest) return "";
      return fmt::format("{} does not hold all numbers from {} to {}", pythonName(dtype), g.first, g.end - 1);
  }
  TS_UNREACHABLE();
}

void generateTensor(const TensorGenerator& g, const Tensor& t) {
  TS_CHECK(t.isContiguous());
  visitStoredDType(t.dtype(), [&](auto sample) {
    using T = decltype(sample);
    switch (g.rule) {
      case Rule::Zeros:
        std::fill_n(t.data<T>(), t.numel(), T{});
        return;
      case Rule::Ones: {
        T one{};
        if constexpr (kIsComplex<T>)
          one = T(1);
        else
          one = roundedTo<T>(1);
        std::fill_n(t.data<T>(), t.numel(), one);
        return;
      }
      case Rule::Arange:
      case Rule::Randint:
        setIntegers<T>(g, t);
        return;
      case Rule::Randn:
        setEach<T>(t, [&](uint64_t i) { return g.mean + g.deviation * random::normal(random::bits(g.seed, i)); });
        return;
      case Rule::Uniform:
        setEach<T>(t, [&](uint64_t i) { return g.low + (g.high - g.low) * random::uniform(random::bits(g.seed, i)); });
        return;
    }
  });
}

}  // namespace tscompile
