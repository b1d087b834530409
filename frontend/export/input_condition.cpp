#include "frontend/export/input_condition.h"

#include "ir/support/floor_quotient.h"
#include "ir/support/number_of_text.h"

#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

namespace tscompile {
namespace {

constexpr size_t kMostText = size_t{1} << 16;
constexpr int kMostDepth = 64;
constexpr size_t kMostCompared = 8, kMostSources = 64;

using Number = InputCondition::Number;

double floatOf(Number n) {
  return std::holds_alternative<double>(n) ? std::get<double>(n) : static_cast<double>(std::get<int64_t>(n));
}
bool isTrue(Number n) { return floatOf(n) != 0; }

std::string literalOf(std::string_view text) {
  std::string out = "'";
  for (char c : text) {
    if (c == '\'' || c == '\\') out += '\\';
    out += c;
  }
  return out + "'";
}

// Numbers that doubles and integers hold alike.
std::optional<Number> integerOf(double whole) {
  if (!(std::abs(whole) < 0x1p62)) return std::nullopt;
  return static_cast<int64_t>(whole);
}

// base ** exponent, for an exponent of 0 and above.
std::optional<int64_t> integerPower(int64_t base, int64_t exponent) {
  int64_t all = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 && __builtin_mul_overflow(all, base, &all)) return std::nullopt;
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return all;
}

}  // namespace

// Python's grammar as far as conditions have it. A method appends the operations of what it read; false where it is
// malformed.
class ConditionReader {
 public:
  using Code = InputCondition::Code;
  ConditionReader(std::string_view text, const InputCondition::Resolve& resolve)
      : text_(text), rest_(text), resolve_(resolve) {}

  std::optional<InputCondition> read() {
    if (text_.size() > kMostText || !disjunction(0)) return std::nullopt;
    skip();
    if (!rest_.empty()) return std::nullopt;
    out_.pieces_.emplace_back(text_.substr(told_));
    return std::move(out_);
  }

 private:
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  static bool isLetter(char c) { return c == '_' || std::isalnum(static_cast<unsigned char>(c)); }
  bool takeWord(std::string_view word) {
    skip();
    if (!rest_.starts_with(word) || (rest_.size() > word.size() && isLetter(rest_[word.size()]))) return false;
    rest_.remove_prefix(word.size());
    return true;
  }
  std::string_view name() {
    skip();
    size_t n = 0;
    while (n < rest_.size() && (isLetter(rest_[n]) || (n && rest_[n] == '.'))) ++n;
    const std::string_view out = rest_.substr(0, n);
    rest_.remove_prefix(n);
    return out;
  }
  bool add(Code code) {
    out_.operations_.push_back({code, int64_t{0}, 0});
    return true;
  }
  bool add(Number number) {
    out_.operations_.push_back({Code::Number, number, 0});
    return true;
  }

  bool disjunction(int depth) {
    if (depth > kMostDepth || !conjunction(depth)) return false;
    while (takeWord("or"))
      if (!conjunction(depth) || !add(Code::Or)) return false;
    return true;
  }

  bool conjunction(int depth) {
    if (!negation(depth)) return false;
    while (takeWord("and"))
      if (!negation(depth) || !add(Code::And)) return false;
    return true;
  }

  bool negation(int depth) {
    if (depth > kMostDepth) return false;
    if (takeWord("not")) return negation(depth + 1) && add(Code::Not);
    return comparison(depth);
  }

  // `a < b < c` is `a < b and b < c`.
  bool comparison(int depth) {
    static constexpr std::pair<std::string_view, Code> kSigns[] = {{"<=", Code::AtMost}, {">=", Code::AtLeast},
                                                                   {"==", Code::Equal},  {"!=", Code::Unequal},
                                                                   {"<", Code::Less},    {">", Code::Greater}};
    if (!sum(depth)) return false;
    for (size_t compared = 1;; ++compared) {
      const auto* sign = std::ranges::find_if(kSigns, [&](const auto& s) { return take(s.first); });
      if (sign == std::end(kSigns)) return true;
      const size_t begin = out_.operations_.size();
      if (!sum(depth)) return false;
      // The middle one is computed twice.
      const std::vector<InputCondition::Operation> right(out_.operations_.begin() + static_cast<ptrdiff_t>(begin),
                                                         out_.operations_.end());
      add(sign->second);
      if (compared > 1) add(Code::And);
      skip();
      if (std::ranges::none_of(kSigns, [&](const auto& s) { return rest_.starts_with(s.first); })) return true;
      if (compared == kMostCompared) return false;
      out_.operations_.insert(out_.operations_.end(), right.begin(), right.end());
    }
  }

