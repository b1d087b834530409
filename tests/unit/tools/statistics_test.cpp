#include "tools/reports/statistics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
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

TEST(Statistics, TheMedianLiesBetweenOrderStatistics) {
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  // Ranks 40 and 61 of 100, as tables of the sign test have them.
  const Interval i = medianInterval(values, 0.95);
  EXPECT_DOUBLE_EQ(i.middle, 50.5);
  EXPECT_DOUBLE_EQ(i.low, 40);
  EXPECT_DOUBLE_EQ(i.high, 61);
  values.clear();
  for (int n = 0; n < 10'000; ++n) values.push_back(n);
  const Interval many = medianInterval(values, 0.95);
  EXPECT_NEAR(many.low, 4901, 2);
  EXPECT_NEAR(many.high, 5098, 2);
}

// A noisy machine: times drift, vary by 5 %, and every twelfth is half as long again.
class NoisyMachine {
 public:
  explicit NoisyMachine(unsigned seed) : random_(seed) {}
  void nextRound() { drift_ += normal_(random_) * 0.01; }
  // The median of a block of three runs.
  double block(double ms) {
    std::vector<double> runs;
    for (int i = 0; i < 3; ++i)
      runs.push_back(ms * std::exp(drift_ + 0.05 * normal_(random_)) * (uniform_(random_) < 0.08 ? 1.5 : 1));
    return statisticsOf(runs).median;
  }

 private:
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
  std::uniform_real_distribution<double> uniform_;
  double drift_ = 0;
};

size_t differences(double factor) {
  size_t found = 0;
  for (unsigned trial = 0; trial < 100; ++trial) {
    NoisyMachine machine(1000 + trial);
    std::vector<double> first, second;
    for (int round = 0; round < 60; ++round) {
      machine.nextRound();
      first.push_back(machine.block(10));
      second.push_back(machine.block(10 * factor));
    }
    const Interval ratio = ratioInTurns(first, second);
    found += isDifference(ratio) && (ratio.middle > 1) == (factor > 1);
  }
  return found;
}

TEST(Statistics, FivePercentAreFoundInTurns) {
  EXPECT_GE(differences(1.05), 95u);
  EXPECT_GE(differences(1 / 1.05), 95u);
}

TEST(Statistics, AProgramDoesNotDifferFromItself) { EXPECT_LE(differences(1), 5u); }

// The same where each place in memory makes one of them some percent faster.
size_t differencesAtPlaces(double factor) {
  size_t found = 0;
  for (unsigned trial = 0; trial < 100; ++trial) {
    NoisyMachine machine(2000 + trial);
    std::mt19937 random(trial);
    std::normal_distribution<double> normal;
    std::vector<PlacedRounds> places(20);
    for (PlacedRounds& p : places) {
      const double luck = std::exp(0.02 * normal(random));
      for (int round = 0; round < 3; ++round) {
        machine.nextRound();
        p.first.push_back(machine.block(10));
        p.second.push_back(machine.block(10 * factor * luck));
      }
    }
    const Interval ratio = ratioAtPlaces(places);
    found += isDifference(ratio) && (ratio.middle > 1) == (factor > 1);
  }
  return found;
}

TEST(Statistics, FivePercentAreFoundWhereverTensorsLie) {
  EXPECT_GE(differencesAtPlaces(1.05), 95u);
  EXPECT_GE(differencesAtPlaces(1 / 1.05), 95u);
}

TEST(Statistics, WhereTensorsLieIsNoDifference) { EXPECT_LE(differencesAtPlaces(1), 5u); }

TEST(Statistics, FewRoundsTellNothing) {
  const double fast[] = {1, 1, 1}, slow[] = {2, 2, 2};
  EXPECT_FALSE(isDifference(ratioInTurns(fast, slow)));
}

}  // namespace
}  // namespace tscompile
