// Tables by utf8proc. The order of marks is ours: its own sorts by exchanging neighbours, which takes quadratic time
// for a letter with a hundred thousand marks.
#include "runtime/llm/normal_forms.h"

#include "runtime/llm/text_split.h"

#include <algorithm>
#include <array>
#include <utf8proc.h>
#include <vector>

namespace tscompile {
namespace {

using Codes = std::vector<utf8proc_int32_t>;

int combiningClass(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

void appendDecomposed(uint32_t code, bool isCompatible, Codes& out) {
  std::array<utf8proc_int32_t, 32> parts;  // no decomposition has more than 18
  int boundary = 0;
  const int options = UTF8PROC_DECOMPOSE | UTF8PROC_STABLE | (isCompatible ? UTF8PROC_COMPAT : 0);
  auto count = utf8proc_decompose_char(static_cast<utf8proc_int32_t>(code), parts.data(), parts.size(),
                                       static_cast<utf8proc_option_t>(options), &boundary);
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

// In their order, and composed if this is asked for.
void appendOrdered(Codes& codes, bool composes, std::string& out) {
  orderMarks(codes);
  auto count = static_cast<utf8proc_ssize_t>(codes.size());
  if (composes)
    count = utf8proc_normalize_utf32(codes.data(), count,
                                     static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
  for (utf8proc_ssize_t i = 0; i < count; ++i)
    appendCharacter(static_cast<uint32_t>(codes[static_cast<size_t>(i)]), out);
  codes.clear();
}

// Bytes that are no text do not; nor does U+11A7, a vowel in front of the Korean final consonants, which utf8proc 2.8
// takes for the absence of one and drops.
bool canCompose(const Character& c) { return (c.code < 0x80 || c.bytes > 1) && c.code != 0x11a7; }

}  // namespace

void appendCharacter(uint32_t code, std::string& out) {
  std::array<utf8proc_uint8_t, 4> bytes;
  auto length = utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  out.append(bytes.begin(), bytes.begin() + length);
}

std::string toNormalForm(std::string_view text, NormalForm form) {
  const bool composes = form == NormalForm::Nfc || form == NormalForm::Nfkc;
  // ASCII is in all forms, text up to U+02FF in NFC.
  const unsigned char first = form == NormalForm::Nfc ? 0xcc : 0x80;
  if (std::ranges::none_of(text, [&](unsigned char byte) { return byte >= first; })) return std::string(text);
  std::string out;
  Codes codes;
  for (size_t at = 0; at < text.size();) {
    Character c = characterAt(text, at);
    if (canCompose(c)) {
      appendDecomposed(c.code, form == NormalForm::Nfkc || form == NormalForm::Nfkd, codes);
    } else {
      appendOrdered(codes, composes, out);
      out += text.substr(at, c.bytes);
    }
    at += c.bytes;
  }
  appendOrdered(codes, composes, out);
  return out;
}

}  // namespace tscompile
