#include "tools/reports/remedy_words.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

// One of each kind, with as much in it as any of them reads.
std::vector<Remedy> all() {
  std::vector<Remedy> out;
  for (auto kind = Remedy::Kind::None; kind <= Remedy::Kind::AvoidGains;
       kind = static_cast<Remedy::Kind>(static_cast<int>(kind) + 1))
    out.emplace_back(kind, std::vector<std::string>{"a", "b", "c"}, std::vector<int64_t>{1, 1, 1},
                     std::vector<Remedy>{Remedy(Remedy::Kind::FixSizes, {"x"})});
  return out;
}

TEST(RemedyWords, LibrariesNameNoOptions) {
  for (const Remedy& r : all()) {
    EXPECT_EQ(plainWords(r).find("--"), std::string::npos) << plainWords(r);
    EXPECT_EQ(plainWords(r).find('{'), std::string::npos) << plainWords(r);
    EXPECT_EQ(plainWords(r).empty(), r.empty());
    EXPECT_EQ(commandLineWords(r).empty(), r.empty());
  }
}

TEST(RemedyWords, ThoseInForceAreUsedForPartsToo) {
  Remedy condition(Remedy::Kind::KnowCondition, {}, {},
                   {Remedy(Remedy::Kind::SupplyInputs, {"n", "m"}, {Remedy::Value, Remedy::NoneValue}),
                    Remedy(Remedy::Kind::FixSizes, {"x"})});
  EXPECT_EQ(textOf(condition),
            "its condition is known with a constant for %n, None for %m and fixed sizes of %x: the branch that is not "
            "taken goes");
  RemedyWordsScope scope(commandLineWords);
  EXPECT_EQ(
      textOf(condition),
      "its condition is known with compile --bind n=VALUE --bind m=None and fixed sizes of %x (--shape x=SIZES, or "
      "in the text): the branch that is not taken goes");
}

TEST(RemedyWords, SettingsAreOptions) {
  EXPECT_EQ(optionWords("strategy=greedy"), (std::vector<std::string>{"--strategy", "greedy"}));
  EXPECT_EQ(optionWords("shape=x=1x2"), (std::vector<std::string>{"--shape", "x=1x2"}));
  EXPECT_EQ(optionWords("require-full=50"), std::vector<std::string>{"--require-full=50"});
  EXPECT_EQ(optionWords("no-lower"), std::vector<std::string>{"--no-lower"});
}

}  // namespace
}  // namespace tscompile
