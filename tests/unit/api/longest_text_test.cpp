#include "api/serving/longest_text.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

// Texts of up to `end` tokens run; counts how many were tried.
struct Model {
  int64_t end;
  int tried = 0;

  int64_t longest(int64_t most, int64_t likely = 0, bool isAsked = false) {
    return longestThatRuns(most, likely, isAsked, [this](int64_t n) { return ++tried, n <= end; });
  }
};

TEST(LongestText, IsTheMostThatThereMayBe) {
  Model all{5000};
  EXPECT_EQ(all.longest(1024), 1024);
  EXPECT_EQ(all.tried, 1);
}

TEST(LongestText, EndsWithACacheThatIsKnown) {
  Model cache{300};
  EXPECT_EQ(cache.longest(1024, 300), 300);
  EXPECT_EQ(cache.tried, 2);
  EXPECT_EQ(Model{200}.longest(1024, 300), 200);   // something else ends before it
  EXPECT_EQ(Model{700}.longest(1024, 300), 700);   // it is no end
  EXPECT_EQ(Model{700}.longest(1024, 2000), 700);  // nor is one that is longer
}

TEST(LongestText, IsFoundByHalving) {
  for (int64_t end : {16, 17, 100, 511, 512, 1023}) EXPECT_EQ(Model{end}.longest(1024), end);
  EXPECT_EQ(Model{0}.longest(1024), 0);
}

TEST(LongestText, IsNotLookedForWhereALengthIsAsked) {
  Model short_{100};
  EXPECT_EQ(short_.longest(1024, 0, true), 0);
  EXPECT_EQ(short_.tried, 1);
}

}  // namespace
}  // namespace tscompile
