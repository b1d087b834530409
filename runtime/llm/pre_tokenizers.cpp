// As the `tokenizers` library cuts, whose answers are rows of tests/data/llm.
#include "runtime/llm/pre_tokenizers.h"

#include "ir/support/text.h"
#include "runtime/llm/normalizers.h"
#include "runtime/llm/split_pattern.h"
#include "runtime/llm/text_split.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>

namespace tscompile {
namespace {

using Value = JsonTree::Value;
using Kind = JsonTree::Kind;

constexpr uint32_t kOthers = 0x100;  // the first character for a byte that does not print as itself

bool printsAsItself(unsigned byte) { return (byte >= 33 && byte <= 126) || (byte >= 161 && byte != 173); }

// A match, or what stands between two.
struct Span {
  std::string_view text;
  bool isMatch = false;
};
// All of a text, in its order.
using Matcher = std::function<std::vector<Span>(std::string_view)>;

enum class Behavior : uint8_t { Removed, Isolated, MergedWithPrevious, MergedWithNext, Contiguous };

std::optional<Behavior> behaviorOf(std::string_view name) {
  constexpr std::array<std::string_view, 5> kNames{"Removed", "Isolated", "MergedWithPrevious", "MergedWithNext",
                                                   "Contiguous"};
  const auto found = std::ranges::find(kNames, name);
  return found == kNames.end() ? std::nullopt : std::optional(static_cast<Behavior>(found - kNames.begin()));
}

bool areOnePiece(Behavior behavior, const Span& left, const Span& right) {
  switch (behavior) {
    case Behavior::MergedWithPrevious:
      return !left.isMatch && right.isMatch;
    case Behavior::MergedWithNext:
      return left.isMatch && !right.isMatch;
    case Behavior::Contiguous:
      return left.isMatch == right.isMatch;
    default:
      return false;
  }
}

PreTokenizer cutAt(Matcher matcher, Behavior behavior, bool isInverted = false) {
  return [=](Pieces& pieces) {
    pieces.cut([&](std::string_view piece, Pieces::Parts& parts) {
      const std::vector<Span> spans = matcher(piece);
      for (size_t i = 0; i < spans.size(); ++i) {
        const std::string_view text = spans[i].text;
        if (behavior == Behavior::Removed && spans[i].isMatch != isInverted) continue;
        Span left = i > 0 ? spans[i - 1] : Span(), right = spans[i];
        left.isMatch ^= isInverted, right.isMatch ^= isInverted;
        if (i > 0 && areOnePiece(behavior, left, right))
          parts.back() = {parts.back().data(), parts.back().size() + text.size()};
        else
          parts.push_back(text);
      }
    });
  };
}

// Each character that is so.
template <class F>
Matcher eachCharacter(const F& isMatch) {
  return [=](std::string_view text) {
    std::vector<Span> out;
    for (size_t at = 0; at < text.size();) {
      const Character c = characterAt(text, at);
      const bool found = isMatch(c);
      if (found || out.empty() || out.back().isMatch)
        out.push_back({text.substr(at, c.bytes), found});
      else
        out.back().text = {out.back().text.data(), out.back().text.size() + c.bytes};
      at += c.bytes;
    }
    return out;
  };
}

Matcher eachText(std::string_view what) {
  return [what = std::string(what)](std::string_view text) {
    std::vector<Span> out;
    for (size_t at = 0; at < text.size();) {
      const size_t found = std::min(text.find(what, at), text.size());
      if (found > at) out.push_back({text.substr(at, found - at), false});
      if (found < text.size()) out.push_back({text.substr(found, what.size()), true});
      at = found + what.size();
    }
    return out;
  };
}

Matcher eachMatch(const SplitPattern& pattern) {
  return [=](std::string_view text) {
    std::vector<Span> out;
    for (size_t at = 0; at < text.size();) {
      const size_t end = pattern.matchEnd(text, at), next = end > at ? end : pattern.afterMiss(text, at);
      if (end > at || out.empty() || out.back().isMatch)
        out.push_back({text.substr(at, next - at), end > at});
      else
        out.back().text = {out.back().text.data(), out.back().text.size() + next - at};
      at = next;
    }
    return out;
  };
}

Matcher eachPiece(SplitRule rule) {
  return [=](std::string_view text) {
    std::vector<Span> out;
    for (size_t at = 0, end; at < text.size(); at = end) {
      end = pieceEnd(rule, text, at);
      out.push_back({text.substr(at, end - at), true});
    }
    return out;
  };
}

bool isSpace(const Character& c) { return c.kind == CharClass::Space; }

class Reader {
 public:
  Reader(PreTokenizers& out, Unsupported& why) : out_(out), why_(why) {}

