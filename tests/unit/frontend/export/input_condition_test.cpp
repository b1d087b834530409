#include "frontend/export/input_condition.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

std::optional<bool> holds(std::string_view text, std::vector<InputCondition::Number> values) {
  const std::optional<InputCondition> condition = InputCondition::parse(text);
  if (!condition) return std::nullopt;
  std::vector<std::optional<InputCondition::Number>> given(values.begin(), values.end());
  return condition->holds(given);
}

TEST(InputCondition, ComputesAsPython) {
  const char* x = "L['x'].size()[0]";
  const struct {
    std::string text;
    int64_t x;
    bool holds;
  } kCases[] = {
      {"%x / 16 <= 1.0", 16, true},
      {"%x / 16 <= 1.0", 17, false},
      {"(-%x) // 4 == -2", 5, true},
      {"(-%x) % 4 == 3", 5, true},
      {"2 ** 3 ** 2 - %x == 507", 5, true},
      {"-2 ** 2 == -4 and %x", 1, true},
      {"3 < %x <= 6 < 7", 6, true},
      {"3 < %x <= 6 < 7", 7, false},
      {"not %x == 3 or %x == 4", 3, false},
      {"%x == 0 or 6 / %x > 2", 0, true},
      {"max(2, %x, 7) - min(%x, 3) == 5", 2, true},
      {"math.ceil(%x / 4) == 2 and math.floor(%x / 4) == 1", 5, true},
      {"math.trunc(-%x / 2) == -2 and round(%x / 2) == 2", 5, true},
      {"math.sqrt(%x) == 3.0 and abs(3 - %x) == 6", 9, true},
      {"int(%x / 2) == 4 and float(%x) / 2 == 4.5", 9, true},
      {"%x*(%x + ((8 + (-1)*(%x % 8)) % 8)) == 40", 5, true},
      {"True != False and 1e1 == 10 and .5 < %x", 1, true},
  };
  for (const auto& c : kCases) {
    std::string text = c.text;
    for (size_t at = 0; (at = text.find("%x", at)) != std::string::npos;) text.replace(at, 2, x);
    EXPECT_EQ(holds(text, {c.x}), c.holds) << c.text;
  }
}

TEST(InputCondition, FunctionsOfTorchAreThoseOfNumbers) {
  EXPECT_EQ(holds("torch.sym_max(1, L['n']) == 4 and torch.sym_min(L['n'], 9) == 4", {int64_t{4}}), true);
  EXPECT_EQ(holds("torch.sym_not(torch.sym_int(torch.sym_float(L['n']) / 2) == 2)", {int64_t{5}}), false);
  EXPECT_FALSE(InputCondition::parse("torch.exp(L['n']) > 1"));
}

TEST(InputCondition, WherePythonRaisesNothingIsTold) {
  EXPECT_EQ(holds("1 // L['n'] > 0", {int64_t{0}}), std::nullopt);
  EXPECT_EQ(holds("L['n'] * L['n'] > 0", {int64_t{1} << 40}), std::nullopt);
}

TEST(InputCondition, RefusesWhatIsNone) {
  const std::string deep = std::string(10000, '(') + "1" + std::string(10000, ')');
  for (const std::string text : {"", "1 +", "L", "L['x", "L['x'].size()", "L['x'].size()[99999]", "f(1)", "math.exp(1)",
                                 "1 < ", "(1", "1 2", "L['x'] is None", "max(1)", "not", deep.c_str()})
    EXPECT_FALSE(InputCondition::parse(text)) << text;
}

TEST(InputCondition, TextsAreReadBack) {
  const auto condition = InputCondition::parse("L['it\\'s']['k'][0].size()[1] + L['n'] > 3.5");
  ASSERT_TRUE(condition);
  EXPECT_EQ(condition->words(), "%it's.k.0.size(1) + %n > 3.5");
  const auto again = InputCondition::parse(condition->text());
  ASSERT_TRUE(again);
  EXPECT_EQ(again->text(), condition->text());
  EXPECT_EQ(std::vector(again->sources().begin(), again->sources().end()),
            std::vector(condition->sources().begin(), condition->sources().end()));
}

TEST(InputCondition, NumbersTakeThePlaceOfSources) {
  using Source = InputCondition::Source;
  const auto condition = InputCondition::parse("L['n'] * 2 <= L['x'].size()[1] + L['m']");
  ASSERT_TRUE(condition);
  const auto rest = condition->knowing([](const Source& s) {
    return s.input == "n"   ? std::optional(InputCondition::Number(int64_t{3}))
           : s.input == "m" ? std::optional(InputCondition::Number(-0.5))
                            : std::nullopt;
  });
  ASSERT_TRUE(rest);
  EXPECT_EQ(rest->words(), "3 * 2 <= %x.size(1) + (-0.5)");
  ASSERT_EQ(rest->sources().size(), 1u);
  EXPECT_EQ(rest->holds(std::vector<std::optional<InputCondition::Number>>{int64_t{7}}), true);
  EXPECT_EQ(rest->holds(std::vector<std::optional<InputCondition::Number>>{int64_t{6}}), false);
}

TEST(InputCondition, BoundsOfOneSymbolAreFound) {
  const SizeExpression n = SizeExpression::symbol("n");
  auto meaning = [&](std::string_view text) {
    return InputCondition::parse(text)->meaningOf(std::vector<SizeExpression>{n});
  };
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(meaning("L['x'] / 16 <= 1.5").range, (SizeRange{0, 24}));
  EXPECT_EQ(meaning("L['x'] > 4").range, (SizeRange{5, kNone}));
  EXPECT_EQ(meaning("3*L['x'] + 1 < 12").range, (SizeRange{0, 3}));
  EXPECT_EQ(meaning("7 - 2*L['x'] <= 0").range, (SizeRange{4, kNone}));
  EXPECT_EQ(meaning("2*L['x'] == 6").range, (SizeRange{3, 3}));
  EXPECT_FALSE(meaning("2*L['x'] == 7").symbol);
  EXPECT_FALSE(meaning("L['x'] % 4 == 0").symbol);
  EXPECT_FALSE(meaning("L['x'] > 4 or L['x'] == 1").symbol);
  EXPECT_TRUE(meaning("L['x'] + 1 > 0 and L['x'] // 2 >= 0").isCertain);
  EXPECT_TRUE(meaning("(4*L['x']) // 4 == L['x']").isCertain);
}

}  // namespace
}  // namespace tscompile
