// Numbers that an engine takes at each run: one plan computes with all of them.
#include "api/value_text.h"
#include "runtime/engine/engine.h"
#include "tests/support/engine_case.h"

namespace tscompile::test {
namespace {

TEST(NumberInputs, OnePlanTakesThemAll) {
  EngineCase c(graphWithConstants("%x : Tensor, %n : int, %s : float", R"(
  %row : Tensor = aten::select(%x, %zero, %n)
  %a : Tensor = aten::mul(%row, %s)
  %c : Tensor = aten::add(%a, %n, %one)
  %over : Tensor = aten::gt(%c, %s)
  %d : Tensor = aten::masked_fill(%c, %over, %s)
  %e : Tensor = aten::clamp(%d, %n, %s)
  %g : Tensor = aten::div(%e, %s)
  %h : Tensor = aten::rsub(%g, %n, %one)
)",
                                  "%h"));
  Tensor x = randn({5, 7}, 1);
  const EnginePlan* plan = c.plan({x, int64_t{0}, 0.5});
  ASSERT_NE(plan, nullptr);
  for (int64_t n : {0, 1, 4, -1, -5})
    for (double s : {0.5, -3.25, 1e30, std::numeric_limits<double>::infinity()}) {
      EXPECT_EQ(c.plan({x, n, s}), plan);
      if (s < 1e30) c.expectClose({x, n, s});
    }
  EXPECT_EQ(c.layers({x, int64_t{0}, 0.5}).find("kernel"), std::string::npos);
}

// What tensors and numbers of every category are computed in, as the interpreter does it.
TEST(NumberInputs, DtypesAreThoseOfNumbers) {
  for (std::string number : {"int", "float"})
    for (std::string op : {"aten::mul(%x, %n)", "aten::gt(%x, %n)", "aten::add(%x, %n, %one)", "aten::div(%x, %n)"}) {
      EngineCase c(graphWithConstants("%x : Tensor, %n : " + number, "  %r : Tensor = " + op + "\n", "%r"));
      for (DType dtype : {DType::Float32, DType::Float64, DType::Int64, DType::Bool})
        for (const Dims& sizes : {Dims{}, Dims{3}}) {
          Tensor x = Tensor::zeros(dtype, sizes);
          IValue n = number == "int" ? IValue(int64_t{3}) : IValue(1.5);
          std::vector<IValue> got = c.run({x, n}), want = c.interpret({x, n});
          EXPECT_EQ(valueToText(got[0]), valueToText(want[0])) << op << ' ' << pythonName(dtype) << ' ' << number;
        }
    }
}

TEST(NumberInputs, BecomeTensors) {
  EngineCase c(graphWithConstants("%x : Tensor, %n : int, %s : float", R"(
  %i : Tensor = prim::NumToTensor(%n)
  %size : int = aten::size(%x, %zero)
  %sizes : int[] = prim::ListConstruct(%size, %two)
  %full : Tensor = aten::full(%sizes, %s, %none, %none, %none, %none)
  %t : Tensor = aten::tensor(%s, %none, %none, %f)
)",
                                  "%i, %full, %t"));
  for (double s : {2.5, -1.0}) {
    std::vector<IValue> inputs{randn({3}, 1), int64_t{7}, s};
    std::vector<IValue> got = c.run(inputs), want = c.interpret(inputs);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(valueToText(got[i]), valueToText(want[i]));
  }
}

// The interpreter tells what is wrong, or computes what tensors in their places would not.
TEST(NumberInputs, ThatAreNoOperandsAreLeftToTheInterpreter) {
  RunOptions options;
  RunContext context(options);
  RunScope scope(context);
  EngineCase index(graphWithConstants("%x : Tensor, %n : int", "  %r : Tensor = aten::select(%x, %zero, %n)\n", "%r"));
  EXPECT_TRUE(index.tryRun({randn({3, 2}, 1), int64_t{2}}, context));
  EXPECT_FALSE(index.tryRun({randn({3, 2}, 1), int64_t{3}}, context));
  EXPECT_FALSE(index.tryRun({randn({3, 2}, 1), int64_t{-4}}, context));
  EngineCase product(graphWithConstants("%x : Tensor, %n : float", "  %r : Tensor = aten::mul(%x, %n)\n", "%r"));
  EXPECT_TRUE(product.tryRun({randn({3}, 1), 1e38}, context));
  EXPECT_FALSE(product.tryRun({randn({3}, 1), 1e39}, context));
  EXPECT_FALSE(product.tryRun({Tensor::zeros(DType::BFloat16, Dims{3}), 1.5}, context));
  EngineCase power(graphWithConstants("%x : Tensor, %n : int", "  %r : Tensor = aten::pow(%x, %n)\n", "%r"));
  EXPECT_TRUE(power.tryRun({randn({3}, 1), int64_t{-2}}, context));
  EXPECT_FALSE(power.tryRun({Tensor::zeros(DType::Int64, Dims{3}), int64_t{-2}}, context));
  EngineCase root(graphWithConstants("%x : Tensor, %n : float", "  %r : Tensor = aten::pow(%x, %n)\n", "%r"));
  EXPECT_FALSE(root.tryRun({randn({3}, 1), 0.5}, context));
}

}  // namespace
}  // namespace tscompile::test