  bool read(const Value& v) {
    const std::string_view type = textOf(v, "type");
    if (type == "Sequence") return sequence(v);
    if (type == "ByteLevel") return byteLevel(v);
    if (type == "Metaspace") return metaspace(v);
    if (type == "Split") return split(v);
    if (type == "Digits") {
      bool isEach = false;
      return flag(v, "individual_digits", isEach) &&
             add(cutAt(eachCharacter([](const Character& c) { return c.kind == CharClass::Number; }),
                       isEach ? Behavior::Isolated : Behavior::Contiguous));
    }
    if (type == "Punctuation") {
      const Value behavior = v.find("behavior");
      const auto does = behavior.present() ? behaviorOf(textOf(v, "behavior")) : Behavior::Isolated;
      return does ? add(cutAt(eachCharacter(isPunctuation), *does)) : refuse(behavior, "this behavior");
    }
    if (type == "WhitespaceSplit") return add(cutAt(eachCharacter(isSpace), Behavior::Removed));
    if (type == "Whitespace")  // \w+|[^\w\s]+
      return add(cutAt(eachCharacter(isSpace), Behavior::Removed)) &&
             add(cutAt(eachCharacter(isOfWord), Behavior::Contiguous));
    if (type == "BertPreTokenizer")
      return add(cutAt(eachCharacter(isSpace), Behavior::Removed)) &&
             add(cutAt(eachCharacter(isPunctuation), Behavior::Isolated));
    if (type == "CharDelimiterSplit") {
      const std::string_view delimiter = textOf(v, "delimiter");
      return delimiter.empty() ? refuse(v, "a CharDelimiterSplit without its delimiter")
                               : add(cutAt(eachText(delimiter), Behavior::Removed));
    }
    if (type == "FixedLength") return fixedLength(v);
    return refuse(v, fmt::format("the pre_tokenizer {}", jsonQuote(abbreviate(type, 100))));
  }

 private:
  bool refuse(const Value& at, std::string what) {
    why_ = {at, std::move(what)};
    return false;
  }
  bool add(PreTokenizer step) {
    out_.steps.push_back(std::move(step));
    return true;
  }
  static std::string_view textOf(const Value& v, std::string_view name) {
    const Value text = v.find(name);
    return text && text.is(Kind::String) ? text.text() : "";
  }
  bool flag(const Value& v, std::string_view name, bool& value) {
    const Value given = v.find(name);
    if (!given.present()) return true;
    if (!given.is(Kind::Bool)) return refuse(given, fmt::format("{} as {}", given.kindText(), name));
    value = given.truth();
    return true;
  }

  bool sequence(const Value& v) {
    for (Value p = v.find("pretokenizers").first(); p; p = p.next())
      if (!read(p)) return false;
    return true;
  }

  bool byteLevel(const Value& v) {
    bool cuts = true, prepends = true;
    if (!flag(v, "use_regex", cuts) || !flag(v, "add_prefix_space", prepends)) return false;
    constexpr double kPrepended = 2, kInAlphabet = 2;
    out_.growth *= prepends ? kPrepended * kInAlphabet : kInAlphabet;
    if (prepends)
      add([](Pieces& pieces) {
        pieces.change([](const Piece& piece, std::string& text) {
          if (!piece.text.starts_with(' ')) text += ' ';
          text += piece.text;
        });
      });
    if (cuts) add(cutAt(eachPiece(SplitRule::Gpt2), Behavior::Isolated));
    out_.makesBytes = true;
    return add([](Pieces& pieces) {
      pieces.change([](const Piece& piece, std::string& text) { appendInAlphabet(piece.text, text); });
    });
  }

  bool metaspace(const Value& v) {
    const Value given = v.find("replacement"), scheme = v.find("prepend_scheme");
    bool cuts = true, prepends = true;  // add_prefix_space: of older files
    if (!flag(v, "split", cuts) || !flag(v, "add_prefix_space", prepends)) return false;
    const std::string mark(given.present() ? textOf(v, "replacement") : kSpaceMark);
    if (mark.empty()) return refuse(given, "this replacement of spaces");
    const std::string_view name = scheme.present() ? textOf(v, "prepend_scheme") : prepends ? "always" : "never";
    if (name != "always" && name != "first" && name != "never") return refuse(scheme, "this prepend_scheme");
    out_.growth *= 1 + static_cast<double>(mark.size());
    add([mark, isAlways = name == "always", isNever = name == "never"](Pieces& pieces) {
      pieces.change([&](const Piece& piece, std::string& text) {
        const bool isMarked = piece.text.starts_with(' ') || piece.text.starts_with(mark);
        if (!isNever && (isAlways || piece.isFirst) && !isMarked) text += mark;
        text += replaced(piece.text, " ", mark);
      });
    });
    return !cuts || add(cutAt(eachText(mark), Behavior::MergedWithNext));
  }

