// A number that is the whole of a text.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace tscompile {

// As std::from_chars reads it: integers are digits, of signed types after a "-" too. Nothing where it does not fit.
template <class T>
std::optional<T> numberOfText(std::string_view text) {
  T number{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

}  // namespace tscompile
