#include "ir/support/quantities.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

TEST(Quantities, Counts) {
  EXPECT_EQ(parseCount("0"), 0u);
  EXPECT_EQ(parseCount("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", "-1", "+1", "1.5", "18446744073709551616", "1 ", " 1", "0x10"})
    EXPECT_FALSE(parseCount(bad)) << bad;
}

TEST(Quantities, Sizes) {
  EXPECT_EQ(parseSize("512M"), uint64_t{512} << 20);
  EXPECT_EQ(parseSize("1.5GiB"), uint64_t{3} << 29);
  EXPECT_EQ(parseSize("64kB"), 65536u);
  EXPECT_EQ(parseSize("7"), 7u);
  EXPECT_EQ(parseSize("9007199254740993"), 9007199254740993u);  // no detour by way of a double
  for (const char* bad : {"", "M", "-1M", "1X", "1 M", "nanM", "infG", "99999999999T", "1e3"})
    EXPECT_FALSE(parseSize(bad)) << bad;
}

TEST(Quantities, Durations) {
  using std::chrono::nanoseconds;
  EXPECT_EQ(parseDuration("250ms"), nanoseconds(250'000'000));
  EXPECT_EQ(parseDuration("3s"), nanoseconds(3'000'000'000));
  EXPECT_EQ(parseDuration("2min"), nanoseconds(120'000'000'000));
  EXPECT_EQ(parseDuration("1.5"), nanoseconds(1'500'000'000));
  EXPECT_EQ(parseDuration("0s"), nanoseconds(0));
  for (const char* bad : {"", "s", "-1s", "1 s", "3m", "1e9h", "99999999h"}) EXPECT_FALSE(parseDuration(bad)) << bad;
}

TEST(Quantities, SizesAsText) {
  EXPECT_EQ(sizeText(0), "0 bytes");
  EXPECT_EQ(sizeText(1023), "1023 bytes");
  EXPECT_EQ(sizeText(1536), "1.5 KiB");
  EXPECT_EQ(sizeText(uint64_t{5} << 30), "5.0 GiB");
}

}  // namespace
}  // namespace tscompile