  bool split(const Value& v) {
    const Value pattern = v.find("pattern"), literal = pattern.find("String"), regex = pattern.find("Regex");
    const auto behavior = behaviorOf(textOf(v, "behavior"));
    bool isInverted = false;
    if (!flag(v, "invert", isInverted)) return false;
    if (!behavior) return refuse(v, "a Split of this behavior");
    if (const std::string_view text = textOf(pattern, "String"); !text.empty())
      return add(cutAt(eachText(text), *behavior, isInverted));
    const std::string_view text = textOf(pattern, "Regex");
    if (const std::optional<SplitRule> rule = splitRuleOf(text))
      return add(cutAt(eachPiece(*rule), *behavior, isInverted));
    const std::optional<SplitPattern> parsed = text.empty() ? std::nullopt : SplitPattern::parse(text);
    if (!parsed || parsed->mayBeEmpty())
      return refuse(regex ? regex : literal ? literal : v, "splitting by this pattern");
    return add(cutAt(eachMatch(*parsed), *behavior, isInverted));
  }

  bool fixedLength(const Value& v) {
    const std::optional<int64_t> length = v.find("length").integer();
    if (!length || *length < 1) return refuse(v, "a FixedLength without its length");
    return add([=](Pieces& pieces) {
      pieces.cut([&](std::string_view piece, Pieces::Parts& parts) {
        int64_t count = 0;
        for (size_t at = 0, begin = 0; at < piece.size();) {
          at += characterAt(piece, at).bytes;
          if (++count % *length == 0 || at == piece.size())
            parts.push_back(piece.substr(begin, at - begin)), begin = at;
        }
      });
    });
  }

  PreTokenizers& out_;
  Unsupported& why_;
};

}  // namespace

void appendInAlphabet(std::string_view bytes, std::string& text) {
  static const std::array<std::string, 256> table = [] {
    std::array<std::string, 256> characters;
    uint32_t other = kOthers;
    for (unsigned b = 0; b < characters.size(); ++b) appendCharacter(printsAsItself(b) ? b : other++, characters[b]);
    return characters;
  }();
  for (const char b : bytes) text += table[static_cast<unsigned char>(b)];
}

bool bytesOfAlphabet(std::string_view text, std::string& bytes) {
  static const std::vector<int> table = [] {
    std::vector<int> byteOf(kOthers + 256, -1);
    size_t other = kOthers;
    for (int b = 0; b < 256; ++b)
      byteOf[printsAsItself(static_cast<unsigned>(b)) ? static_cast<size_t>(b) : other++] = b;
    return byteOf;
  }();
  for (size_t i = 0; i < text.size();) {
    Character c = characterAt(text, i);
    if (c.code >= table.size() || table[c.code] < 0) return false;
    bytes += static_cast<char>(table[c.code]);
    i += c.bytes;
  }
  return true;
}

Pieces::Pieces(std::string_view text, bool isFirst) {
  if (!text.empty()) list_.push_back({text, isFirst});
}

void Pieces::cut(const std::function<void(std::string_view, Parts&)>& cut) {
  std::vector<Piece> out;
  Parts parts;
  for (const Piece& piece : list_) {
    parts.clear();
    cut(piece.text, parts);
    for (const std::string_view part : parts)
      if (!part.empty()) out.push_back({part, piece.isFirst && part.data() == piece.text.data()});
  }
  list_ = std::move(out);
}

void Pieces::change(const std::function<void(const Piece&, std::string&)>& change) {
  std::string& text = made_.emplace_back();
  std::vector<size_t> ends;
  for (const Piece& piece : list_) {
    change(piece, text);
    ends.push_back(text.size());
  }
  for (size_t i = 0, begin = 0; i < ends.size(); begin = ends[i++])
    list_[i].text = std::string_view(text).substr(begin, ends[i] - begin);
}

bool readPreTokenizer(const JsonTree::Value& v, PreTokenizers& out, Unsupported& why) {
  return Reader(out, why).read(v);
}

PreTokenizers gpt2PreTokenizer() {
  PreTokenizers out;
  out.makesBytes = true;
  out.steps.push_back(cutAt(eachPiece(SplitRule::Gpt2), Behavior::Isolated));
  out.steps.push_back([](Pieces& pieces) {
    pieces.change([](const Piece& piece, std::string& text) { appendInAlphabet(piece.text, text); });
  });
  return out;
}

}  // namespace tscompile
