// Integers that depend on sizes: sums, products, floor quotients, least and greatest of symbols, kept in one canonical
// form, so that what is equal by the laws of arithmetic is the same number.
#pragma once

#include "ir/values/shape.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tscompile {

// Bounds, both included; INT64_MIN and INT64_MAX: none.
struct SizeRange {
  int64_t least = INT64_MIN, most = INT64_MAX;
  friend bool operator==(const SizeRange&, const SizeRange&) = default;
};

// An integer that is known, unknown, or an expression of symbols. It is one int64_t, as shape functions and types hold
// sizes and integers: expressions are interned, never freed, and few (beyond a bound the result is unknown). Sizes are
// taken to be so small that sums and products of them fit.
class SizeExpression {
 public:
  // A number, or what stands for an integer of an analysis (isUnknownInteger).
  SizeExpression(int64_t integer) : integer_(integer) {}  // NOLINT(google-explicit-constructor): arithmetic
  static SizeExpression ofSize(int64_t size) { return sizeAsInteger(size); }
  static SizeExpression unknown() { return kUnknownInteger; }

  // A symbol that texts may name: an identifier. Symbols with other ranges are others.
  static SizeExpression symbol(std::string_view name, SizeRange range = {0, INT64_MAX});
  // A symbol of one analysis, `place` of the value numbered `value`: texts do not tell it.
  static SizeExpression anonymous(uint32_t value, uint32_t place, SizeRange range);
  // Reads `2*N + 1`, `floordiv(N, 2)`, `min(N, 3)`, `max(…)`, `broadcast(…)`, also as sympy writes them
  // (`Mul(Integer(2), Symbol('N'))` by its srepr); nothing if it is malformed, too large, or a symbol is not known to
  // `symbolOf`.
  using SymbolOf = std::function<std::optional<SizeExpression>(std::string_view name)>;
  static std::optional<SizeExpression> parse(std::string_view text, const SymbolOf& symbolOf);

  int64_t integer() const { return integer_; }
  // The same as a size of a tensor, which is never negative.
  int64_t size() const { return integer_ < 0 && !isUnknownInteger(integer_) ? kUnknownSize : integerAsSize(integer_); }

  bool isUnknown() const { return integer_ == kUnknownInteger; }
  bool isNumber() const { return !isUnknownInteger(integer_); }
  // Whether all symbols have names, so that a text can tell it.
  bool isNamed() const;
  bool isSymbol() const;
  // What it may be, whatever its symbols are.
  SizeRange range() const;
  std::string text() const;
  // What it comes to; nothing if a symbol is not known, a divisor is 0, or it does not fit.
  using ValueOf = std::function<std::optional<int64_t>(SizeExpression symbol)>;
  std::optional<int64_t> evaluate(const ValueOf& valueOf) const;
  // The same expression of other symbols; those for which nothing is told stay.
  using Substitute = std::function<std::optional<SizeExpression>(SizeExpression symbol)>;
  SizeExpression replaced(const Substitute& by) const;

  friend SizeExpression operator+(SizeExpression a, SizeExpression b);
  friend SizeExpression operator-(SizeExpression a, SizeExpression b);
  friend SizeExpression operator*(SizeExpression a, SizeExpression b);
  // The quotient rounded down. Where the divisor may be 0 it holds for runs that do not divide by 0.
  friend SizeExpression floorDiv(SizeExpression a, SizeExpression b);
  friend SizeExpression least(SizeExpression a, SizeExpression b);
  friend SizeExpression greatest(SizeExpression a, SizeExpression b);
  // The size of two dimensions that are broadcast, where they can be: either is 1, or they are equal.
  friend SizeExpression broadcastOf(SizeExpression a, SizeExpression b);
  // The same object; whether the values are equal is a question to equal().
  friend bool operator==(SizeExpression a, SizeExpression b) = default;

  // Whether it holds for all values of the symbols (true), for none (false), or neither can be told.
  friend std::optional<bool> equal(SizeExpression a, SizeExpression b);
  friend std::optional<bool> atMost(SizeExpression a, SizeExpression b);

 private:
  int64_t integer_;
};

SizeExpression operator+(SizeExpression a, SizeExpression b);
SizeExpression operator-(SizeExpression a, SizeExpression b);
SizeExpression operator*(SizeExpression a, SizeExpression b);
SizeExpression floorDiv(SizeExpression a, SizeExpression b);
SizeExpression least(SizeExpression a, SizeExpression b);
SizeExpression greatest(SizeExpression a, SizeExpression b);
SizeExpression broadcastOf(SizeExpression a, SizeExpression b);
std::optional<bool> equal(SizeExpression a, SizeExpression b);
std::optional<bool> atMost(SizeExpression a, SizeExpression b);

inline SizeExpression ceilDiv(SizeExpression a, int64_t b) { return floorDiv(a + (b - 1), b); }
// The number of elements, as far as it is known.
SizeExpression elementCount(DimSpan sizes);
// Whether two sizes are the same in every run.
inline bool sameSize(int64_t a, int64_t b) { return a == b && a != kUnknownSize; }

}  // namespace tscompile
