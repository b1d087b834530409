// Classes of characters, and the rules by which text is cut.
#include "runtime/llm/text_split.h"

#include <algorithm>
#include <string>
#include <utf8proc.h>

namespace tscompile {
namespace {

CharClass asciiClass(unsigned char c) {
  if (c == ' ' || (c >= '\t' && c <= '\r')) return CharClass::Space;
  if (c >= '0' && c <= '9') return CharClass::Number;
  return (c | 0x20) >= 'a' && (c | 0x20) <= 'z' ? CharClass::Letter : CharClass::Other;
}

// Of characters beyond ASCII.
CharClass classOf(uint32_t code) {
  if (code == 0x85) return CharClass::Space;
  switch (utf8proc_category_string(static_cast<utf8proc_int32_t>(code))[0]) {
    case 'Z':
      return CharClass::Space;
    case 'L':
      return CharClass::Letter;
    case 'N':
      return CharClass::Number;
    default:
      return CharClass::Other;
  }
}

bool isNewline(const Character& c) { return c.bytes != 0 && (c.code == '\r' || c.code == '\n'); }

class Place {
 public:
  Place(std::string_view text, size_t at) : text_(text), at_(at), first_(characterAt(text, at)) {}

  size_t gpt2() const {
    if (size_t end = contraction(false)) return end;
    size_t word = afterSpace();
    Character c = characterAt(text_, word);
    if (c.bytes != 0 && c.kind != CharClass::Space) return run(word, c.kind, text_.size());
    return spaces();
  }

  size_t wordsAndDigits(size_t digits) const {
    if (size_t end = contraction(true)) return end;
    if (first_.kind == CharClass::Letter) return run(at_, CharClass::Letter, text_.size());
    size_t second = at_ + first_.bytes;
    if (first_.kind != CharClass::Number && !isNewline(first_) && is(second, CharClass::Letter))
      return run(second, CharClass::Letter, text_.size());
    if (first_.kind == CharClass::Number) return run(at_, CharClass::Number, digits);
    if (size_t word = afterSpace(); is(word, CharClass::Other)) {
      size_t end = run(word, CharClass::Other, text_.size());
      while (isNewline(characterAt(text_, end))) ++end;
      return end;
    }
    size_t newline = 0;
    for (size_t i = at_; is(i, CharClass::Space); i += characterAt(text_, i).bytes)
      if (isNewline(characterAt(text_, i))) newline = i + 1;
    return newline != 0 ? newline : spaces();
  }

 private:
  bool is(size_t at, CharClass kind) const {
    Character c = characterAt(text_, at);
    return c.bytes != 0 && c.kind == kind;
  }
  size_t afterSpace() const { return at_ + (text_[at_] == ' '); }

  // 's 't 're 've 'm 'll 'd; 0 if there is none.
  size_t contraction(bool anyCase) const {
    if (text_[at_] != '\'') return 0;
    std::string next(text_.substr(at_ + 1, 2));
    if (anyCase)
      for (char& c : next)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (next.empty()) return 0;
    if (std::string_view("stmd").find(next[0]) != std::string_view::npos) return at_ + 2;
    return next == "re" || next == "ve" || next == "ll" ? at_ + 3 : 0;
  }
  // The end of at most `most` characters of a class.
  size_t run(size_t at, CharClass kind, size_t most) const {
    for (; most > 0; --most) {
      Character c = characterAt(text_, at);
      if (c.bytes == 0 || c.kind != kind) break;
      at += c.bytes;
    }
    return at;
  }
  // \s+(?!\S)|\s+: the last space of several belongs to what follows it.
  size_t spaces() const {
    size_t last = at_, end = at_;
    while (is(end, CharClass::Space)) {
      last = end;
      end += characterAt(text_, end).bytes;
    }
    return end == text_.size() || last == at_ ? end : last;
  }

  std::string_view text_;
  size_t at_;
  Character first_;
};

constexpr std::string_view kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::string_view kWordDigit =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kWordDigits3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace

Character characterAt(std::string_view text, size_t at) {
  if (at >= text.size()) return {};
  unsigned char first = static_cast<unsigned char>(text[at]);
  if (first < 0x80) return {first, 1, asciiClass(first)};
  utf8proc_int32_t code;
  utf8proc_ssize_t bytes = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data() + at),
                                            static_cast<utf8proc_ssize_t>(text.size() - at), &code);
  if (bytes <= 0) return {first, 1, CharClass::Other};
  return {static_cast<uint32_t>(code), static_cast<uint32_t>(bytes), classOf(static_cast<uint32_t>(code))};
}

Character characterBefore(std::string_view text, size_t at) {
  for (size_t bytes = std::min<size_t>(at, 4); bytes > 1; --bytes)
    if (const Character c = characterAt(text, at - bytes); c.bytes == bytes) return c;
  return at > 0 ? characterAt(text.substr(0, at), at - 1) : Character{};
}

std::optional<SplitRule> splitRuleOf(std::string_view expression) {
  if (expression == kGpt2) return SplitRule::Gpt2;
  if (expression == kWordDigit) return SplitRule::WordDigit;
  if (expression == kWordDigits3) return SplitRule::WordDigits3;
  return std::nullopt;
}

size_t pieceEnd(SplitRule rule, std::string_view text, size_t at) {
  switch (rule) {
    case SplitRule::Whole:
      return text.size();
    case SplitRule::Gpt2:
      return Place(text, at).gpt2();
    case SplitRule::WordDigit:
      return Place(text, at).wordsAndDigits(1);
    case SplitRule::WordDigits3:
      return Place(text, at).wordsAndDigits(3);
  }
  return text.size();
}

bool isOfWord(const Character& c) {
  if (c.bytes == 0 || (c.bytes == 1 && c.code >= 0x80)) return false;
  const std::string_view category = utf8proc_category_string(static_cast<utf8proc_int32_t>(c.code));
  const bool isJoiner = c.code == 0x200c || c.code == 0x200d;
  const bool isLetterInSign = (c.code >= 0x24b6 && c.code <= 0x24e9) || (c.code >= 0x1f130 && c.code <= 0x1f149) ||
                              (c.code >= 0x1f150 && c.code <= 0x1f169) || (c.code >= 0x1f170 && c.code <= 0x1f189);
  return category[0] == 'L' || category[0] == 'M' || category == "Nd" || category == "Nl" || category == "Pc" ||
         isJoiner || isLetterInSign;
}

bool isPunctuation(const Character& c) {
  if (c.bytes == 1) return c.code > ' ' && c.code < 0x7f && c.kind == CharClass::Other;
  return utf8proc_category_string(static_cast<utf8proc_int32_t>(c.code))[0] == 'P';
}

}  // namespace tscompile