  bool sum(int depth) {
    if (!product(depth)) return false;
    while (true) {
      const bool plus = take("+");
      if (!plus && !take("-")) return true;
      if (!product(depth)) return false;
      add(plus ? Code::Add : Code::Subtract);
    }
  }

  bool product(int depth) {
    if (!factor(depth)) return false;
    while (true) {
      skip();
      if (rest_.starts_with("**")) return true;
      const Code code = take("//")  ? Code::FloorDivide
                        : take("/") ? Code::Divide
                        : take("%") ? Code::Remainder
                        : take("*") ? Code::Multiply
                                    : Code::Number;
      if (code == Code::Number) return true;
      if (!factor(depth)) return false;
      add(code);
    }
  }

  bool factor(int depth) {
    if (depth > kMostDepth) return false;
    if (take("-")) return factor(depth + 1) && add(Code::Negate);
    if (take("+")) return factor(depth + 1);
    if (!atom(depth)) return false;
    return !take("**") || (factor(depth + 1) && add(Code::Power));
  }

  bool atom(int depth) {
    skip();
    if (take("(")) return disjunction(depth + 1) && take(")");
    if (rest_.empty()) return false;
    if (std::isdigit(static_cast<unsigned char>(rest_[0])) || rest_[0] == '.') return number();
    const size_t begin = text_.size() - rest_.size();
    const std::string_view word = name();
    if (word == "L") return source(begin);
    if (word == "True" || word == "False") return add(Number(int64_t{word == "True"}));
    return take("(") && call(word, depth);
  }

  bool number() {
    const size_t n = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    const bool isFloat = n < rest_.size() && (rest_[n] == '.' || rest_[n] == 'e' || rest_[n] == 'E');
    const char *begin = rest_.data(), *end = begin + rest_.size();
    int64_t whole = 0;
    double value = 0;
    const auto [at, failure] = isFloat ? std::from_chars(begin, end, value) : std::from_chars(begin, begin + n, whole);
    if (failure != std::errc()) return false;
    rest_.remove_prefix(static_cast<size_t>(at - begin));
    return add(isFloat ? Number(value) : Number(whole));
  }

  bool call(std::string_view function, int depth) {
    if (const size_t dot = function.rfind('.'); dot != std::string_view::npos) {
      const std::string_view module = function.substr(0, dot);
      function.remove_prefix(dot + 1);
      if (module == "torch") {  // sym_max(), _sym_sqrt()
        const size_t symbolic = function.find("sym_");
        if (symbolic > 1) return false;
        function.remove_prefix(symbolic + 4);
      } else if (module != "math") {
        return false;
      }
    }
    size_t count = 0;
    const bool isLeast = function == "min", isGreatest = function == "max";
    do {
      if (!disjunction(depth + 1)) return false;
      if (++count > 1) {
        if (!isLeast && !isGreatest) return false;
        add(isLeast ? Code::Least : Code::Greatest);
      }
    } while (take(","));
    if (!take(")")) return false;
    if (isLeast || isGreatest) return count > 1;
    static constexpr std::pair<std::string_view, Code> kFunctions[] = {
        {"abs", Code::Absolute},   {"floor", Code::Floor},   {"ceil", Code::Ceiling},
        {"trunc", Code::Truncate}, {"round", Code::Round},   {"sqrt", Code::Root},
        {"int", Code::ToInt},      {"float", Code::ToFloat}, {"not", Code::Not}};
    const auto* known = std::ranges::find(kFunctions, function, [](const auto& f) { return f.first; });
    return known != std::end(kFunctions) && add(known->second);
  }

