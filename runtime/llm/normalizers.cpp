// As the `tokenizers` library does it, whose tests are rows of text: tests/unit/runtime/llm/tokenizer_test.cpp.
#include "runtime/llm/normalizers.h"

#include "frontend/files/base64.h"
#include "runtime/llm/normal_forms.h"
#include "runtime/llm/split_pattern.h"
#include "runtime/llm/text_split.h"

#include <algorithm>
#include <cstring>
#include <utf8proc.h>
#include <vector>

namespace tscompile {
namespace {

using Value = JsonTree::Value;

bool isText(const Character& c) { return c.bytes > 1 || c.code < 0x80; }

std::string_view categoryOf(const Character& c) {
  return isText(c) ? utf8proc_category_string(static_cast<utf8proc_int32_t>(c.code)) : "Cn";
}

// `change(character, out)` appends what becomes of it; false: it stays.
template <class F>
std::string mapCharacters(std::string_view text, const F& change) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const Character c = characterAt(text, at);
    if (!isText(c) || !change(c, out)) out += text.substr(at, c.bytes);
    at += c.bytes;
  }
  return out;
}

std::string lowered(std::string_view text) {
  constexpr uint32_t kDottedI = 0x130;
  return mapCharacters(text, [](const Character& c, std::string& out) {
    if (c.code == kDottedI) return out += "i\u0307", true;
    return appendCharacter(static_cast<uint32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c.code))), out), true;
  });
}

// Marks: "M", or those without a width, "Mn".
std::string withoutMarks(std::string_view text, std::string_view category) {
  return mapCharacters(text, [&](const Character& c, std::string&) { return categoryOf(c).starts_with(category); });
}

bool isChinese(uint32_t c) {
  return (c >= 0x4e00 && c <= 0x9fff) || (c >= 0x3400 && c <= 0x4dbf) || (c >= 0x20000 && c <= 0x2a6df) ||
         (c >= 0x2a700 && c <= 0x2b73f) || (c >= 0x2b740 && c <= 0x2b81f) || (c >= 0x2b920 && c <= 0x2ceaf) ||
         (c >= 0xf900 && c <= 0xfaff) || (c >= 0x2f800 && c <= 0x2fa1f);
}

// Spaces of any kind as one; no controls but \t, \n and \r, formats and characters for private use.
bool cleaned(const Character& c, std::string& out) {
  constexpr uint32_t kReplacement = 0xfffd;
  const std::string_view category = categoryOf(c);
  const bool isSpace =
      c.kind == CharClass::Space && (category != "Cc" || c.code == '\t' || c.code == '\n' || c.code == '\r');
  if (isSpace) return out += ' ', true;
  return c.code == kReplacement || category == "Cc" || category == "Cf" || category == "Co";
}

// What the rules of SentencePiece for translation, nmt, do with controls and spaces.
bool cleanedByNmt(const Character& c, std::string& out) {
  constexpr std::u32string_view kSpaces = U"\t\n\f\r\u1680\u2028\u2029\u2581\ufeff\ufffd";
  const bool isSpace = kSpaces.find(c.code) != kSpaces.npos || (c.code >= 0x200b && c.code <= 0x200f);
  if (isSpace) return out += ' ', true;
  return (c.code > 0 && c.code < ' ') || c.code == 0x7f || c.code == 0x8f || c.code == 0x9f;
}

std::string stripped(std::string_view text, bool left, bool right) {
  size_t first = text.size(), last = 0;
  for (size_t at = 0; at < text.size();) {
    const Character c = characterAt(text, at);
    const bool isSpace = c.kind == CharClass::Space;
    if (!isSpace) first = std::min(first, at);
    at += c.bytes;
    if (!isSpace) last = at;
  }
  if (!left) first = 0;
  if (!right) last = text.size();
  return first < last ? std::string(text.substr(first, last - first)) : std::string();
}

// SentencePiece's table of what becomes of characters: a double-array trie of their bytes (Aoe 1989), and the texts,
// each ended by a zero byte, that its leaves are places in.
class CharacterTable {
 public:
  bool read(std::string_view bytes) {
    uint32_t size;
    if (bytes.size() < sizeof size) return false;
    std::memcpy(&size, bytes.data(), sizeof size);
    bytes.remove_prefix(sizeof size);
    if (size > bytes.size() || size < sizeof(uint32_t)) return false;
    units_.resize(size / sizeof(uint32_t));
    std::memcpy(units_.data(), bytes.data(), units_.size() * sizeof(uint32_t));
    texts_ = bytes.substr(size);
    return true;
  }

  size_t longest() const {
    size_t most = 0;
    for (size_t at = 0, end; at < texts_.size(); at = end + 1) {
      end = std::min(texts_.find('\0', at), texts_.size());
      most = std::max(most, end - at);
    }
    return most;
  }

  std::string apply(std::string_view text) const {
    constexpr size_t kLongest = 6;  // that is looked for as a whole, a letter with its marks
    std::string out;
    for (size_t at = 0, end; at < text.size(); at = end) {
      end = clusterEnd(text, at);
      if (end - at < kLongest && change(text.substr(at, end - at), out)) continue;
      for (size_t bytes; at < end; at += bytes) {
        bytes = characterAt(text, at).bytes;
        if (!change(text.substr(at, bytes), out)) out += text.substr(at, bytes);
      }
    }
    return out;
  }

