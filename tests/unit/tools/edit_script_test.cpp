// Edits between sequences, against the plain dynamic program.
#include "tools/reports/edit_script.h"

#include "tests/support/choices.h"
#include "tests/support/property.h"

#include <gtest/gtest.h>

#include <string>

namespace tscompile::test {
namespace {

size_t longestCommon(const std::string& a, const std::string& b) {
  std::vector<std::vector<size_t>> best(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j)
      best[i][j] = a[i - 1] == b[j - 1] ? best[i - 1][j - 1] + 1 : std::max(best[i - 1][j], best[i][j - 1]);
  return best[a.size()][b.size()];
}

TEST(EditScript, PropertyKeepsAsMuchAsCanBeKept) {
  forEachSeed(2000, [](uint64_t seed) {
    Choices c(seed);
    std::string a, b;
    for (size_t n = c.below(12); n-- > 0;) a += static_cast<char>('a' + c.below(3));
    for (size_t n = c.below(12); n-- > 0;) b += static_cast<char>('a' + c.below(3));
    auto pairs = commonItems(a.size(), b.size(), [&](size_t i, size_t j) { return a[i] == b[j]; });
    ASSERT_EQ(pairs.size(), longestCommon(a, b)) << a << " " << b;
    for (size_t k = 0; k < pairs.size(); ++k) {
      ASSERT_EQ(a[pairs[k].first], b[pairs[k].second]) << a << " " << b;
      ASSERT_TRUE(!k || (pairs[k - 1].first < pairs[k].first && pairs[k - 1].second < pairs[k].second))
          << a << " " << b;
    }
  });
}

TEST(EditScript, EndsWhereThereIsTooMuch) {
  auto pairs = commonItems(
      100'000, 100'000, [](size_t i, size_t j) { return i == j && i < 10; }, 50);
  EXPECT_EQ(pairs.size(), 10u);
}

}  // namespace
}  // namespace tscompile::test
