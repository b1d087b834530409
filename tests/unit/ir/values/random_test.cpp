#include "ir/values/random.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tscompile {
namespace {

TEST(Random, BitsAreSplitMix64) {
  // The first outputs of the published generator for this seed.
  EXPECT_EQ(random::bits(1234567, 0), 6457827717110365317u);
  EXPECT_EQ(random::bits(1234567, 1), 3203168211198807973u);
  EXPECT_EQ(random::bits(1234567, 2), 9817491932198370423u);
}

TEST(Random, UniformNumbersAreBelowOne) {
  EXPECT_EQ(random::uniform(0), 0);
  EXPECT_EQ(random::uniform(~uint64_t{0}), 1 - 0x1p-53);
  double sum = 0;
  for (uint64_t i = 0; i < 1'000'000; ++i) sum += random::uniform(random::bits(1, i));
  EXPECT_NEAR(sum / 1e6, 0.5, 0.002);
}

// The distribution function undoes normal(), in the middle and far out.
TEST(Random, NormalInvertsTheDistribution) {
  auto check = [](uint64_t bits) {
    double p = (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52, tail = std::min(p, 1 - p), x = random::normal(bits);
    EXPECT_NEAR(std::erfc(std::fabs(x) / std::sqrt(2)) / 2 / tail, 1, 2e-14 * (1 + x * x)) << bits;
    EXPECT_EQ(x < 0, p < 0.5);
  };
  for (uint64_t i = 0; i < 100'000; ++i) check(random::bits(7, i));
  for (int shift = 0; shift < 64; ++shift) {
    check(uint64_t{1} << shift);
    check(~(uint64_t{1} << shift));
  }
  check(0);
  check(~uint64_t{0});
}

TEST(Random, NormalIsSymmetricAndFinite) {
  for (uint64_t i = 0; i < 100'000; ++i) {
    uint64_t b = random::bits(3, i);
    ASSERT_EQ(random::normal(b), -random::normal(~b));
  }
  EXPECT_NEAR(random::normal(0), -8.2095361516013874, 1e-13);  // the smallest of all
}

TEST(Random, NormalHasTheMomentsOfANormal) {
  constexpr int n = 1'000'000;
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0;
  int beyond3 = 0;
  for (uint64_t i = 0; i < n; ++i) {
    double x = random::normal(random::bits(11, i));
    m1 += x, m2 += x * x, m3 += x * x * x, m4 += x * x * x * x;
    beyond3 += std::fabs(x) > 3;
  }
  EXPECT_NEAR(m1 / n, 0, 0.004);
  EXPECT_NEAR(m2 / n, 1, 0.006);
  EXPECT_NEAR(m3 / n, 0, 0.02);
  EXPECT_NEAR(m4 / n, 3, 0.05);
  EXPECT_NEAR(beyond3 / double{n}, 0.0026998, 0.0003);
}

}  // namespace
}  // namespace tscompile