 private:
  static size_t clusterEnd(std::string_view text, size_t at) {
    utf8proc_int32_t state = 0;
    for (Character last = characterAt(text, at); at < text.size();) {
      at += last.bytes;
      const Character next = characterAt(text, at);
      if (next.bytes == 0 || !isText(last) || !isText(next) ||
          utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(last.code),
                                           static_cast<utf8proc_int32_t>(next.code), &state))
        break;
      last = next;
    }
    return at;
  }
  static uint32_t offset(uint32_t unit) { return unit >> 10 << ((unit & 1U << 9) >> 6); }

  // What the shortest beginning that is in the table becomes stands for the whole.
  bool change(std::string_view text, std::string& out) const {
    constexpr uint32_t kLeaf = 1U << 8, kNoLabel = 1U << 31;
    size_t at = offset(units_[0]);
    for (unsigned char c : text) {
      at ^= c;
      if (c == 0 || at >= units_.size() || (units_[at] & (kNoLabel | 0xff)) != c) return false;
      const uint32_t unit = units_[at];
      at ^= offset(unit);
      if ((unit & kLeaf) == 0) continue;
      const size_t begin = at < units_.size() ? units_[at] & ~kNoLabel : texts_.size();
      if (begin >= texts_.size()) return false;
      return out += std::string_view(texts_).substr(begin, texts_.find('\0', begin) - begin), true;
    }
    return false;
  }

  std::vector<uint32_t> units_;
  std::string texts_;
};

Normalizer replacer(const Value& v, double& growth) {
  const Value literal = v.find("pattern").find("String"), regex = v.find("pattern").find("Regex");
  const Value content = v.find("content");
  const Value& pattern = literal ? literal : regex;
  if (!pattern || !pattern.is(JsonTree::Kind::String) || !content || !content.is(JsonTree::Kind::String)) return {};
  std::optional<SplitPattern> expression;
  if (!literal && (!(expression = SplitPattern::parse(pattern.text())) || expression->mayBeEmpty())) return {};
  std::string by(content.text()), what(pattern.text());
  if (what.empty()) return {};
  const double least = expression ? 1 : static_cast<double>(what.size());
  growth *= std::max(1.0, static_cast<double>(by.size()) / least);
  if (!expression) return [=](std::string_view text) { return replaced(text, what, by); };
  return [=](std::string_view text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      const size_t end = expression->matchEnd(text, at), next = end > at ? end : expression->afterMiss(text, at);
      out += end > at ? std::string_view(by) : text.substr(at, next - at);
      at = next;
    }
    return out;
  };
}

bool isSet(const Value& v, std::string_view name, bool otherwise) {
  const Value flag = v.find(name);
  return flag && flag.is(JsonTree::Kind::Bool) ? flag.truth() : otherwise;
}

Normalizer ofBert(const Value& v) {
  const bool lowers = isSet(v, "lowercase", true), strips = isSet(v, "strip_accents", lowers);
  const bool cleans = isSet(v, "clean_text", true), spaces = isSet(v, "handle_chinese_chars", true);
  return [=](std::string_view text) {
    std::string out(text);
    if (cleans) out = mapCharacters(out, cleaned);
    if (spaces)
      out = mapCharacters(out, [](const Character& c, std::string& to) {
        if (!isChinese(c.code)) return false;
        to += ' ';
        appendCharacter(c.code, to);
        return to += ' ', true;
      });
    if (strips) out = withoutMarks(toNormalForm(out, NormalForm::Nfd), "Mn");
    return lowers ? lowered(out) : out;
  };
}

}  // namespace

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (size_t at = 0;;) {
    const size_t found = text.find(what, at);
    out += text.substr(at, found - at);
    if (found == std::string_view::npos) return out;
    out += by;
    at = found + what.size();
  }
}

Normalizer readNormalizer(const JsonTree::Value& v, double& growth) {
  const JsonTree::Value name = v.find("type");
  const std::string_view type = name && name.is(JsonTree::Kind::String) ? name.text() : "";
  const auto form = [](NormalForm f) { return [f](std::string_view text) { return toNormalForm(text, f); }; };
  if (type == "NFC") return form(NormalForm::Nfc);
  if (type == "NFD") return form(NormalForm::Nfd);
  if (type == "NFKC") return form(NormalForm::Nfkc);
  if (type == "NFKD") return form(NormalForm::Nfkd);
  if (type == "Lowercase") return lowered;
  if (type == "Nmt") return [](std::string_view text) { return mapCharacters(text, cleanedByNmt); };
  if (type == "StripAccents") return [](std::string_view text) { return withoutMarks(text, "M"); };
  if (type == "Replace") return replacer(v, growth);
  if (type == "BertNormalizer") return ofBert(v);
  if (type == "Strip")
    return [left = isSet(v, "strip_left", true), right = isSet(v, "strip_right", true)](std::string_view text) {
      return stripped(text, left, right);
    };
  if (const JsonTree::Value mark = v.find("prepend"); type == "Prepend" && mark && mark.is(JsonTree::Kind::String)) {
    growth *= 1 + static_cast<double>(mark.text().size());
    return [before = std::string(mark.text())](std::string_view text) {
      return text.empty() ? std::string() : before + std::string(text);
    };
  }
  if (const JsonTree::Value map = v.find("precompiled_charsmap"); type == "Precompiled" && map) {
    const std::optional<std::string> bytes = map.is(JsonTree::Kind::String) ? bytesOfBase64(map.text()) : std::nullopt;
    CharacterTable table;
    if (bytes && table.read(*bytes)) {
      growth *= std::max<double>(1, static_cast<double>(table.longest()));
      return [table = std::move(table)](std::string_view text) { return table.apply(text); };
    }
  }
  return {};
}

}  // namespace tscompile
