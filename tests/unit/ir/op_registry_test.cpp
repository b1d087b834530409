// Registries that lie over others.
#include "ir/op_registry.h"

#include "ir/op_def.h"
#include "runtime/ops/ops.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

TEST(OpRegistry, LaysRecordsOverAnother) {
  OpRegistry mine(&allOps());
  mine.add({.schema = "my::twice(Tensor self) -> Tensor", .kernel = [](KernelCall&) {}});
  ASSERT_NE(mine.find("my::twice"), nullptr);
  EXPECT_TRUE(mine.find("my::twice")->isImplemented());
  EXPECT_EQ(mine.find("aten::relu"), allOps().find("aten::relu"));
  EXPECT_EQ(mine.nearestKind("my::twise"), "my::twice");
  EXPECT_EQ(allOps().find("my::twice"), nullptr);
  EXPECT_EQ(mine.kinds(true).size(), allOps().kinds(true).size() + 1);
}

}  // namespace
}  // namespace tscompile
