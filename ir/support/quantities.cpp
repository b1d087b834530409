#include "ir/support/quantities.h"

#include "ir/support/number_of_text.h"

#include <fmt/core.h>

#include <charconv>
#include <cstdlib>

namespace tscompile {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// The number before one of the units, times its factor.
template <size_t N>
std::optional<double> scaled(std::string_view text, const Unit (&units)[N]) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  double number = 0;
  auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  if (failure != std::errc()) return std::nullopt;
  std::string_view name = text.substr(static_cast<size_t>(end - text.data()));
  for (const Unit& unit : units)
    if (unit.name == name) return number * unit.factor;
  return std::nullopt;
}

constexpr double kKi = 1024, kMi = kKi * 1024, kGi = kMi * 1024, kTi = kGi * 1024;
constexpr Unit kSizes[] = {{"", 1},      {"B", 1},   {"K", kKi},  {"KB", kKi},  {"KiB", kKi}, {"k", kKi},
                           {"kB", kKi},  {"M", kMi}, {"MB", kMi}, {"MiB", kMi}, {"G", kGi},   {"GB", kGi},
                           {"GiB", kGi}, {"T", kTi}, {"TB", kTi}, {"TiB", kTi}};
constexpr Unit kDurations[] = {{"", 1e9},  {"ns", 1},     {"us", 1e3},  {"ms", 1e6},
                               {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}};

}  // namespace

std::optional<uint64_t> parseCount(std::string_view text) { return numberOfText<uint64_t>(text); }

std::optional<double> parseReal(const std::string& text) {
  char* end = nullptr;
  double number = std::strtod(text.c_str(), &end);
  if (text.empty() || end != text.c_str() + text.size()) return std::nullopt;
  return number;
}

std::optional<uint64_t> parseSize(std::string_view text) {
  if (auto count = parseCount(text)) return count;
  std::optional<double> bytes = scaled(text, kSizes);
  if (!bytes || *bytes >= 0x1p63) return std::nullopt;
  return static_cast<uint64_t>(*bytes);
}

std::optional<std::chrono::nanoseconds> parseDuration(std::string_view text) {
  std::optional<double> ns = scaled(text, kDurations);
  if (!ns || *ns >= 0x1p62) return std::nullopt;
  return std::chrono::nanoseconds(static_cast<int64_t>(*ns));
}

std::string sizeText(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} bytes", bytes);
  double v = static_cast<double>(bytes);
  const char* unit = "KiB";
  v /= 1024;
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (v < 1024) break;
    v /= 1024;
    unit = next;
  }
  return fmt::format("{:.1f} {}", v, unit);
}

}  // namespace tscompile
