// Cuts text into the pieces that byte-level tokenizers encode one by one, as the regular expressions of their files do.
// The expressions that are in use are written out by hand; classes are those of
// utf8proc's Unicode.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tscompile {

enum class CharClass : uint8_t { Letter, Number, Space, Other };  // \p{L}, \p{N}, \s (White_Space), the rest

// A character of UTF-8 text. A byte that is no part of valid UTF-8 is a character of its own, of class Other.
struct Character {
  uint32_t code = 0;
  uint32_t bytes = 0;  // 0: the text is at its end
  CharClass kind = CharClass::Other;
};
Character characterAt(std::string_view text, size_t at);
// The one that ends at `at`.
Character characterBefore(std::string_view text, size_t at);

enum class SplitRule : uint8_t {
  Whole,        // one piece
  Gpt2,         // '(s|t|re|ve|m|ll|d) | ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
  WordDigit,    // Qwen2: words take one character before them, digits one by one, newlines end punctuation
  WordDigits3,  // Llama 3, cl100k: the same with up to three digits
};
// \w
bool isOfWord(const Character& c);
// Of ASCII all but letters, digits and controls, else \p{P}.
bool isPunctuation(const Character& c);

// The rule of a regular expression as tokenizer.json files write it; none for others.
std::optional<SplitRule> splitRuleOf(std::string_view expression);

// The end of the piece that begins at `at`, which must be inside the text.
size_t pieceEnd(SplitRule rule, std::string_view text, size_t at);

}  // namespace tscompile