  // ['key'], [0] or .name; nothing if there is none.
  std::optional<std::string> step() {
    if (rest_.starts_with(".")) {
      rest_.remove_prefix(1);
      size_t n = 0;
      while (n < rest_.size() && isLetter(rest_[n])) ++n;
      std::string out(rest_.substr(0, n));
      rest_.remove_prefix(n);
      return out;
    }
    if (!take("[")) return std::nullopt;
    skip();
    std::string out;
    if (!rest_.empty() && (rest_[0] == '\'' || rest_[0] == '"')) {
      const char quote = rest_[0];
      rest_.remove_prefix(1);
      while (!rest_.empty() && rest_[0] != quote) {
        if (rest_[0] == '\\') rest_.remove_prefix(1);
        if (rest_.empty()) return std::nullopt;
        out += rest_[0];
        rest_.remove_prefix(1);
      }
      if (!take(std::string_view(&quote, 1))) return std::nullopt;
    } else {
      const size_t end = rest_.find(']');
      if (end == std::string_view::npos) return std::nullopt;
      out = rest_.substr(0, end);
      rest_.remove_prefix(end);
    }
    return take("]") ? std::optional(out) : std::nullopt;
  }

  bool source(size_t begin) {
    std::vector<std::string> place;
    InputCondition::Source::Kind kind = InputCondition::Source::Kind::Value;
    int dim = 0;
    while (!rest_.empty() && (rest_[0] == '[' || rest_[0] == '.')) {
      const bool isMember = rest_[0] == '.';
      std::optional<std::string> next = step();
      if (!next || place.size() > static_cast<size_t>(kMostDepth)) return false;
      if (!isMember || (*next != "size" && *next != "stride")) {
        place.push_back(std::move(*next));
        continue;
      }
      kind = *next == "size" ? InputCondition::Source::Kind::Size : InputCondition::Source::Kind::Stride;
      if (!take("()")) return false;
      const std::optional<std::string> index = step();
      if (!index || index->empty() || index->size() > 3) return false;
      dim = numberOfText<int>(*index).value_or(-1);
      if (dim < 0) return false;
      break;
    }
    std::optional<InputCondition::Source> found = place.empty() ? std::nullopt : resolve_(place);
    if (!found) return false;
    found->kind = kind;
    found->dim = dim;
    auto at = std::ranges::find(out_.sources_, *found);
    const auto index = static_cast<size_t>(at - out_.sources_.begin());
    if (index == kMostSources) return false;
    if (at == out_.sources_.end()) out_.sources_.push_back(std::move(*found));
    out_.pieces_.emplace_back(text_.substr(told_, begin - told_));
    out_.places_.push_back(index);
    told_ = text_.size() - rest_.size();
    out_.operations_.push_back({Code::Source, int64_t{0}, index});
    return true;
  }

  std::string_view text_, rest_;
  const InputCondition::Resolve& resolve_;
  size_t told_ = 0;  // of the text: what pieces and sources have
  InputCondition out_;
};

std::optional<InputCondition> InputCondition::parse(std::string_view text, const Resolve& resolve) {
  return ConditionReader(text, resolve).read();
}

std::optional<InputCondition> InputCondition::parse(std::string_view text) {
  return parse(text, [](std::span<const std::string> place) {
    Source s;
    s.input = place[0];
    s.path.assign(place.begin() + 1, place.end());
    return std::optional(std::move(s));
  });
}

std::string InputCondition::Source::text() const {
  std::string out = "%" + input;
  for (const std::string& step : path) out += "." + step;
  if (kind != Kind::Value) out += fmt::format(".{}({})", kind == Kind::Size ? "size" : "stride", dim);
  return out;
}

namespace {

// As Python has it.
std::string placeOf(const InputCondition::Source& s) {
  using Kind = InputCondition::Source::Kind;
  std::string out = "L[" + literalOf(s.input) + "]";
  for (const std::string& step : s.path) out += "[" + literalOf(step) + "]";
  if (s.kind != Kind::Value) out += fmt::format(".{}()[{}]", s.kind == Kind::Size ? "size" : "stride", s.dim);
  return out;
}

std::string numberText(Number n) {
  std::string text = std::holds_alternative<int64_t>(n) ? std::to_string(std::get<int64_t>(n))
                                                        : fmt::format("{}", std::get<double>(n));
  if (std::holds_alternative<double>(n) && text.find_first_of(".en") == std::string::npos) text += ".0";
  return text.starts_with('-') ? "(" + text + ")" : text;
}

}  // namespace

