// Elements that lie apart, brought together.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace tscompile {

// `count` elements, `step` elements apart, side by side. Of every other one, and of all backwards, the compiler makes
// vectors, since the step is known.
template <class T>
void bringTogether(const std::byte* from, int64_t step, int64_t count, std::byte* to) {
  constexpr auto kItem = static_cast<int64_t>(sizeof(T));
  auto copy = [&](auto apart) {
    for (int64_t i = 0; i < count; ++i) std::memcpy(to + i * kItem, from + i * apart * kItem, sizeof(T));
  };
  if (step == 2)
    copy(std::integral_constant<int64_t, 2>());
  else if (step == -1)
    copy(std::integral_constant<int64_t, -1>());
  else
    copy(step);
}

}  // namespace tscompile
