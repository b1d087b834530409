// One element of a dtype as another one.
#pragma once

#include "ir/values/carried_types.h"

#include <complex>
#include <cstdint>
#include <type_traits>

namespace tscompile {

template <class T>
inline constexpr bool kIsComplex = std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>;
template <class T>
inline constexpr bool kIsHalf = std::is_same_v<T, Half> || std::is_same_v<T, BFloat16> || kIsSmallFloat<T>;

// What x86-64's conversion instructions give: the least integer for what does not fit. Signed types of up to 32 bits
// come by way of 32 bits, the others of 64; unsigned ones of 64 bits have their upper half besides.
template <class To, class From>
inline To truncated(From v) {
  if constexpr (std::is_same_v<To, int8_t> || std::is_same_v<To, int16_t> || std::is_same_v<To, int32_t>)
    return static_cast<To>(v >= From(-0x1p31) && v < From(0x1p31) ? static_cast<int32_t>(v) : INT32_MIN);
  else if constexpr (std::is_same_v<To, uint64_t>)
    return v >= From(0x1p63) && v < From(0x1p64) ? static_cast<uint64_t>(v) : truncated<int64_t>(v);
  else
    return static_cast<To>(v >= From(-0x1p63) && v < From(0x1p63) ? static_cast<int64_t>(v) : INT64_MIN);
}

template <class To, class From>
inline To convertElement(From v) {
  if constexpr (std::is_same_v<From, To>) {
    return v;
  } else if constexpr (kIsHalf<From>) {
    return convertElement<To>(static_cast<float>(v));
  } else if constexpr (kIsHalf<To>) {
    if constexpr (kIsComplex<From>)
      return To(static_cast<float>(v.real()));
    else
      return To(static_cast<float>(v));
  } else if constexpr (kIsComplex<To>) {
    using Part = typename To::value_type;
    if constexpr (kIsComplex<From>)
      return To(static_cast<Part>(v.real()), static_cast<Part>(v.imag()));
    else
      return To(static_cast<Part>(v), 0);
  } else if constexpr (std::is_same_v<To, bool>) {
    return v != From(0);
  } else if constexpr (kIsComplex<From>) {
    return convertElement<To>(v.real());
  } else if constexpr (std::is_integral_v<To> && std::is_floating_point_v<From>) {
    return truncated<To>(v);
  } else {
    return static_cast<To>(v);
  }
}

}  // namespace tscompile