std::string InputCondition::text() const {
  std::string out;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    out += pieces_[i];
    if (i < places_.size()) out += placeOf(sources_[places_[i]]);
  }
  return out;
}

bool InputCondition::asksForStrides() const {
  return std::ranges::find(sources_, Source::Kind::Stride, &Source::kind) != sources_.end();
}

std::optional<InputCondition> InputCondition::knowing(
    const std::function<std::optional<Number>(const Source&)>& known) const {
  std::string out;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    out += pieces_[i];
    if (i == places_.size()) break;
    const Source& s = sources_[places_[i]];
    const std::optional<Number> number = known(s);
    out += number ? numberText(*number) : placeOf(s);
  }
  return parse(out);
}

std::string InputCondition::words() const {
  std::string out;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    out += pieces_[i];
    if (i < places_.size()) out += sources_[places_[i]].text();
  }
  return out;
}

std::optional<Number> InputCondition::applied(Code code, Number a, Number b) {
  const bool whole = std::holds_alternative<int64_t>(a) && std::holds_alternative<int64_t>(b);
  const double x = floatOf(a), y = floatOf(b);
  const int64_t m = whole ? std::get<int64_t>(a) : 0, n = whole ? std::get<int64_t>(b) : 0;
  int64_t value = 0;
  auto exact = [&](bool overflows) { return overflows ? std::nullopt : std::optional<Number>(value); };
  auto truth = [](bool value) { return std::optional<Number>(int64_t{value}); };
  switch (code) {
    case Code::Add:
      return whole ? exact(__builtin_add_overflow(m, n, &value)) : Number(x + y);
    case Code::Subtract:
      return whole ? exact(__builtin_sub_overflow(m, n, &value)) : Number(x - y);
    case Code::Multiply:
      return whole ? exact(__builtin_mul_overflow(m, n, &value)) : Number(x * y);
    case Code::Divide:
      return y == 0 ? std::nullopt : std::optional<Number>(x / y);
    case Code::FloorDivide:
      if (y == 0 || (whole && m == INT64_MIN && n == -1)) return std::nullopt;
      return whole ? Number(floorQuotient(m, n)) : Number(std::floor(x / y));
    case Code::Remainder:
      if (y == 0 || (whole && m == INT64_MIN && n == -1)) return std::nullopt;
      return whole ? Number(m - n * floorQuotient(m, n)) : Number(x - y * std::floor(x / y));
    case Code::Power:
      if (whole && n >= 0) {
        const std::optional<int64_t> power = integerPower(m, n);
        return power ? std::optional<Number>(*power) : std::nullopt;
      }
      return x == 0 && y < 0 ? std::nullopt : std::optional<Number>(std::pow(x, y));
    case Code::Less:
      return truth(whole ? m < n : x < y);
    case Code::AtMost:
      return truth(whole ? m <= n : x <= y);
    case Code::Greater:
      return truth(whole ? m > n : x > y);
    case Code::AtLeast:
      return truth(whole ? m >= n : x >= y);
    case Code::Equal:
      return truth(whole ? m == n : x == y);
    case Code::Unequal:
      return truth(whole ? m != n : x != y);
    case Code::Least:
      return (whole ? n < m : y < x) ? b : a;
    case Code::Greatest:
      return (whole ? n > m : y > x) ? b : a;
    case Code::And:
      return isTrue(a) ? b : a;
    case Code::Or:
      return isTrue(a) ? a : b;
    case Code::Not:
      return truth(!isTrue(a));
    case Code::Negate:
      return applied(Code::Subtract, int64_t{0}, a);
    case Code::Absolute:
      return x < 0 ? applied(Code::Negate, a, a) : a;
    case Code::Floor:
      return whole ? a : integerOf(std::floor(x));
    case Code::Ceiling:
      return whole ? a : integerOf(std::ceil(x));
    case Code::Truncate:
    case Code::ToInt:
      return whole ? a : integerOf(std::trunc(x));
    case Code::Round:
      return whole ? a : integerOf(std::nearbyint(x));
    case Code::Root:
      return x < 0 ? std::nullopt : std::optional<Number>(std::sqrt(x));
    case Code::ToFloat:
      return x;
    case Code::Number:
    case Code::Source:
      break;
  }
  return std::nullopt;
}

