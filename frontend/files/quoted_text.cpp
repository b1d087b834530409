#include "frontend/files/quoted_text.h"

#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

int hexDigit(char c) {
  if (isDigit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool readCodeUnit(TextCursor& c, size_t begin, uint32_t& out) {
  out = 0;
  for (int i = 0; i < 4; ++i) {
    int digit = hexDigit(c.peek());
    if (digit < 0) return c.fail(begin, "\\u is followed by four hexadecimal digits");
    out = out * 16 + static_cast<uint32_t>(digit);
    c.skip(1);
  }
  return true;
}

void appendUtf8(uint32_t code, std::string& out) {
  auto push = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    push(code);
  } else if (code < 0x800) {
    push(0xc0 | code >> 6);
    push(0x80 | (code & 0x3f));
  } else {
    if (code < 0x10000) {
      push(0xe0 | code >> 12);
    } else {
      push(0xf0 | code >> 18);
      push(0x80 | (code >> 12 & 0x3f));
    }
    push(0x80 | (code >> 6 & 0x3f));
    push(0x80 | (code & 0x3f));
  }
}

// After a backslash: JSON's escapes.
bool readEscape(TextCursor& c, size_t begin, std::string& out) {
  char name = c.peek();
  c.skip(1);
  constexpr std::string_view kNames = "\"\\/bfnrt", kBytes = "\"\\/\b\f\n\r\t";
  if (size_t i = kNames.find(name); i != std::string_view::npos) {
    out += kBytes[i];
    return true;
  }
  if (name != 'u') return c.fail(begin, "unknown escape; strings have those of JSON");
  uint32_t code, low;
  if (!readCodeUnit(c, begin, code)) return false;
  if (code >= 0xd800 && code < 0xe000) {
    bool pair = code < 0xdc00 && c.take("\\u");
    if (pair && !readCodeUnit(c, begin, low)) return false;
    if (!pair || low < 0xdc00 || low >= 0xe000) return c.fail(begin, "half of a surrogate pair");
    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
  }
  appendUtf8(code, out);
  return true;
}

}  // namespace

bool readQuotedText(TextCursor& c, const Limits& limits, std::string& out) {
  size_t begin = c.at();
  c.skip(1);
  while (!c.take('"')) {
    if (c.atEnd()) return c.fail(begin, "the string does not end");
    if (out.size() >= limits.stringBytes)
      return c.failLimit(begin, fmt::format("the string has more than {} bytes", limits.stringBytes), "string");
    size_t at = c.at();
    char byte = c.peek();
    c.skip(1);
    if (byte == '\\') {
      if (!readEscape(c, at, out)) return false;
    } else if (static_cast<unsigned char>(byte) < 0x20) {
      return c.fail(at, "control characters in strings are written as \\n or \\u001b");
    } else {
      out += byte;
    }
  }
  return true;
}

void appendQuotedText(std::string_view text, std::string& out) {
  out += '"';
  for (size_t i = 0; i < text.size();) {
    size_t length = utf8Length(text.substr(i));
    if (length == 0) {
      out += text[i++];
      continue;
    }
    std::string quoted = jsonQuote(text.substr(i, length));
    out.append(quoted, 1, quoted.size() - 2);
    i += length;
  }
  out += '"';
}

}  // namespace tscompile
