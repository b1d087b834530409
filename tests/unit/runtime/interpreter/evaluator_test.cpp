#include "runtime/interpreter/evaluator.h"

#include "ir/values/literal.h"
#include "runtime/registry.h"
#include "tests/support/module_checks.h"

namespace tscompile::test {
namespace {

// What the last node of a graph gives for constants in front of it.
std::optional<std::vector<IValue>> evaluated(const std::string& text, std::vector<IValue> inputs,
                                             uint64_t maxBytes = 1 << 20) {
  std::unique_ptr<Graph> graph = readGraph(text);
  return makeEvaluator(allOps())->evaluate(*graph->block()->last(), inputs, maxBytes);
}

constexpr const char* kTranspose = "graph(%x : Tensor):\n  %y : Tensor = aten::t(%x)\n  return (%y)\n";

}  // namespace

TEST(Evaluator, RunsOperatorsAndStructure) {
  auto sum = evaluated("graph(%a : int, %b : int):\n  %c : int = aten::add(%a, %b)\n  return (%c)\n", {2, 3});
  ASSERT_TRUE(sum);
  EXPECT_EQ((*sum)[0].toInt(), 5);
  auto list = evaluated("graph(%a : int):\n  %c : int[] = prim::ListConstruct(%a, %a)\n  return (%c)\n", {2, 2});
  ASSERT_TRUE(list);
  EXPECT_EQ(valueText((*list)[0]), "[2, 2]");
  auto parts = evaluated("graph(%t : (int, str)):\n  %a : int, %b : str = prim::TupleUnpack(%t)\n  return (%a)\n",
                         {tuple({IValue(4), IValue("x")})});
  ASSERT_TRUE(parts);
  EXPECT_EQ((*parts)[1].toString(), "x");
  auto tensor = evaluated("graph(%a : int):\n  %t : Tensor = prim::NumToTensor(%a)\n  return (%t)\n", {9});
  ASSERT_TRUE(tensor);
  EXPECT_EQ((*tensor)[0].toTensor().integer(0), 9);
}

TEST(Evaluator, ResultsHaveMemoryOfTheirOwn) {
  Tensor x = floats({2, 2}, {1, 2, 3, 4});
  auto t = evaluated(kTranspose, {x});
  ASSERT_TRUE(t);
  Tensor y = (*t)[0].toTensor();
  EXPECT_NE(y.storage(), x.storage());
  EXPECT_TRUE(y.storage()->readOnly());
  EXPECT_EQ(dimsText(y.strides()), "[1, 2]");
  EXPECT_EQ(y.real(1), 3);
  // An operator that returns its argument.
  auto same =
      evaluated("graph(%x : Tensor, %m : int):\n  %y : Tensor = aten::contiguous(%x, %m)\n  return (%y)\n", {x, 0});
  ASSERT_TRUE(same);
  EXPECT_NE((*same)[0].toTensor().storage(), x.storage());
}

TEST(Evaluator, KeepsStridesOrGivesUp) {
  Tensor x = floats({4}, {1, 2, 3, 4});
  auto repeated = evaluated(kTranspose, {x.withGeometry(Dims{2, 3}, Dims{1, 0}, 1)});
  ASSERT_TRUE(repeated);
  EXPECT_EQ(dimsText((*repeated)[0].toTensor().strides()), "[0, 1]");
  EXPECT_EQ((*repeated)[0].toTensor().real(1), 3);
  EXPECT_EQ((*repeated)[0].toTensor().storage()->bytes(), 8u);
  EXPECT_FALSE(evaluated(kTranspose, {x.withGeometry(Dims{2}, Dims{2}, 0)}));
  auto none = evaluated(kTranspose, {x.withGeometry(Dims{0, 3}, Dims{3, 1}, 0)});
  ASSERT_TRUE(none);
  EXPECT_EQ((*none)[0].toTensor().numel(), 0);
}

TEST(Evaluator, GivesUpQuietly) {
  std::string divide = "graph(%a : int, %b : int):\n  %c : int = aten::floordiv(%a, %b)\n  return (%c)\n";
  EXPECT_FALSE(evaluated(divide, {1, 0}));
  EXPECT_FALSE(evaluated(kTranspose, {floats({2, 2, 2}, {1, 2, 3, 4, 5, 6, 7, 8})}));
  EXPECT_FALSE(evaluated(kTranspose, {floats({2, 2}, {1, 2, 3, 4})}, 15));
  EXPECT_TRUE(evaluated(kTranspose, {floats({2, 2}, {1, 2, 3, 4})}, 16));
  EXPECT_FALSE(evaluated(kTranspose, {}));
  EXPECT_FALSE(evaluated("graph(%x : Tensor):\n  %y : Tensor = aten::nowhere(%x)\n  return (%y)\n", {floats({1})}));
  EXPECT_FALSE(evaluated("graph(%x : str):\n   = prim::RaiseException(%x)\n  return (%x)\n", {IValue("no")}));
  // Never asked for the memory.
  std::string zeros =
      "graph(%n : int[], %o : NoneType):\n  %y : Tensor = aten::zeros(%n, %o, %o, %o, %o)\n  return (%y)\n";
  EXPECT_FALSE(evaluated(zeros, {intList(Dims{1 << 20, 1 << 20}), {}, {}, {}, {}}));
}

TEST(Evaluator, RunsGraphs) {
  std::unique_ptr<Graph> graph = readGraph(R"(graph(%x : Tensor, %c : bool):
  %y : Tensor = prim::If(%c)
    block0():
      %1 : Tensor = aten::neg(%x)
      -> (%1)
    block1():
      -> (%x)
  return (%y, %c)
)");
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  std::vector<IValue> inputs{floats({1, -2}), true};
  auto results = evaluator->run(*graph, inputs);
  ASSERT_TRUE(results && results->size() == 2);
  EXPECT_EQ((*results)[0].toTensor().real(1), 2);
  EXPECT_FALSE(evaluator->run(*graph, {}));
}

}  // namespace tscompile::test
