#include "ir/support/text.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace tscompile