bool InputCondition::takesTwo(Code code) {
  switch (code) {
    case Code::Negate:
    case Code::Not:
    case Code::Absolute:
    case Code::Floor:
    case Code::Ceiling:
    case Code::Truncate:
    case Code::Round:
    case Code::Root:
    case Code::ToInt:
    case Code::ToFloat:
      return false;
    default:
      return true;
  }
}

std::optional<bool> InputCondition::holds(std::span<const std::optional<Number>> values) const {
  std::vector<std::optional<Number>> stack;
  for (const Operation& o : operations_) {
    if (o.code == Code::Number) {
      stack.emplace_back(o.number);
    } else if (o.code == Code::Source) {
      stack.push_back(o.source < values.size() ? values[o.source] : std::nullopt);
    } else {
      std::optional<Number> b = stack.back();
      if (takesTwo(o.code)) stack.pop_back();
      std::optional<Number>& a = stack.back();
      // What is not needed is not computed: `x != 0 and y / x > 1`.
      const bool isDecided = a && ((o.code == Code::And && !isTrue(*a)) || (o.code == Code::Or && isTrue(*a)));
      if (!isDecided) a = a && b ? applied(o.code, *a, *b) : std::nullopt;
    }
  }
  return stack.back() ? std::optional(isTrue(*stack.back())) : std::nullopt;
}

