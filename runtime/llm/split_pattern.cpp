#include "runtime/llm/split_pattern.h"

#include "runtime/llm/text_split.h"

#include <algorithm>
#include <charconv>
#include <functional>
#include <utf8proc.h>

namespace tscompile {
namespace {

constexpr size_t kMostDepth = 32, kMostSteps = size_t{1} << 16, kStepsOfByte = 16;  // of an expression; of one match
constexpr uint32_t kMostTimes = 1000;
constexpr uint32_t kWithoutEnd = UINT32_MAX;

// \w of Oniguruma has no joiners; outside of brackets it has the fractions and powers of Latin-1.
bool isOfWordHere(const Character& c, bool isInBrackets) {
  const uint32_t code = c.code;
  const bool isLatinNumber =
      c.bytes == 2 && (code == 0xb2 || code == 0xb3 || code == 0xb9 || (code >= 0xbc && code <= 0xbe));
  return (isLatinNumber && !isInBrackets) || (isOfWord(c) && code != 0x200c && code != 0x200d);
}

uint32_t lowered(uint32_t code) { return code >= 'A' && code <= 'Z' ? code + 'a' - 'A' : code; }

}  // namespace

// A character of a class, a group of alternatives, or what is to follow or not.
struct SplitPattern::Node {
  enum class Kind : uint8_t { Class, Group, Ahead, NotAhead };
  struct Part {
    uint32_t first = 0, last = 0;
    std::string category = {};  // "L", "Lu", " " (\s), "w" (\w); else a range
    bool isOther = false;       // \S, \P{L}
  };
  Kind kind = Kind::Class;
  std::vector<Part> parts = {};
  bool isInBrackets = false, isNegated = false, anyCase = false;
  std::vector<Sequence> alternatives = {};
  uint32_t least = 1, most = 1;
  bool isPossessive = false;

  bool has(const Character& c) const {
    const auto code = static_cast<utf8proc_int32_t>(c.code);
    // A byte that is no character is of no class.
    const std::string_view own = c.bytes == 1 && c.code >= 0x80 ? "Cn" : utf8proc_category_string(code);
    const bool found = std::ranges::any_of(parts, [&](const Part& p) {
      if (p.category.empty())
        return (c.code >= p.first && c.code <= p.last) ||
               (anyCase && lowered(c.code) >= lowered(p.first) && lowered(c.code) <= lowered(p.last));
      const bool is = p.category == " "   ? c.kind == CharClass::Space
                      : p.category == "w" ? isOfWordHere(c, isInBrackets)
                                          : own.starts_with(p.category);
      return is != p.isOther;
    });
    return found != isNegated;
  }
};

class SplitPatternParser {
 public:
  using Node = SplitPattern::Node;
  explicit SplitPatternParser(std::string_view text) : text_(text) {}

  std::optional<SplitPattern::Node> run() {
    Node all{.kind = Node::Kind::Group};
    if (!alternatives(all) || at_ != text_.size()) return std::nullopt;
    return all;
  }

 private:
  bool takes(std::string_view what) {
    const bool isThere = text_.substr(at_).starts_with(what);
    if (isThere) at_ += what.size();
    return isThere;
  }
  bool isAtEnd() const { return at_ >= text_.size(); }

  bool alternatives(Node& group) {
    if (++depth_ > kMostDepth) return false;
    do {
      group.alternatives.emplace_back();
      while (!isAtEnd() && text_[at_] != '|' && text_[at_] != ')') {
        Node n;
        // Groups that come again are in no file, and could be nested without end.
        if (!atom(n) || !quantifier(n) || (n.kind != Node::Kind::Class && n.most != 1)) return false;
        group.alternatives.back().push_back(std::move(n));
      }
    } while (takes("|"));
    --depth_;
    return true;
  }

  bool atom(Node& n) {
    n.anyCase = anyCase_;
    if (takes("[")) return characters(n);
    if (takes("(")) {
      const bool before = anyCase_;
      n.kind = takes("?!") ? Node::Kind::NotAhead : takes("?=") ? Node::Kind::Ahead : Node::Kind::Group;
      if (n.kind == Node::Kind::Group && takes("?")) {
        anyCase_ = takes("i") || anyCase_;
        if (!takes(":")) return false;
      }
      const bool isWhole = alternatives(n) && takes(")");
      anyCase_ = before;
      return isWhole;
    }
    if (takes("$")) {  // nothing more of the line
      n.kind = Node::Kind::NotAhead;
      n.alternatives.push_back({Node{.parts = {{.first = '\n', .last = '\n'}}, .isNegated = true}});
      return true;
    }
    if (std::string_view("^*+?{}])").find(text_[at_]) != std::string_view::npos) return false;
    if (takes(".")) {
      n.isNegated = true;
      n.parts.push_back({.first = '\n', .last = '\n'});
      return true;
    }
    return part(n.parts.emplace_back());
  }

