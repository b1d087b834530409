// What a text can call a value.
#pragma once

#include <array>
#include <string>
#include <string_view>

namespace tscompile {

// Bytes that may stand in a value name: everything but blanks, control bytes and the text's own punctuation.
inline constexpr std::array<bool, 256> kNameByte = [] {
  std::array<bool, 256> table{};
  for (int c = 0x21; c < 256; ++c) table[c] = c != 0x7f;
  for (char c : {'%', ',', '(', ')', '=', '[', ']', '{', '}', '<', '>', '"', '\'', ':', '\\'})
    table[static_cast<unsigned char>(c)] = false;
  return table;
}();
constexpr bool isNameByte(char c) { return kNameByte[static_cast<unsigned char>(c)]; }

// A path of attributes as a name: what cannot stand in one becomes "_".
inline std::string readableName(std::string_view path) {
  std::string out(path);
  for (char& c : out)
    if (!isNameByte(c)) c = '_';
  return out;
}

}  // namespace tscompile
