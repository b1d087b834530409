#include "ir/values/size_symbols.h"
#include "tests/support/choices.h"
#include "tests/support/property.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace tscompile {
namespace {

using test::Choices;
using test::forEachSeed;

const char* const kNames[] = {"N", "M", "K", "T"};

std::optional<SizeExpression> named(std::string_view name) {
  bool known = std::any_of(std::begin(kNames), std::end(kNames), [&](const char* n) { return name == n; });
  return known ? std::optional(SizeExpression::symbol(name)) : std::nullopt;
}
SizeExpression read(std::string_view text) {
  std::optional<SizeExpression> e = SizeExpression::parse(text, named);
  EXPECT_TRUE(e) << text;
  return e.value_or(SizeExpression::unknown());
}

// The values of N, M, K, T.
using Point = std::vector<int64_t>;
SizeExpression::ValueOf at(const Point& point) {
  return [&point](SizeExpression symbol) -> std::optional<int64_t> {
    for (size_t i = 0; i < std::size(kNames); ++i)
      if (symbol == SizeExpression::symbol(kNames[i])) return point[i];
    return std::nullopt;
  };
}

// A random formula, as an expression and as what plain arithmetic makes of it at some points; nothing where it is not
// defined.
struct Formula {
  SizeExpression expression;
  std::vector<std::optional<int64_t>> values;
};

int64_t floorOf(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

std::optional<int64_t> compute(int op, int64_t a, int64_t b) {
  switch (op) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return b > 0 ? std::optional(floorOf(a, b)) : std::nullopt;
    case 4:
      return std::min(a, b);
    case 5:
      return std::max(a, b);
    default:
      return a == 1 ? std::optional(b) : b == 1 || a == b ? std::optional(a) : std::nullopt;
  }
}
SizeExpression build(int op, SizeExpression a, SizeExpression b) {
  switch (op) {
    case 0:
      return a + b;
    case 1:
      return a - b;
    case 2:
      return a * b;
    case 3:
      return floorDiv(a, b);
    case 4:
      return least(a, b);
    case 5:
      return greatest(a, b);
    default:
      return broadcastOf(a, b);
  }
}

Formula randomFormula(Choices& choices, const std::vector<Point>& points, int depth) {
  if (depth == 0 || choices.oneIn(5)) {
    Formula leaf{SizeExpression::unknown(), {}};
    size_t which = choices.below(7);
    int64_t number = static_cast<int64_t>(choices.below(9)) - 3;
    leaf.expression = which < 4 ? SizeExpression::symbol(kNames[which]) : SizeExpression(number);
    for (const Point& p : points) leaf.values.emplace_back(which < 4 ? p[which] : number);
    return leaf;
  }
  int op = static_cast<int>(choices.below(7));
  Formula a = randomFormula(choices, points, depth - 1), b = randomFormula(choices, points, depth - 1);
  Formula all{build(op, a.expression, b.expression), {}};
  for (size_t i = 0; i < points.size(); ++i)
    all.values.push_back(a.values[i] && b.values[i] ? compute(op, *a.values[i], *b.values[i]) : std::nullopt);
  return all;
}

std::vector<Point> randomPoints(Choices& choices) {
  std::vector<Point> points(12);
  for (Point& p : points)
    for (size_t i = 0; i < std::size(kNames); ++i) p.push_back(static_cast<int64_t>(choices.below(8)));
  return points;
}

TEST(SizeExpression, CanonicalFormsComeToTheSame) {
  forEachSeed(3000, [](uint64_t seed) {
    Choices choices(seed);
    std::vector<Point> points = randomPoints(choices);
    Formula f = randomFormula(choices, points, 4);
    if (f.expression.isUnknown()) return;
    SizeRange range = f.expression.range();
    for (size_t i = 0; i < points.size(); ++i) {
      if (!f.values[i]) continue;
      EXPECT_EQ(f.expression.evaluate(at(points[i])), f.values[i]) << f.expression.text();
      EXPECT_LE(range.least, *f.values[i]) << f.expression.text();
      EXPECT_GE(range.most, *f.values[i]) << f.expression.text();
    }
  });
}

TEST(SizeExpression, DecisionsHoldEverywhere) {
  forEachSeed(3000, [](uint64_t seed) {
    Choices choices(seed);
    std::vector<Point> points = randomPoints(choices);
    Formula a = randomFormula(choices, points, 3), b = randomFormula(choices, points, 3);
    std::optional<bool> isEqual = equal(a.expression, b.expression), isAtMost = atMost(a.expression, b.expression);
    for (size_t i = 0; i < points.size(); ++i) {
      if (!a.values[i] || !b.values[i]) continue;
      std::string where = a.expression.text() + " and " + b.expression.text();
      EXPECT_EQ(isEqual.value_or(*a.values[i] == *b.values[i]), *a.values[i] == *b.values[i]) << where;
      EXPECT_EQ(isAtMost.value_or(*a.values[i] <= *b.values[i]), *a.values[i] <= *b.values[i]) << where;
    }
  });
}

TEST(SizeExpression, TextIsReadAgain) {
  forEachSeed(1000, [](uint64_t seed) {
    Choices choices(seed);
    Formula f = randomFormula(choices, {}, 4);
    if (f.expression.isUnknown()) return;
    EXPECT_EQ(read(f.expression.text()), f.expression) << f.expression.text();
  });
}

TEST(SizeExpression, SymbolsAreReplaced) {
  forEachSeed(1000, [](uint64_t seed) {
    Choices choices(seed);
    std::vector<Point> points = randomPoints(choices);
    Formula f = randomFormula(choices, points, 3);
    for (size_t i = 0; i < points.size(); ++i) {
      auto value = at(points[i]);
      SizeExpression number = f.expression.replaced([&](SizeExpression s) {
        std::optional<int64_t> v = value(s);
        return v ? std::optional(SizeExpression(*v)) : std::nullopt;
      });
      if (!f.values[i] || !number.isNumber()) continue;
      EXPECT_EQ(number.integer(), *f.values[i]) << f.expression.text();
    }
  });
}

TEST(SizeExpression, EqualByTheLawsOfArithmetic) {
  const char* equalPairs[][2] = {
      {"N + M", "M + N"},
      {"(N + 1) * (N - 1)", "N*N - 1"},
      {"(4*N + 6) // 2", "2*N + 3"},
      {"((N - 1) // 2 + 1 - 1) // 2 + 1", "(N - 1) // 4 + 1"},
      {"(N*M*8) // (M*2)", "4*N"},
      {"min(N, min(M, N))", "min(M, N)"},
      {"min(N, N + 3)", "N"},
      {"max(N - 1, 0 - 1)", "N - 1"},
      {"Mod(N, 2) + 2*(N // 2)", "N"},
      {"N % 1", "0"},
      {"broadcast(N, 1, N)", "N"},
      {"broadcast(N, N + 2)", "N + 2"},
      {"FloorDiv(N, 2)", "floordiv(N, 2)"},
      {"Add(Mul(Integer(4), Symbol('N', positive=True, integer=True)), Integer(-1))", "4*N - 1"},
      {"N**2", "N*N"},
      {"-N + 2*N", "N"},
  };
  for (const auto& [a, b] : equalPairs) EXPECT_EQ(read(a), read(b)) << a << ": " << read(a).text();
}

TEST(SizeSymbols, FollowFromWhatIsMadeOfThem) {
  const SizeExpression n = SizeExpression::symbol("N"), m = SizeExpression::symbol("M");
  const Dims told{(4 * n + 1).size(), (n * m).size()};
  SizeSymbols symbols;
  symbols.bind(told, Dims{13, 6});
  EXPECT_EQ(symbols.valueOf(n), 3);
  EXPECT_EQ(symbols.valueOf(m), 2);
  EXPECT_EQ(symbols.firstOther(told, Dims{13, 6}), std::nullopt);
  SizeSymbols others;
  others.bind(told, Dims{14, 6});
  EXPECT_EQ(others.firstOther(told, Dims{14, 6}), 0u);
  // A size that is told by itself goes before.
  SizeSymbols known;
  known.bind(Dims{(2 * n).size(), n.size()}, Dims{6, 4});
  EXPECT_EQ(known.firstOther(Dims{(2 * n).size(), n.size()}, Dims{6, 4}), 0u);
}

TEST(SizeExpression, DecidesByBounds) {
  SizeExpression n = SizeExpression::symbol("N", {1, 8}), m = SizeExpression::symbol("M");
  EXPECT_EQ(atMost(n, 8), true);
  EXPECT_EQ(atMost(n, 0), false);
  EXPECT_EQ(atMost(n, 4), std::nullopt);
  EXPECT_EQ(equal(n + m, m), false);
  EXPECT_EQ(equal(n, m), std::nullopt);
  EXPECT_EQ(atMost(least(m, 3), m), true);
  EXPECT_EQ(atMost(m, greatest(m, n)), true);
  EXPECT_EQ(SizeExpression::symbol("N", {4, 4}), SizeExpression(4));
  SizeExpression any = SizeExpression::anonymous(0, 0, {});
  EXPECT_EQ(atMost(any, any + 1), std::nullopt);  // sums of any integers may wrap around
  EXPECT_EQ(equal(any, any + 1), false);
}

TEST(SizeExpression, TextsThatAreNone) {
  std::string deep(100000, '('), wide = "N";
  for (int i = 0; i < 100; ++i) wide += "*M//" + std::to_string(i + 2) + "+K*" + std::to_string(i);
  for (const std::string& text : {std::string(), std::string("N +"), std::string("N M"), std::string("(N"),
                                  std::string("f(N, M)"), std::string("N**99"), std::string("X"), std::string("N/2"),
                                  std::string("99999999999999999999"), std::string("min()"), deep})
    EXPECT_FALSE(SizeExpression::parse(text, named)) << text.substr(0, 40);
  SizeExpression::parse(wide, named);  // ends
}

TEST(SizeExpression, StaysSmall) {
  SizeExpression n = SizeExpression::symbol("N"), all(1);
  for (int i = 0; i < 100000; ++i) all = floorDiv(all * n + i, n + i % 7);
  EXPECT_TRUE(all.isUnknown() || all.text().size() < 4096);
  std::optional<int64_t> none = SizeExpression::unknown().evaluate([](SizeExpression) { return 1; });
  EXPECT_FALSE(none);
}

}  // namespace
}  // namespace tscompile
