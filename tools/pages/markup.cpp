#include "tools/pages/markup.h"

#include "ir/support/text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace tscompile {
namespace {

uint32_t codePoint(std::string_view sequence) {
  const auto first = static_cast<unsigned char>(sequence[0]);
  uint32_t out = sequence.size() == 1 ? first : first & (0xffu >> (sequence.size() + 1));
  for (size_t i = 1; i < sequence.size(); ++i) out = out << 6 | (static_cast<unsigned char>(sequence[i]) & 0x3f);
  return out;
}

bool isHidden(uint32_t c) {
  return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
         (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || c == 0xfffe || c == 0xffff ||
         (c >= 0xe0000 && c <= 0xe0fff);
}

}  // namespace

std::string shown(std::string_view text, size_t most) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= most) return out + "…";
    const size_t length = utf8Length(text);
    if (length == 0) {
      out += "\uFFFD";
      text.remove_prefix(1);
      continue;
    }
    const std::string_view sequence = text.substr(0, length);
    if (const uint32_t c = codePoint(sequence); isHidden(c))
      out += fmt::format("\\u{:04x}", c);
    else
      out += sequence;
    text.remove_prefix(length);
  }
  return out;
}

std::string escaped(std::string_view text, size_t most) {
  std::string out;
  for (char c : shown(text, most)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string scriptSafe(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (char c : json) c == '<' ? out += "\\u003c" : out += c;
  return out;
}

std::string number(double v) {
  if (v == 0 || !std::isfinite(v)) return v == 0 ? "0" : "–";
  const int digits = std::clamp(2 - static_cast<int>(std::floor(std::log10(std::abs(v)))), 0, 6);
  return fmt::format("{:.{}f}", v, digits);
}

std::string timeText(double us) {
  if (us >= 1e6) return number(us / 1e6) + " s";
  return us >= 1e3 ? number(us / 1e3) + " ms" : number(us) + " µs";
}

}  // namespace tscompile
