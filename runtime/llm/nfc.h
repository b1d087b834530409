// Unicode's normal form C: canonical decomposition, marks in canonical order, canonical composition (UAX #15).
#pragma once

#include <string>
#include <string_view>

namespace tscompile {

// Bytes that are no part of valid UTF-8 stay, and nothing composes across them.
std::string toNfc(std::string_view text);

}  // namespace tscompile
