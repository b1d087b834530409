// Registries that lie over others, and the records of the families.
#include "ir/operators/op_registry.h"

#include "ir/operators/op_def.h"
#include "runtime/ops/ops.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <map>

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

TEST(OpRegistry, TakesTheSchemaOfARecordFromBelow) {
  OpRegistry mine(&allOps());
  mine.add({.schema = "aten::relu", .kernel = [](KernelCall&) {}, .inplace = InPlace::ByCopy});
  for (const char* name : {"aten::relu", "aten::relu_"}) {
    const Operator *above = mine.find(name), *below = allOps().find(name);
    ASSERT_TRUE(above && below);
    EXPECT_EQ(above->schemaSource(), below->schemaSource());
    EXPECT_EQ(above->isInPlaceVariant(), below->isInPlaceVariant());
    EXPECT_NE(above->def().kernel, below->def().kernel) << name;
  }
  EXPECT_EQ(mine.kinds(true).size(), allOps().kinds(true).size());
}

// Of two records for one overload, the later would silently win.
TEST(OpRegistry, HasOneRecordForEachOverload) {
  struct Family {
    const char* name;
    void (*add)(OpRegistry&);
  };
  constexpr Family kFamilies[] = {
#define TS_FAMILY(name) {#name, register##name##Ops},
#include "runtime/ops/families.def"
#undef TS_FAMILY
  };
  std::map<std::string, std::string> owners;
  for (const Family& family : kFamilies) {
    OpRegistry registry(&allOps());
    family.add(registry);
    for (Symbol kind : registry.kinds(true))
      for (const Operator* op : registry.overloads(kind)) {
        if (op == allOps().find(op->fullName())) continue;  // not of this family
        // Quantised dtypes may have a record beside that of all others.
        const std::string key = op->fullName() + (op->def().isForQuantized() ? " of quantised tensors" : "");
        auto [it, isNew] = owners.try_emplace(key, family.name);
        EXPECT_TRUE(isNew) << op->fullName() << " stands in " << it->second << " and " << family.name;
      }
  }
}

}  // namespace
}  // namespace tscompile
