// Small text utilities: joining, suggestions, widths.
#pragma once

#include "ir/support/check.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tscompile {

template <class Range, class ToText>
std::string join(const Range& items, std::string_view separator, ToText toText) {
  std::string out;
  bool first = true;
  for (const auto& item : items) {
    if (!first) out += separator;
    first = false;
    out += toText(item);
  }
  return out;
}

// The Damerau-Levenshtein distance (optimal string alignment): insertions, deletions, substitutions and swaps of
// neighbours that turn `a` into `b`; gives up past `limit`.
size_t editDistance(std::string_view a, std::string_view b, size_t limit);

// Collects candidates and keeps the one nearest to a misspelt name: at most two edits, fewer for short names.
class NearestName {
 public:
  explicit NearestName(std::string_view wanted);
  void consider(std::string_view candidate);
  bool found() const { return !best_.empty(); }
  const std::string& name() const { return best_; }

 private:
  std::string wanted_;  // its own: names are often made for the question
  std::string best_;
  size_t bestDistance_;
};

// Columns that UTF-8 text takes on a terminal, one for each code point.
size_t displayWidth(std::string_view text);

// Bytes of the valid UTF-8 sequence that the text begins with, or 0.
size_t utf8Length(std::string_view text);

// The text in double quotes with JSON escapes; invalid UTF-8 becomes U+FFFD.
std::string jsonQuote(std::string_view text);

// "1 byte", "3 bytes".
std::string counted(uint64_t count, std::string_view noun);

// At most `limit` bytes of the text, with "..." where it was cut.
std::string abbreviate(std::string_view text, size_t limit);

// What is behind the last slash.
std::string fileNameOf(std::string_view path);

bool startsWith(std::string_view text, std::string_view prefix);
bool endsWith(std::string_view text, std::string_view suffix);
std::string_view trim(std::string_view text);

}  // namespace tscompile
