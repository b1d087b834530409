#include <gtest/gtest.h>

#include "ir/type.h"

namespace tscompile {
TEST(Types, AreInterned) { EXPECT_EQ(listType(types().tensor), types().tensorList); }
}  // namespace tscompile
