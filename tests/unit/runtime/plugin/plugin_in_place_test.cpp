// Plugins that write over their inputs.
#include "tests/support/plugin_graph.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// Adds 1 to what it is given, in place if it may.
struct AddOne {
  static void describe(tsc::Description<AddOne>& d) {
    d.key("test", "AddOne", "1", "y = x + 1");
    d.input("x", tsc::kF32, "any sizes");
    d.output("y", tsc::kF32, "as x").alias("x");
  }
  void shapes(tsc::Shapes& s) const { s.output(0, s.input(0)); }
  void run(tsc::Run& r) const {
    for (float& v : r.output(0).values<float>()) v += 1;
  }
};

constexpr const char* kAddGraph =
    "graph(%x : Tensor):\n"
    "  %1 : int = prim::Constant[value=1]()\n"
    "  %t : Tensor = aten::mul(%x, %x)\n"
    "  %y : Tensor = test::AddOne(%t)\n"
    "  %z : Tensor = aten::add(%t, %y, %1)\n"
    "  return (%z)\n";

class PluginInPlace : public PluginGraph {
 protected:
  PluginInPlace() : PluginGraph({tsc::Definition<AddOne>::table()}) {}
};

TEST_F(PluginInPlace, AnInputThatIsReadLaterIsCopied) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine, kAddGraph);
    ASSERT_TRUE(module) << firstError();
    auto out = module->forward(std::vector<IValue>{tensor({2, 3})}, diagnostics);
    ASSERT_TRUE(out) << firstError();
    EXPECT_EQ(values(out->at(0)), (std::vector<float>{9, 19}));
  }
}

TEST_F(PluginInPlace, InPlaceNodesWriteTheirInput) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine,
                         "graph(%cache : Tensor, %x : Tensor):\n"
                         "  %new : Tensor = test::AddOne[inplace=1](%cache)\n"
                         "  %y : Tensor = aten::mul(%x, %new)\n"
                         "  return (%y, %new)\n",
                         1);
    ASSERT_TRUE(module) << firstError();
    Tensor cache = tensor({1, 2});
    for (int step = 1; step <= 3; ++step) {
      auto out = module->forward(std::vector<IValue>{cache, tensor({10, 10})}, diagnostics);
      ASSERT_TRUE(out) << firstError();
      float first = 1.0f + static_cast<float>(step), second = first + 1;
      EXPECT_EQ(values(out->at(0)), (std::vector<float>{10 * first, 10 * second}));
      EXPECT_EQ(out->at(1).toTensor().raw(), cache.raw());
      EXPECT_EQ(values(IValue(cache)), (std::vector<float>{first, second}));
    }
  }
}

// One tensor as two inputs: what is read after the write is what was written.
TEST_F(PluginInPlace, InPlaceNodesSeeTensorsThatAreGivenTwice) {
  for (bool engine : {false, true}) {
    auto module = loadAs(engine,
                         "graph(%cache : Tensor, %x : Tensor):\n"
                         "  %new : Tensor = test::AddOne[inplace=1](%cache)\n"
                         "  %y : Tensor = aten::mul(%x, %new)\n"
                         "  return (%y)\n");
    ASSERT_TRUE(module) << firstError();
    Tensor both = tensor({1, 2});
    auto out = module->forward(std::vector<IValue>{both, both}, diagnostics);
    ASSERT_TRUE(out) << firstError();
    EXPECT_EQ(values(out->at(0)), (std::vector<float>{4, 9}));
  }
}

TEST_F(PluginInPlace, ReservedAttributesOfOtherTypesAreMistakes) {
  auto module = load(
      "graph(%x : Tensor):\n"
      "  %y : Tensor = test::AddOne[inplace=\"yes\", plugin_version=1, plugin_phase=\"asleep\"](%x)\n"
      "  return (%y)\n");
  ASSERT_TRUE(module);
  EXPECT_FALSE(module->prepare(diagnostics));
  EXPECT_EQ(firstError(),
            "test::AddOne: plugin_version is a text, such as \"2\"; inplace is 0 or 1; plugin_phase is \"building\" or "
            "\"running\"");
}

}  // namespace
}  // namespace tscompile::test
