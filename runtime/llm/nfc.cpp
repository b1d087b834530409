// Tables by utf8proc. The order of marks is ours: its own sorts by exchanging neighbours, which takes quadratic time
// for a letter with a hundred thousand marks.
#include "runtime/llm/nfc.h"

#include "runtime/llm/text_split.h"

#include <algorithm>
#include <array>
#include <utf8proc.h>
#include <vector>

namespace tscompile {
namespace {

using Codes = std::vector<utf8proc_int32_t>;

int combiningClass(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

void appendDecomposed(uint32_t code, Codes& out) {
  std::array<utf8proc_int32_t, 32> parts;  // no canonical decomposition has more than 4
  int boundary = 0;
  auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(),
                                       static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_STABLE), &boundary);
  out.insert(out.end(), parts.begin(), parts.begin() + count);
}

// Each run of marks by their classes, equal ones as they stand.
void orderMarks(Codes& codes) {
  auto isStarter = [](utf8proc_int32_t code) { return combiningClass(code) == 0; };
  for (auto first = codes.begin(); first != codes.end();) {
    first = std::find_if_not(first, codes.end(), isStarter);
    auto last = std::find_if(first, codes.end(), isStarter);
    std::stable_sort(first, last, [](auto a, auto b) { return combiningClass(a) < combiningClass(b); });
    first = last;
  }
}

void appendComposed(Codes& codes, std::string& out) {
  orderMarks(codes);
  auto count = utf8proc_normalize_utf32(codes.data(), static_cast<utf8proc_ssize_t>(codes.size()),
                                        static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    std::array<utf8proc_uint8_t, 4> bytes;
    auto length = utf8proc_encode_char(codes[static_cast<size_t>(i)], bytes.data());
    out.append(bytes.begin(), bytes.begin() + length);
  }
  codes.clear();
}

// Bytes that are no text do not; nor does U+11A7, a vowel in front of the Korean final consonants, which utf8proc 2.8
// takes for the absence of one and drops.
bool composes(const Character& c) { return (c.code < 0x80 || c.bytes > 1) && c.code != 0x11a7; }

// Up to U+02FF all text is in NFC.
bool mayChange(unsigned char byte) { return byte >= 0xcc; }

}  // namespace

std::string toNfc(std::string_view text) {
  if (std::none_of(text.begin(), text.end(), mayChange)) return std::string(text);
  std::string out;
  Codes codes;
  for (size_t at = 0; at < text.size();) {
    Character c = characterAt(text, at);
    if (composes(c)) {
      appendDecomposed(c.code, codes);
    } else {
      appendComposed(codes, out);
      out += text.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  appendComposed(codes, out);
  return out;
}

}  // namespace tscompile
