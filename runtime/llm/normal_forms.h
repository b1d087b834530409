// Unicode's normal forms: decomposition, marks in canonical order, composition (UAX #15).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tscompile {

enum class NormalForm : uint8_t { Nfc, Nfd, Nfkc, Nfkd };

// Bytes that are no part of valid UTF-8 stay, and nothing composes across them.
std::string toNormalForm(std::string_view text, NormalForm form);

void appendCharacter(uint32_t code, std::string& out);

}  // namespace tscompile
