#include "ir/support/text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tscompile {
namespace {

std::string nearest(const std::string& wanted, std::initializer_list<const char*> names) {
  NearestName out(wanted);
  for (const char* name : names) out.consider(name);
  return out.name();
}

TEST(NearestName, SomeOfTheWordsAreEnough) {
  EXPECT_EQ(nearest("max_batch", {"max_batch_size", "max_seq_len"}), "max_batch_size");
  EXPECT_EQ(nearest("max_tokens", {"max_new_tokens", "prompt"}), "max_new_tokens");
  EXPECT_EQ(nearest("new-max-tokens", {"max-new-tokens"}), "");
  EXPECT_EQ(nearest("tokens", {"max_new_tokens"}), "");
  EXPECT_EQ(nearest("max_batchsize", {"max_batch_size", "max_batch"}), "max_batch_size");
}

// Up to the limit, as where all beginnings are compared.
TEST(NearestName, DistancesUpToALimit) {
  auto plain = [](std::string_view a, std::string_view b) {
    std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
    for (size_t i = 0; i <= a.size(); ++i)
      for (size_t j = 0; j <= b.size(); ++j) {
        d[i][j] = i + j;
        if (i == 0 || j == 0) continue;
        d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
        if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
          d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    return d[a.size()][b.size()];
  };
  std::mt19937_64 random(5);
  auto word = [&] {
    std::string made;
    for (uint64_t i = random() % 9; i > 0; --i) made += static_cast<char>('a' + random() % 3);
    return made;
  };
  for (int n = 0; n < 20000; ++n) {
    const std::string a = word(), b = word();
    const size_t want = plain(a, b);
    for (size_t limit : {0, 1, 2, 3, 20, 1000}) {
      const size_t got = editDistance(a, b, limit);
      ASSERT_EQ(std::min(got, limit + 1), std::min(want, limit + 1)) << a << " " << b << " " << limit;
    }
  }
}

}  // namespace
}  // namespace tscompile
