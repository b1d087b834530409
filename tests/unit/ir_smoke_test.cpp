#include "ir/type.h"

#include <gtest/gtest.h>

namespace tscompile {
TEST(Types, AreInterned) { EXPECT_EQ(listType(types().tensor), types().tensorList); }
}  // namespace tscompile