  // One character, \s, \p{L} and their like.
  bool part(Node::Part& p) {
    const Character c = characterAt(text_, at_);
    if (c.bytes == 0) return false;
    at_ += c.bytes;
    p.first = p.last = c.code;
    if (c.code != '\\') return true;
    const Character escaped = characterAt(text_, at_);
    if (escaped.bytes == 0) return false;
    at_ += escaped.bytes;
    switch (escaped.code) {
      case 's':
      case 'S':
        p.category = " ", p.isOther = escaped.code == 'S';
        return true;
      case 'w':
      case 'W':
        p.category = "w", p.isOther = escaped.code == 'W';
        return true;
      case 'd':
      case 'D':
        p.category = "Nd", p.isOther = escaped.code == 'D';
        return true;
      case 'p':
      case 'P': {
        const size_t end = text_.find('}', at_);
        if (!takes("{") || end == std::string_view::npos) return false;
        p.isOther = escaped.code == 'P';
        p.category = text_.substr(at_, end - at_);
        at_ = end + 1;
        constexpr std::string_view kMajor = "LMNPSZC";
        const bool isKnown =
            !p.category.empty() && p.category.size() <= 2 && kMajor.find(p.category[0]) != std::string_view::npos;
        return isKnown;
      }
      case 'n':
        p.first = p.last = '\n';
        return true;
      case 'r':
        p.first = p.last = '\r';
        return true;
      case 't':
        p.first = p.last = '\t';
        return true;
      case 'f':
        p.first = p.last = '\f';
        return true;
      case 'x':
      case 'u': {  // \x41, \x{1F600}, \u00e9
        const bool isOpen = escaped.code == 'x' && takes("{");
        const size_t end = isOpen ? text_.find('}', at_) : at_ + (escaped.code == 'x' ? 2 : 4);
        if (end > text_.size()) return false;
        const auto read = std::from_chars(text_.data() + at_, text_.data() + end, p.first, 16);
        if (read.ec != std::errc() || read.ptr != text_.data() + end) return false;
        at_ = end + (isOpen ? 1 : 0);
        p.last = p.first;
        return isOpen || escaped.code == 'u' || p.first < 0x80;
      }
      default:
        p.first = p.last = escaped.code;
        return escaped.code < 0x80 && asciiIsPunctuation(escaped.code);
    }
  }
  static bool asciiIsPunctuation(uint32_t c) {
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  }

  // [^a-z\s], and in one [..], whose characters are among its own.
  bool characters(Node& n, bool isInner = false) {
    if (isInner && takes("^")) return false;
    n.isInBrackets = true;
    n.isNegated = n.isNegated || takes("^");
    while (!isAtEnd() && text_[at_] != ']') {
      if (text_.substr(at_).starts_with("&&")) return false;
      if (takes("[")) {
        if (++depth_ > kMostDepth || !characters(n, true)) return false;
        --depth_;
        continue;
      }
      Node::Part& p = n.parts.emplace_back();
      if (!part(p)) return false;
      if (at_ + 1 >= text_.size() || text_[at_] != '-' || text_[at_ + 1] == ']') continue;
      ++at_;
      Node::Part last;
      if (!p.category.empty() || !part(last) || !last.category.empty() || last.first < p.first) return false;
      p.last = last.first;
    }
    return !n.parts.empty() && takes("]");
  }

  bool number(uint32_t& n) {
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    const auto read = std::from_chars(begin, end, n);
    at_ += static_cast<size_t>(read.ptr - begin);
    return read.ec == std::errc() && n <= kMostTimes;
  }

