#include "ir/values/size_expression.h"

#include "ir/support/check.h"
#include "ir/support/floor_quotient.h"
#include "ir/support/text.h"
#include "ir/values/size_symbols.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <memory>
#include <mutex>
#include <numeric>
#include <unordered_map>
#include <vector>

namespace tscompile {
namespace {

// Bounds of one expression. They keep every walk over it short.
constexpr size_t kMostTerms = 16, kMostFactors = 8, kMostOperands = 8;
constexpr uint32_t kMostWeight = 64;

// A product of atoms (symbols, quotients, least ...) with a number.
struct Term {
  int64_t factor = 0;
  SmallVector<int64_t, 4> atoms;  // sorted by their keys; none: a constant
};
using Terms = std::vector<Term>;

enum class Kind : uint8_t { Symbol, Sum, Quotient, Least, Greatest, Broadcast };

struct Entry {
  Kind kind = Kind::Symbol;
  std::string key = {};  // what it is; decides equality and order
  std::string name = {};
  bool isNamed = true;
  uint32_t weight = 1;
  SizeRange range = {};
  Terms terms = {};                    // of a sum
  std::vector<int64_t> operands = {};  // of the others: integers of analyses
};

// SS(-1) and its like are symbols without an entry.
constexpr uint64_t kFirstEntry = uint64_t{1} << 31;
uint64_t placeOf(int64_t integer) { return static_cast<uint64_t>(integer) - static_cast<uint64_t>(INT64_MIN); }
bool isNumber(int64_t v) { return !isUnknownInteger(v); }

// All expressions of the process. Reading takes no lock: entries stay where they are.
class Table {
 public:
  const Entry* entryOf(int64_t integer) const {
    uint64_t place = placeOf(integer);
    if (place < kFirstEntry || isNumber(integer)) return nullptr;
    place -= kFirstEntry;
    if (place >= count_.load(std::memory_order_acquire)) return nullptr;
    return &chunks_[place / kChunk].load(std::memory_order_acquire)[place % kChunk];
  }

  int64_t intern(Entry&& e) {
    std::lock_guard lock(mutex_);
    auto known = places_.find(e.key);
    if (known != places_.end()) return integerAt(known->second);
    size_t place = count_.load(std::memory_order_relaxed);
    if (place == kChunk * kChunks) return kUnknownInteger;
    if (place % kChunk == 0) {
      owned_.push_back(std::make_unique<Entry[]>(kChunk));
      chunks_[place / kChunk].store(owned_.back().get(), std::memory_order_release);
    }
    Entry& kept = owned_.back()[place % kChunk];
    kept = std::move(e);
    places_.emplace(kept.key, static_cast<uint32_t>(place));
    count_.store(place + 1, std::memory_order_release);
    return integerAt(place);
  }

  static Table& get() {
    static Table* table = new Table;  // never freed: types hold places in it
    return *table;
  }

