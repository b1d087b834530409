// What trials of states take for the same logits.
#include "passes/serving/states/state_trials.h"

#include <gtest/gtest.h>

#include <limits>

namespace tscompile::test {
namespace {

TEST(StateTrials, LogitsAreNearBesideThoseThatAreFinite) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(areNear({1, -2}, {1.001, -2}));
  EXPECT_FALSE(areNear({1, -2}, {1.001, -2}, kRounding));
  EXPECT_FALSE(areNear({1, -2}, {1, -2, 3}));
  // Words that are never said are at -inf.
  EXPECT_TRUE(areNear({-inf, 1}, {-inf, 1.0001}));
  EXPECT_FALSE(areNear({-inf, 1}, {-inf, 2}));
  EXPECT_FALSE(areNear({-inf, 1}, {0, 1}));
  EXPECT_FALSE(areNear({0, 1}, {-inf, 1}));
  EXPECT_FALSE(areNear({nan, 1}, {nan, 1}));
  EXPECT_FALSE(areNear({0, 1}, {nan, 1}));
}

}  // namespace
}  // namespace tscompile::test
