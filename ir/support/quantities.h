// Numbers as settings have them, some with units: "512M", "250ms".
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

// A number from 0 up, digits only.
std::optional<uint64_t> parseCount(std::string_view text);
// A number as C writes it, and nothing after it.
std::optional<double> parseReal(const std::string& text);
// Bytes: a number, perhaps with a point, and K, M, G or T (powers of 1024), with or without "B" or "iB".
std::optional<uint64_t> parseSize(std::string_view text);
// A number with ns, us, ms, s, min or h; seconds if there is no unit.
std::optional<std::chrono::nanoseconds> parseDuration(std::string_view text);
// "1.5 GiB"
std::string sizeText(uint64_t bytes);

}  // namespace tscompile