 private:
  static int64_t integerAt(size_t place) {
    return INT64_MIN + static_cast<int64_t>(kFirstEntry) + static_cast<int64_t>(place);
  }
  static constexpr size_t kChunk = 1024, kChunks = 256;
  std::mutex mutex_;
  std::array<std::atomic<Entry*>, kChunks> chunks_{};
  std::vector<std::unique_ptr<Entry[]>> owned_;
  std::unordered_map<std::string_view, uint32_t> places_;
  std::atomic<size_t> count_{0};
};

const Entry* entryOf(int64_t v) { return Table::get().entryOf(v); }

std::string symbolText(int64_t v) { return fmt::format("SS(-{})", placeOf(v)); }
std::string keyOf(int64_t v) {
  if (isNumber(v)) return std::to_string(v);
  const Entry* e = entryOf(v);
  return e ? e->key : symbolText(v);
}
uint32_t weightOf(int64_t v) {
  const Entry* e = entryOf(v);
  return e ? e->weight : 1;
}
bool namedOf(int64_t v) {
  const Entry* e = entryOf(v);
  return !e || e->isNamed;
}
SizeRange rangeOf(int64_t v) {
  if (isNumber(v)) return {v, v};
  if (v == kUnknownInteger) return {};
  const Entry* e = entryOf(v);
  return e ? e->range : SizeRange{0, INT64_MAX};
}
bool before(int64_t a, int64_t b) {
  if (a == b) return false;
  return keyOf(a) < keyOf(b);
}

// ---- bounds ----

bool isInfinite(int64_t bound) { return bound == INT64_MIN || bound == INT64_MAX; }

bool isOne(SizeRange r) { return r.least == r.most && !isInfinite(r.least); }

int64_t clampBound(__int128 v) {
  if (v <= INT64_MIN) return INT64_MIN;
  if (v >= INT64_MAX) return INT64_MAX;
  return static_cast<int64_t>(v);
}
// A bound that is infinite stays so.
int64_t addBounds(int64_t a, int64_t b) {
  if (isInfinite(a)) return a;
  if (isInfinite(b)) return b;
  return clampBound(static_cast<__int128>(a) + b);
}
int64_t multiplyBounds(int64_t a, int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (isInfinite(a) || isInfinite(b)) return (a < 0) == (b < 0) ? INT64_MAX : INT64_MIN;
  return clampBound(static_cast<__int128>(a) * b);
}
SizeRange add(SizeRange a, SizeRange b) {
  return {a.least == INT64_MIN || b.least == INT64_MIN ? INT64_MIN : addBounds(a.least, b.least),
          a.most == INT64_MAX || b.most == INT64_MAX ? INT64_MAX : addBounds(a.most, b.most)};
}
SizeRange multiply(SizeRange a, SizeRange b) {
  int64_t p[] = {multiplyBounds(a.least, b.least), multiplyBounds(a.least, b.most), multiplyBounds(a.most, b.least),
                 multiplyBounds(a.most, b.most)};
  return {*std::min_element(p, p + 4), *std::max_element(p, p + 4)};
}
int64_t floorOf(int64_t a, int64_t b) {  // b > 0
  int64_t q = a / b;
  return a % b < 0 ? q - 1 : q;
}
SizeRange divide(SizeRange a, SizeRange b) {
  if (b.least < 0) return {};
  b.least = std::max<int64_t>(b.least, 1);
  if (b.most < 1) return {};
  auto quotient = [](int64_t x, int64_t y) {
    if (isInfinite(x)) return x;
    if (isInfinite(y)) return x < 0 ? int64_t{-1} : int64_t{0};
    return floorOf(x, y);
  };
  return {quotient(a.least, a.least < 0 ? b.least : b.most), quotient(a.most, a.most < 0 ? b.most : b.least)};
}

// ---- sums ----

int64_t made(int64_t number) { return isUnknownInteger(number) ? kUnknownInteger : number; }

Terms termsOf(int64_t v) {
  if (isNumber(v)) return v ? Terms{{v, {}}} : Terms{};
  const Entry* e = entryOf(v);
  if (e && e->kind == Kind::Sum) return e->terms;
  return {{1, {v}}};
}

std::string keyOf(const Term& t) {
  std::string key;
  for (int64_t a : t.atoms) {
    if (!key.empty()) key += '*';
    key += keyOf(a);
  }
  return key;
}

int64_t sumOf(Terms terms) {
  std::vector<std::pair<std::string, Term>> keyed;
  keyed.reserve(terms.size());
  for (Term& t : terms) keyed.emplace_back(keyOf(t), std::move(t));
  // More factors first, the constant last.
  std::stable_sort(keyed.begin(), keyed.end(), [](const auto& a, const auto& b) {
    size_t x = a.second.atoms.size(), y = b.second.atoms.size();
    return x != y ? x > y : a.first < b.first;
  });
  Entry e{.kind = Kind::Sum, .weight = 0, .range = {0, 0}};
  for (size_t i = 0; i < keyed.size();) {
    Term t = std::move(keyed[i].second);
    const std::string& key = keyed[i].first;
    for (++i; i < keyed.size() && keyed[i].first == key; ++i)
      if (__builtin_add_overflow(t.factor, keyed[i].second.factor, &t.factor)) return kUnknownInteger;
    if (t.factor == 0) continue;
    if (t.factor == INT64_MIN || t.atoms.size() > kMostFactors) return kUnknownInteger;
    e.key += fmt::format("+{}*{}", t.factor, key);
    SizeRange range{t.factor, t.factor};
    for (int64_t a : t.atoms) {
      range = multiply(range, rangeOf(a));
      e.isNamed &= namedOf(a);
      e.weight += weightOf(a);
    }
    e.range = add(e.range, range);
    e.terms.push_back(std::move(t));
  }
  if (e.terms.empty()) return 0;
  if (e.terms.size() == 1 && e.terms[0].atoms.empty()) return made(e.terms[0].factor);
  if (e.terms.size() == 1 && e.terms[0].factor == 1 && e.terms[0].atoms.size() == 1) return e.terms[0].atoms[0];
  e.weight += 1;
  if (e.terms.size() > kMostTerms || e.weight > kMostWeight) return kUnknownInteger;
  if (e.range.least == INT64_MAX || e.range.most == INT64_MIN) return kUnknownInteger;  // fits no integer
  return Table::get().intern(std::move(e));
}

std::optional<Term> productOf(const Term& a, const Term& b) {
  Term t;
  if (__builtin_mul_overflow(a.factor, b.factor, &t.factor)) return std::nullopt;
  t.atoms = a.atoms;
  t.atoms.append(b.atoms.begin(), b.atoms.end());
  std::sort(t.atoms.begin(), t.atoms.end(), before);
  return t;
}

// ---- the other kinds ----

constexpr std::string_view kKindNames[] = {"", "", "floordiv", "min", "max", "broadcast"};

int64_t call(Kind kind, std::vector<int64_t> operands, SizeRange range) {
  Entry e{.kind = kind, .range = range};
  e.key = kKindNames[static_cast<size_t>(kind)];
  e.key += '(';
  for (int64_t o : operands) {
    if (e.key.back() != '(') e.key += ',';
    e.key += keyOf(o);
    e.weight += weightOf(o);
    e.isNamed &= namedOf(o);
  }
  e.key += ')';
  if (operands.size() > kMostOperands || e.weight > kMostWeight) return kUnknownInteger;
  e.operands = std::move(operands);
  return Table::get().intern(std::move(e));
}

// Divides factors that all terms of both sides have by what they have in common.
void cancelAtoms(Terms& a, Terms& b) {
  if (b.empty() || b[0].atoms.empty() || a.empty()) return;
  SmallVector<int64_t, 4> candidates = b[0].atoms;
  for (int64_t atom : candidates) {
    auto in = [atom](const Term& t) { return std::find(t.atoms.begin(), t.atoms.end(), atom) != t.atoms.end(); };
    if (!std::all_of(a.begin(), a.end(), in) || !std::all_of(b.begin(), b.end(), in)) continue;
    for (Terms* terms : {&a, &b})
      for (Term& t : *terms)
        t.atoms.erase(static_cast<size_t>(std::find(t.atoms.begin(), t.atoms.end(), atom) - t.atoms.begin()));
  }
}

int64_t quotientByNumber(Terms terms, int64_t divisor);

// floor((floor(x / c) + k) / d) = floor((x + c * k) / (c * d)) for numbers c and d above 0.
std::optional<int64_t> nestedQuotient(const Terms& terms, int64_t divisor) {
  const Term* inner = nullptr;
  int64_t constant = 0;
  for (const Term& t : terms) {
    if (t.atoms.empty()) {
      constant = t.factor;
      continue;
    }
    const Entry* e = t.atoms.size() == 1 && t.factor == 1 && !inner ? entryOf(t.atoms[0]) : nullptr;
    if (!e || e->kind != Kind::Quotient || !isNumber(e->operands[1])) return std::nullopt;
    inner = &t;
  }
  if (!inner) return std::nullopt;
  const Entry* e = entryOf(inner->atoms[0]);
  int64_t c = e->operands[1], shift, all;
  if (c <= 0 || __builtin_mul_overflow(c, constant, &shift) || __builtin_mul_overflow(c, divisor, &all))
    return std::nullopt;
  int64_t sum = (SizeExpression(e->operands[0]) + shift).integer();
  if (sum == kUnknownInteger) return std::nullopt;
  return quotientByNumber(termsOf(sum), all);
}

// By a number above 0. What it divides goes in front: floor((d * q + r) / d) = q + floor(r / d).
int64_t quotientByNumber(Terms terms, int64_t divisor) {
  if (divisor == 1) return sumOf(std::move(terms));
  Terms whole, rest;
  int64_t common = divisor, constant = 0;
  for (const Term& t : terms) {
    int64_t q = t.atoms.empty() ? floorOf(t.factor, divisor) : t.factor / divisor, r = t.factor - q * divisor;
    if (q) whole.push_back({q, t.atoms});
    if (t.atoms.empty()) {
      constant = r;
    } else if (r) {
      common = std::gcd(common, r);
      rest.push_back({r, t.atoms});
    }
  }
  if (rest.empty()) return sumOf(std::move(whole));
  if (common > 1) {
    for (Term& t : rest) t.factor /= common;
    divisor /= common;
    constant = floorOf(constant, common);
  }
  if (constant) rest.push_back({constant, {}});
  if (divisor == 1) {
    whole.insert(whole.end(), rest.begin(), rest.end());
    return sumOf(std::move(whole));
  }
  if (std::optional<int64_t> nested = nestedQuotient(rest, divisor)) {
    return (SizeExpression(sumOf(std::move(whole))) + *nested).integer();
  }
  int64_t numerator = sumOf(std::move(rest));
  if (numerator == kUnknownInteger) return numerator;
  SizeRange range = divide(rangeOf(numerator), {divisor, divisor});
  int64_t quotient = isOne(range) ? range.least : call(Kind::Quotient, {numerator, divisor}, range);
  return (SizeExpression(sumOf(std::move(whole))) + quotient).integer();
}

// The bounds of a sum in which a least or greatest is seen as any of its operands.
SizeRange refined(int64_t sum, int depth) {
  SizeRange range = rangeOf(sum);
  const Entry* e = entryOf(sum);
  if (!e || e->kind != Kind::Sum || depth == 0) return range;
  for (const Term& t : e->terms) {
    const Entry* atom = t.atoms.size() == 1 ? entryOf(t.atoms[0]) : nullptr;
    if (!atom || (atom->kind != Kind::Least && atom->kind != Kind::Greatest)) continue;
    // least <= each operand, so -least >= -operand.
    bool bounded = (atom->kind == Kind::Least) == (t.factor < 0);
    for (int64_t o : atom->operands) {
      SizeExpression other = SizeExpression(sum) - SizeExpression(t.factor) * SizeExpression(t.atoms[0]) +
                             SizeExpression(t.factor) * SizeExpression(o);
      SizeRange r = refined(other.integer(), depth - 1);
      if (bounded)
        range.least = std::max(range.least, r.least);
      else
        range.most = std::min(range.most, r.most);
    }
  }
  return range;
}

// The operands of a least, greatest or broadcast, those of the same kind inside taken apart.
std::vector<int64_t> flattened(Kind kind, int64_t a, int64_t b) {
  std::vector<int64_t> all;
  for (int64_t v : {a, b}) {
    const Entry* e = entryOf(v);
    if (e && e->kind == kind)
      all.insert(all.end(), e->operands.begin(), e->operands.end());
    else
      all.push_back(v);
  }
  std::sort(all.begin(), all.end(), before);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

int64_t extreme(Kind kind, int64_t a, int64_t b) {
  if (a == kUnknownInteger || b == kUnknownInteger) return kUnknownInteger;
  std::vector<int64_t> all = flattened(kind, a, b), kept;
  auto beats = [kind](int64_t x, int64_t y) {  // y says nothing next to x
    return kind == Kind::Least ? atMost(x, y) == true : atMost(y, x) == true;
  };
  for (int64_t v : all) {
    if (std::any_of(kept.begin(), kept.end(), [&](int64_t k) { return beats(k, v); })) continue;
    std::erase_if(kept, [&](int64_t k) { return beats(v, k); });
    kept.push_back(v);
  }
  if (kept.size() == 1) return kept[0];
  SizeRange range = rangeOf(kept[0]);
  for (int64_t v : kept) {
    SizeRange r = rangeOf(v);
    range.least = kind == Kind::Least ? std::min(range.least, r.least) : std::max(range.least, r.least);
    range.most = kind == Kind::Least ? std::min(range.most, r.most) : std::max(range.most, r.most);
  }
  return call(kind, std::move(kept), range);
}

// ---- text ----

std::string textOf(int64_t v, bool withBounds);

std::string textOf(const Term& t, bool withBounds) {
  std::string out;
  if (t.atoms.empty() || (t.factor != 1 && t.factor != -1)) out = std::to_string(std::abs(t.factor));
  for (int64_t a : t.atoms) {
    if (!out.empty()) out += '*';
    out += textOf(a, withBounds);
  }
  return out;
}

std::string textOf(int64_t v, bool withBounds) {
  if (isNumber(v)) return std::to_string(v);
  if (v == kUnknownInteger) return "*";
  const Entry* e = entryOf(v);
  if (!e) return symbolText(v);
  if (e->kind == Kind::Symbol) {
    bool isBounded = withBounds && e->range != SizeRange{0, INT64_MAX};
    return isBounded ? fmt::format("{}[{}..{}]", e->name, e->range.least, e->range.most) : e->name;
  }
  std::string out;
  if (e->kind == Kind::Sum) {
    for (const Term& t : e->terms) {
      out += out.empty() ? t.factor < 0 ? "-" : "" : t.factor < 0 ? " - " : " + ";
      out += textOf(t, withBounds);
    }
    return out;
  }
  return fmt::format("{}({})", kKindNames[static_cast<size_t>(e->kind)],
                     join(e->operands, ", ", [=](int64_t o) { return textOf(o, withBounds); }));
}

// Arithmetic, as people and sympy write it.
class Reader {
 public:
  Reader(std::string_view text, const SizeExpression::SymbolOf& symbolOf) : rest_(text), symbolOf_(symbolOf) {}

  std::optional<SizeExpression> read() {
    std::optional<SizeExpression> all = sum(0);
    skip();
    if (!all || !rest_.empty() || all->isUnknown()) return std::nullopt;
    return all;
  }

 private:
  static constexpr int kMostDepth = 32;
  using Maybe = std::optional<SizeExpression>;

  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t')) rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    skip();
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }

  Maybe sum(int depth) {
    if (depth > kMostDepth) return std::nullopt;
    bool negative = take("-");
    Maybe all = product(depth);
    if (all && negative) all = SizeExpression(0) - *all;
    while (all) {
      bool plus = take("+");
      if (!plus && !take("-")) break;
      Maybe next = product(depth);
      all = next ? Maybe(plus ? *all + *next : *all - *next) : std::nullopt;
    }
    return all;
  }

  Maybe product(int depth) {
    Maybe all = power(depth);
    while (all) {
      bool quotient = take("//");
      bool remainder = !quotient && take("%");
      if (!quotient && !remainder && !take("*")) break;
      Maybe next = power(depth);
      if (!next) return std::nullopt;
      all = quotient ? floorDiv(*all, *next) : remainder ? *all - *next * floorDiv(*all, *next) : *all * *next;
    }
    return all;
  }

  Maybe power(int depth) {
    Maybe base = atom(depth);
    if (!base || !take("**")) return base;
    skip();
    Maybe exponent = number();
    if (!exponent || exponent->integer() > static_cast<int64_t>(kMostFactors)) return std::nullopt;
    SizeExpression all(1);
    for (int64_t i = 0; i < exponent->integer(); ++i) all = all * *base;
    return all;
  }

  Maybe number() {
    int64_t n = 0;
    auto [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), n);
    if (failure != std::errc() || end == rest_.data() || n < 0) return std::nullopt;
    rest_.remove_prefix(static_cast<size_t>(end - rest_.data()));
    return SizeExpression(n);
  }