namespace {

// An expression over a whole number above 0.
struct Fraction {
  SizeExpression top = SizeExpression::unknown();
  int64_t bottom = 1;
};

constexpr int64_t kMostBottom = int64_t{1} << 20;

Fraction fractionOf(Number n) {
  if (std::holds_alternative<int64_t>(n)) return {std::get<int64_t>(n), 1};
  const double value = std::get<double>(n);
  for (int64_t bottom = 1; bottom <= kMostBottom; bottom *= 2)
    if (const double top = value * static_cast<double>(bottom); std::abs(top) < 0x1p40 && top == std::floor(top))
      return {static_cast<int64_t>(top), bottom};
  return {};
}

bool isPlain(const Fraction& f) { return !f.top.isUnknown() && f.bottom == 1; }

// The symbol in `k * symbol + c`.
struct Linear {
  SizeExpression symbol;
  int64_t k, c;
};
std::optional<Linear> linearOf(SizeExpression e) {
  std::optional<SizeExpression> symbol;
  bool isOne = true;
  e.replaced([&](SizeExpression s) {
    isOne &= !symbol || *symbol == s;
    symbol = s;
    return std::optional<SizeExpression>();
  });
  if (!symbol || !isOne || !symbol->isSymbol()) return std::nullopt;
  auto at = [&](int64_t value) { return e.evaluate([&](SizeExpression) { return std::optional(value); }); };
  const std::optional<int64_t> zero = at(0), one = at(1);
  if (!zero || !one || *zero == *one) return std::nullopt;
  const int64_t k = *one - *zero;
  if (e - SizeExpression(k) * *symbol - *zero != SizeExpression(0)) return std::nullopt;
  return Linear{*symbol, k, *zero};
}

constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

// What a comparison of two numbers says. Code is InputCondition::Code, which is its own.
template <class Code>
InputCondition::Meaning compared(Code code, const Fraction& a, const Fraction& b) {
  InputCondition::Meaning out;
  if (a.top.isUnknown() || b.top.isUnknown()) return out;
  // It holds where the lesser is at most the greater, or equal to it.
  SizeExpression lesser = a.top * SizeExpression(b.bottom), greater = b.top * SizeExpression(a.bottom);
  if (code == Code::Greater || code == Code::AtLeast) std::swap(lesser, greater);
  if (code == Code::Less || code == Code::Greater) lesser = lesser + 1;
  if (code == Code::Unequal) {
    out.isCertain = equal(lesser, greater) == false;
    return out;
  }
  const bool isSame = code == Code::Equal;
  out.isCertain = (isSame ? equal(lesser, greater) : atMost(lesser, greater)) == true;
  const std::optional<Linear> linear = out.isCertain ? std::nullopt : linearOf(lesser - greater);
  if (!linear || (isSame && linear->c % linear->k != 0)) return out;
  out.symbol = linear->symbol;
  const auto [symbol, k, c] = *linear;
  if (isSame)
    out.range = {-c / k, -c / k};
  else
    out.range = k > 0 ? SizeRange{0, floorQuotient(-c, k)} : SizeRange{-floorQuotient(-c, -k), kNone};
  return out;
}

// What an operation makes of two numbers, or of the second alone.
template <class Code>
Fraction computed(Code code, const Fraction& a, const Fraction& b) {
  if (a.top.isUnknown() || b.top.isUnknown()) return {};
  const bool plain = isPlain(a) && isPlain(b);
  Fraction out;
  switch (code) {
    case Code::Add:
    case Code::Subtract:
      if (a.bottom > kMostBottom || b.bottom > kMostBottom) return {};
      out.top = a.top * SizeExpression(b.bottom);
      out.top =
          code == Code::Add ? out.top + b.top * SizeExpression(a.bottom) : out.top - b.top * SizeExpression(a.bottom);
      out.bottom = a.bottom * b.bottom;
      return out;
    case Code::Multiply:
      if (a.bottom > kMostBottom || b.bottom > kMostBottom) return {};
      return {a.top * b.top, a.bottom * b.bottom};
    case Code::Divide: {
      if (!b.top.isNumber() || b.top.integer() <= 0 || b.top.integer() > kMostBottom || a.bottom > kMostBottom)
        return {};
      return {a.top * SizeExpression(b.bottom), a.bottom * b.top.integer()};
    }
    case Code::FloorDivide:
      return plain ? Fraction{floorDiv(a.top, b.top), 1} : Fraction{};
    case Code::Remainder:
      return plain ? Fraction{a.top - b.top * floorDiv(a.top, b.top), 1} : Fraction{};
    case Code::Least:
      return plain ? Fraction{least(a.top, b.top), 1} : Fraction{};
    case Code::Greatest:
      return plain ? Fraction{greatest(a.top, b.top), 1} : Fraction{};
    case Code::Negate:
      return {SizeExpression(0) - a.top, a.bottom};
    case Code::ToFloat:
      return a;
    default:
      return {};
  }
}

}  // namespace

InputCondition::Meaning InputCondition::meaningOf(std::span<const SizeExpression> sizes) const {
  // Numbers, and truths as what is known of them.
  struct Item {
    Fraction number;
    std::optional<Meaning> truth;
  };
  std::vector<Item> stack;
  for (const Operation& o : operations_) {
    if (o.code == Code::Number) {
      stack.push_back({fractionOf(o.number), {}});
    } else if (o.code == Code::Source) {
      stack.push_back({{o.source < sizes.size() ? sizes[o.source] : SizeExpression::unknown(), 1}, {}});
    } else {
      Item b = stack.back();
      if (takesTwo(o.code)) stack.pop_back();
      Item& a = stack.back();
      const bool isComparison = o.code >= Code::Less && o.code <= Code::Unequal;
      if (isComparison) {
        a = {{}, compared(o.code, a.number, b.number)};
      } else if (o.code == Code::And || o.code == Code::Or || o.code == Code::Not) {
        const bool left = a.truth && a.truth->isCertain, right = b.truth && b.truth->isCertain;
        a = {{}, Meaning{o.code == Code::And ? left && right : o.code == Code::Or && (left || right), {}, {}}};
      } else {
        a = {computed(o.code, a.number, b.number), {}};
      }
    }
  }
  return stack.back().truth.value_or(Meaning{});
}

}  // namespace tscompile
