// SHA-256 of a text, in hexadecimal (FIPS 180-4).
#pragma once

#include <string>
#include <string_view>

namespace tscompile::test {
std::string sha256(std::string_view text);
}