  Maybe atom(int depth) {
    skip();
    if (take("(")) {
      Maybe inner = sum(depth + 1);
      return inner && take(")") ? inner : std::nullopt;
    }
    if (!rest_.empty() && rest_[0] >= '0' && rest_[0] <= '9') return number();
    auto isDigit = [](char c) { return c >= '0' && c <= '9'; };
    auto isLetter = [](char c) { return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z'); };
    size_t n = 0;
    while (n < rest_.size() && (isLetter(rest_[n]) || (n && isDigit(rest_[n])))) ++n;
    if (n == 0) return std::nullopt;
    std::string_view name = rest_.substr(0, n);
    rest_.remove_prefix(n);
    if (!take("(")) return take("[") ? bounded(name) : symbolOf_(name);
    return name == "Symbol" ? quoted() : function(name, depth);
  }

  // Symbol('s0', positive=True, integer=True)
  Maybe quoted() {
    if (!take("'")) return std::nullopt;
    const size_t end = rest_.find('\''), close = rest_.find(')');
    if (end == std::string_view::npos || close == std::string_view::npos || close < end) return std::nullopt;
    Maybe symbol = symbolOf_(rest_.substr(0, end));
    rest_.remove_prefix(close + 1);
    return symbol;
  }

  // NAME[1..8]
  Maybe bounded(std::string_view name) {
    Maybe least = number();
    if (!least || !take("..")) return std::nullopt;
    Maybe most = number();
    if (!most || !take("]") || most->integer() < least->integer()) return std::nullopt;
    return SizeExpression::symbol(name, {least->integer(), most->integer()});
  }

  Maybe function(std::string_view name, int depth) {
    std::vector<SizeExpression> operands;
    do {
      Maybe next = sum(depth + 1);
      if (!next || operands.size() == kMostOperands) return std::nullopt;
      operands.push_back(*next);
    } while (take(","));
    return take(")") ? sizeCall(name, operands) : std::nullopt;
  }

  std::string_view rest_;
  const SizeExpression::SymbolOf& symbolOf_;
};

int64_t symbolEntry(std::string key, std::string name, bool isNamed, SizeRange range) {
  if (isOne(range)) return range.least;
  Entry e{.kind = Kind::Symbol, .key = std::move(key), .name = std::move(name), .isNamed = isNamed, .range = range};
  return Table::get().intern(std::move(e));
}

std::string rangeKey(SizeRange r) {
  if (r == SizeRange{0, INT64_MAX}) return "";
  return fmt::format("{{{}..{}}}", r.least, r.most);
}

}  // namespace

SizeExpression SizeExpression::symbol(std::string_view name, SizeRange range) {
  return symbolEntry(std::string(name) + rangeKey(range), std::string(name), true, range);
}

SizeExpression SizeExpression::anonymous(uint32_t value, uint32_t place, SizeRange range) {
  std::string name = fmt::format("?{}.{}", value, place);
  return symbolEntry(name + rangeKey(range), name, false, range);
}

std::optional<SizeExpression> sizeCall(std::string_view name, std::span<const SizeExpression> operands) {
  if (operands.empty()) return std::nullopt;
  auto reduce = [&](SizeExpression (*f)(SizeExpression, SizeExpression)) {
    SizeExpression all = operands[0];
    for (SizeExpression o : operands.subspan(1)) all = f(all, o);
    return all;
  };
  if (name == "min" || name == "Min") return reduce(least);
  if (name == "max" || name == "Max") return reduce(greatest);
  if (name == "broadcast") return reduce(broadcastOf);
  if (name == "Add") return reduce([](SizeExpression a, SizeExpression b) { return a + b; });
  if (name == "Mul") return reduce([](SizeExpression a, SizeExpression b) { return a * b; });
  if (name == "Integer" && operands.size() == 1) return operands[0];
  if (operands.size() != 2) return std::nullopt;
  if (name == "floordiv" || name == "FloorDiv" || name == "CleanDiv") return floorDiv(operands[0], operands[1]);
  if (name == "Mod" || name == "PythonMod") return operands[0] - operands[1] * floorDiv(operands[0], operands[1]);
  return std::nullopt;
}

std::optional<SizeExpression> SizeExpression::parse(std::string_view text, const SymbolOf& symbolOf) {
  return Reader(text, symbolOf).read();
}

bool SizeExpression::isNamed() const { return !isUnknown() && namedOf(integer_); }

bool SizeExpression::isSymbol() const {
  if (isNumber() || isUnknown()) return false;
  const Entry* e = entryOf(integer_);
  return !e || e->kind == Kind::Symbol;
}

SizeRange SizeExpression::range() const { return rangeOf(integer_); }
std::string SizeExpression::text() const { return textOf(integer_, false); }
std::string boundedText(SizeExpression e) { return textOf(e.integer(), true); }

namespace {
std::optional<int64_t> applied(Kind kind, int64_t a, int64_t b) {
  switch (kind) {
    case Kind::Quotient:
      if (b == 0 || (a == INT64_MIN && b == -1)) return std::nullopt;
      return floorQuotient(a, b);
    case Kind::Least:
      return std::min(a, b);
    case Kind::Greatest:
      return std::max(a, b);
    default:
      return a == 1 ? b : a;
  }
}
SizeExpression applied(Kind kind, SizeExpression a, SizeExpression b) {
  switch (kind) {
    case Kind::Quotient:
      return floorDiv(a, b);
    case Kind::Least:
      return least(a, b);
    case Kind::Greatest:
      return greatest(a, b);
    default:
      return broadcastOf(a, b);
  }
}
}  // namespace

std::optional<int64_t> SizeExpression::evaluate(const ValueOf& valueOf) const {
  if (isNumber()) return integer_;
  if (isUnknown()) return std::nullopt;
  const Entry* e = entryOf(integer_);
  if (!e || e->kind == Kind::Symbol) return valueOf(*this);
  if (e->kind != Kind::Sum) {
    std::optional<int64_t> all = SizeExpression(e->operands[0]).evaluate(valueOf);
    for (size_t i = 1; all && i < e->operands.size(); ++i) {
      std::optional<int64_t> next = SizeExpression(e->operands[i]).evaluate(valueOf);
      all = next ? applied(e->kind, *all, *next) : std::nullopt;
    }
    return all;
  }
  int64_t sum = 0;
  for (const Term& t : e->terms) {
    int64_t product = t.factor;
    for (int64_t a : t.atoms) {
      std::optional<int64_t> v = SizeExpression(a).evaluate(valueOf);
      if (!v || __builtin_mul_overflow(product, *v, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

SizeExpression SizeExpression::replaced(const Substitute& by) const {
  if (isNumber() || isUnknown()) return *this;
  const Entry* e = entryOf(integer_);
  if (!e || e->kind == Kind::Symbol) return by(*this).value_or(*this);
  if (e->kind != Kind::Sum) {
    SizeExpression all = SizeExpression(e->operands[0]).replaced(by);
    for (size_t i = 1; i < e->operands.size(); ++i)
      all = applied(e->kind, all, SizeExpression(e->operands[i]).replaced(by));
    return all;
  }
  SizeExpression sum(0);
  for (const Term& t : e->terms) {
    SizeExpression product(t.factor);
    for (int64_t a : t.atoms) product = product * SizeExpression(a).replaced(by);
    sum = sum + product;
  }
  return sum;
}

SizeExpression operator+(SizeExpression a, SizeExpression b) {
  int64_t sum;
  if (a.isUnknown() || b.isUnknown()) return kUnknownInteger;
  if (a.isNumber() && b.isNumber())
    return __builtin_add_overflow(a.integer_, b.integer_, &sum) ? kUnknownInteger : made(sum);
  if (a == SizeExpression(0)) return b;
  if (b == SizeExpression(0)) return a;
  Terms terms = termsOf(a.integer_);
  for (Term& t : termsOf(b.integer_)) terms.push_back(std::move(t));
  return sumOf(std::move(terms));
}

SizeExpression operator-(SizeExpression a, SizeExpression b) { return a + b * SizeExpression(-1); }

SizeExpression operator*(SizeExpression a, SizeExpression b) {
  int64_t product;
  if (a == SizeExpression(0) || b == SizeExpression(0)) return 0;
  if (a.isUnknown() || b.isUnknown()) return kUnknownInteger;
  if (a.isNumber() && b.isNumber())
    return __builtin_mul_overflow(a.integer_, b.integer_, &product) ? kUnknownInteger : made(product);
  if (a == SizeExpression(1)) return b;
  if (b == SizeExpression(1)) return a;
  Terms left = termsOf(a.integer_), right = termsOf(b.integer_), terms;
  for (const Term& x : left)
    for (const Term& y : right) {
      std::optional<Term> t = productOf(x, y);
      if (!t) return kUnknownInteger;
      terms.push_back(std::move(*t));
    }
  return sumOf(std::move(terms));
}

SizeExpression floorDiv(SizeExpression a, SizeExpression b) {
  if (a.isUnknown() || b.isUnknown() || b == SizeExpression(0)) return kUnknownInteger;
  if (b.isNumber() && b.integer_ < 0) return kUnknownInteger;
  if (a == SizeExpression(0) || a == b) return a == SizeExpression(0) ? 0 : 1;
  Terms over = termsOf(a.integer_), under = termsOf(b.integer_);
  cancelAtoms(over, under);
  if (under.size() == 1 && under[0].atoms.empty())
    return under[0].factor > 0 ? quotientByNumber(std::move(over), under[0].factor) : kUnknownInteger;
  int64_t x = sumOf(std::move(over)), y = sumOf(std::move(under));
  if (x == kUnknownInteger || y == kUnknownInteger) return kUnknownInteger;
  SizeRange range = divide(rangeOf(x), rangeOf(y));
  return isOne(range) ? range.least : call(Kind::Quotient, {x, y}, range);
}

SizeExpression least(SizeExpression a, SizeExpression b) { return extreme(Kind::Least, a.integer_, b.integer_); }
SizeExpression greatest(SizeExpression a, SizeExpression b) { return extreme(Kind::Greatest, a.integer_, b.integer_); }

SizeExpression broadcastOf(SizeExpression a, SizeExpression b) {
  if (a == SizeExpression(1)) return b;
  if (b == SizeExpression(1) || (a == b && !a.isUnknown())) return a;
  // What is not 1 is the size, where they fit at all.
  auto decides = [](SizeExpression v) { return v.range().least > 1 || (v.isNumber() && v.integer_ == 0); };
  if (decides(a)) return a;
  if (decides(b)) return b;
  if (a.isUnknown() || b.isUnknown()) return kUnknownInteger;
  std::vector<int64_t> all = flattened(Kind::Broadcast, a.integer_, b.integer_);
  if (all.size() == 1) return all[0];
  SizeRange range = rangeOf(all[0]);
  for (int64_t v : all) {
    range.least = std::min(range.least, rangeOf(v).least);
    range.most = std::max(range.most, rangeOf(v).most);
  }
  return call(Kind::Broadcast, std::move(all), range);
}

std::optional<bool> equal(SizeExpression a, SizeExpression b) {
  if (a.isUnknown() || b.isUnknown()) return std::nullopt;
  if (a == b) return true;
  SizeExpression d = a - b;
  if (d.isNumber()) return d.integer_ == 0;
  SizeRange r = refined(d.integer_, 1);
  if (r.least > 0 || r.most < 0) return false;
  return std::nullopt;
}

std::optional<bool> atMost(SizeExpression a, SizeExpression b) {
  if (a.isUnknown() || b.isUnknown()) return std::nullopt;
  if (a == b) return true;
  // Integers that are no sizes may be so large that differences wrap around.
  auto mayWrap = [](SizeExpression v) { return v.range().least == INT64_MIN; };
  if (mayWrap(a) || mayWrap(b)) return std::nullopt;
  SizeRange r = refined((b - a).integer_, 1);
  if (r.least >= 0) return true;
  if (r.most < 0) return false;
  return std::nullopt;
}

SizeExpression elementCount(DimSpan sizes) {
  SizeExpression count(1);
  for (int64_t s : sizes) count = count * SizeExpression::ofSize(s);
  return count;
}

}  // namespace tscompile
