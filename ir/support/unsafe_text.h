// Characters that change what a terminal or a reader makes of the text around them.
#pragma once

#include <cstdint>
#include <string_view>

namespace tscompile {

// The code point of such a character, or 0: control characters (but for line breaks and tabs, which some texts may
// have), and those that turn the direction of text or end a line unseen. `character`: one of valid UTF-8.
inline uint32_t unsafeCode(std::string_view character) {
  auto byte = [&](size_t i) { return static_cast<uint32_t>(static_cast<unsigned char>(character[i])); };
  uint32_t code = 0;
  if (character.size() == 1) code = byte(0);
  if (character.size() == 2) code = (byte(0) & 0x1f) << 6 | (byte(1) & 0x3f);
  if (character.size() == 3) code = (byte(0) & 0x0f) << 12 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  auto in = [&](uint32_t first, uint32_t last) { return code >= first && code <= last; };
  bool isUnsafe = in(0x01, 0x08) || in(0x0b, 0x1f) || in(0x7f, 0x9f) || code == 0x061c || in(0x200e, 0x200f) ||
                  in(0x2028, 0x202e) || in(0x2066, 0x2069) || code == 0xfeff;
  return isUnsafe ? code : 0;
}

}  // namespace tscompile