  bool quantifier(Node& n) {
    if (takes("?")) {
      n.least = 0;
    } else if (takes("*")) {
      n.least = 0, n.most = kWithoutEnd;
    } else if (takes("+")) {
      n.most = kWithoutEnd;
    } else if (takes("{")) {
      if (!number(n.least)) return false;
      n.most = n.least;
      if (takes(",")) {
        n.most = kWithoutEnd;
        if (!isAtEnd() && text_[at_] != '}' && !number(n.most)) return false;
      }
      if (!takes("}") || n.least > n.most) return false;
      if (n.least <= 1 && n.most > 0 && takes("+")) n.most = kWithoutEnd;  // some, again and again
      return isAtEnd() || std::string_view("?*+{").find(text_[at_]) == kNone;
    } else {
      return true;
    }
    n.isPossessive = takes("+");
    return isAtEnd() || std::string_view("?*{").find(text_[at_]) == kNone;
  }

  static constexpr size_t kNone = std::string_view::npos;
  std::string_view text_;
  size_t at_ = 0, depth_ = 0;
  bool anyCase_ = false;
};

namespace {

using Node = SplitPattern::Node;
using Then = std::function<bool(size_t)>;

// The first way to match, in the order of alternatives, with as many times of each as there can be.
class Match {
 public:
  explicit Match(std::string_view text) : text_(text), left_(kMostSteps + kStepsOfByte * text.size()) {}

  bool sequence(const std::vector<Node>& all, size_t i, size_t at, const Then& then) {
    if (left_-- == 0) return left_ = 0, false;
    if (i == all.size()) return then(at);
    const Node& n = all[i];
    auto rest = [&](size_t end) { return sequence(all, i + 1, end, then); };
    if (n.kind == Node::Kind::Ahead || n.kind == Node::Kind::NotAhead)
      return any(n, at, [](size_t) { return true; }) == (n.kind == Node::Kind::Ahead) && rest(at);
    if (n.kind == Node::Kind::Class) return characters(n, at, rest);
    if (!n.isPossessive) return any(n, at, rest) || (n.least == 0 && rest(at));
    size_t end = at;
    return (any(n, at, [&](size_t e) { return end = e, true; }) || n.least == 0) && rest(end);
  }

 private:
  bool any(const Node& group, size_t at, const Then& then) {
    return std::ranges::any_of(group.alternatives, [&](const auto& a) { return sequence(a, 0, at, then); });
  }

  bool characters(const Node& n, size_t at, const Then& then) {
    std::vector<size_t> ends{at};
    while (ends.size() <= n.most) {
      const Character c = characterAt(text_, ends.back());
      if (c.bytes == 0 || !n.has(c)) break;
      ends.push_back(ends.back() + c.bytes);
    }
    for (size_t count = ends.size(); count-- > n.least;) {
      if (then(ends[count])) return true;
      if (n.isPossessive) break;
    }
    return false;
  }

  std::string_view text_;
  size_t left_;  // steps
};

}  // namespace

std::optional<SplitPattern> SplitPattern::parse(std::string_view expression) {
  // A match may be nested as deep as the expression is long.
  constexpr size_t kMostBytes = 2048;
  std::optional<Node> all = expression.size() > kMostBytes ? std::nullopt : SplitPatternParser(expression).run();
  if (!all) return std::nullopt;
  SplitPattern out;
  out.all_ = std::make_shared<const Sequence>(Sequence{std::move(*all)});
  return out;
}

size_t SplitPattern::matchEnd(std::string_view text, size_t at) const {
  size_t end = at;
  return Match(text).sequence(*all_, 0, at, [&](size_t e) { return end = e, true; }) ? end : at;
}

bool SplitPattern::mayBeEmpty() const {
  const std::function<bool(const Sequence&)> isEmpty = [&](const Sequence& all) {
    return std::ranges::all_of(all, [&](const Node& n) {
      const bool isGroup = n.kind == Node::Kind::Group;
      return n.least == 0 || (isGroup ? std::ranges::any_of(n.alternatives, isEmpty) : n.kind != Node::Kind::Class);
    });
  };
  return isEmpty(*all_);
}

// What begins with any number of a class has no match in all of a run of these: all ends of the first were tried.
size_t SplitPattern::afterMiss(std::string_view text, size_t at) const {
  const std::vector<Sequence>& ways = all_->front().alternatives;
  const Node* first = ways.size() == 1 && !ways[0].empty() ? &ways[0][0] : nullptr;
  Character c = characterAt(text, at);
  const bool isInRun = first && first->kind == Node::Kind::Class && first->most == kWithoutEnd && first->has(c);
  do at += c.bytes;
  while (isInRun && (c = characterAt(text, at)).bytes > 0 && first->has(c));
  return at;
}

}  // namespace tscompile
