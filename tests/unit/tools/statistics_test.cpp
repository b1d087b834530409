#include "tools/reports/statistics.h"

#include <gtest/gtest.h>

#include <vector>

namespace tscompile {
namespace {

TEST(Statistics, QuantilesLieBetweenTheNearestValues) {
  // As numpy.quantile's default, "linear", has them.
  const double ascending[] = {1, 2, 4, 8, 16};
  EXPECT_DOUBLE_EQ(quantile(ascending, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(ascending, 0.5), 4);
  EXPECT_DOUBLE_EQ(quantile(ascending, 0.9), 12.8);
  EXPECT_DOUBLE_EQ(quantile(ascending, 0.99), 15.68);
  EXPECT_DOUBLE_EQ(quantile(ascending, 1), 16);
  EXPECT_DOUBLE_EQ(quantile(std::span(ascending, 1), 0.9), 1);
  EXPECT_DOUBLE_EQ(quantile({}, 0.5), 0);
}

TEST(Statistics, QuantilesNeedTenSamplesBeyondThem) {
  EXPECT_EQ(samplesFor(0.5), 20u);
  EXPECT_EQ(samplesFor(0.9), 100u);
  EXPECT_EQ(samplesFor(0.99), 1000u);
}

TEST(Statistics, OfSamplesInAnyOrder) {
  Statistics s = statisticsOf(std::vector<double>{3, 1, 2, 6});
  EXPECT_EQ(s.count, 4u);
  EXPECT_DOUBLE_EQ(s.min, 1);
  EXPECT_DOUBLE_EQ(s.max, 6);
  EXPECT_DOUBLE_EQ(s.mean, 3);
  EXPECT_DOUBLE_EQ(s.median, 2.5);
  EXPECT_NEAR(s.deviation, 2.160247, 1e-6);
  EXPECT_NEAR(s.variation(), 0.720082, 1e-6);
}

TEST(Statistics, OfOneSampleAndOfNone) {
  Statistics one = statisticsOf(std::vector<double>{7});
  EXPECT_DOUBLE_EQ(one.p99, 7);
  EXPECT_DOUBLE_EQ(one.deviation, 0);
  Statistics none = statisticsOf({});
  EXPECT_EQ(none.count, 0u);
  EXPECT_DOUBLE_EQ(none.variation(), 0);
}

}  // namespace
}  // namespace tscompile
