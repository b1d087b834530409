// What tells that a rewrite changed results: sample inputs, comparison, report.
#include "passes/rewrite/compare.h"

#include "passes/rewrite/samples.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tscompile::test {
namespace {

IValue square(std::vector<float> numbers) {
  Tensor t = Tensor::empty(DType::Float32, Dims{2, 2});
  for (size_t i = 0; i < numbers.size(); ++i) t.data<float>()[i] = numbers[i];
  return IValue(t);
}

std::optional<RewriteMismatch> compared(IValue a, IValue b, double relative = 1e-5, double absolute = 1e-6) {
  return compareResults({std::move(a)}, {std::move(b)}, {relative, absolute});
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();
const float kNaN = std::nanf("");

}  // namespace

TEST(Compare, ReportsWhereAndByHowMuch) {
  std::optional<RewriteMismatch> m =
      compareResults({IValue(1), square({1, 2, 3, 4})}, {IValue(1), square({1, 2, 4, 8})}, {1e-5, 1e-6});
  ASSERT_TRUE(m);
  EXPECT_EQ(m->output, 1u);
  EXPECT_EQ(
      m->text(),
      "output 1 was f32[2, 2], now f32[2, 2]; at [1, 1]: 4 was, 8 is; absolute difference max 4 mean 1.25 median 1 "
      "deviation 1.64; relative max 0.5 mean 0.188 median 0.25 deviation 0.207");
  EXPECT_EQ(compared(square({1, 2, 3, 4}), IValue(2.5))->text(), "output 0 was f32[2, 2], now 2.5");
  EXPECT_EQ(
      compared(IValue(Tensor::empty(DType::Int64, Dims{3})), IValue(Tensor::empty(DType::Int64, Dims{1, 3})))->text(),
      "output 0 was i64[3], now i64[1, 3]");
}

TEST(Compare, ToleratesRoundingAndNothingElse) {
  EXPECT_FALSE(compared(square({1, 2, 3, 4}), square({1, 2, 3, 4.00001F})));
  EXPECT_TRUE(compared(square({1, 2, 3, 4}), square({1, 2, 3, 4.001F})));
  EXPECT_FALSE(compared(square({1, 2, 3, 4}), square({1, 2, 3, 4.001F}), 1e-2));
  EXPECT_FALSE(compared(square({kNaN, kInfinity, 3, 4}), square({kNaN, kInfinity, 3, 4})));
  EXPECT_TRUE(compared(square({1, 2, 3, 4}), square({kNaN, 2, 3, 4}), 10, 10));
  EXPECT_TRUE(compared(square({1, kInfinity, 3, 4}), square({1, -kInfinity, 3, 4}), 10, 10));
  EXPECT_TRUE(compared(IValue(2), IValue(3), 10, 10));
  EXPECT_FALSE(compared(IValue(2.0), IValue(2.5), 1, 0));
}

TEST(Compare, SamplesAreOfTheTypesOfInputs) {
  std::unique_ptr<Graph> g =
      graphOf("graph(%x : Double(2, *), %y : Tensor, %n : int, %l : Tensor[], %b : bool, %o : int?):\n  return (%x)\n");
  bool special = false;
  for (int sample = 0; sample < 3; ++sample) {
    std::optional<std::vector<IValue>> inputs = sampleInputs(*g, sample);
    ASSERT_TRUE(inputs);
    ASSERT_EQ(inputs->size(), 6u);
    for (size_t i = 0; i < 6; ++i) EXPECT_TRUE(isInstance((*inputs)[i], withoutRefinement(g->input(i)->type()))) << i;
    const Tensor& x = (*inputs)[0].toTensor();
    EXPECT_EQ(x.dtype(), DType::Float64);
    EXPECT_EQ(Dims(x.sizes()), (Dims{2, 2}));
    for (int64_t i = 0; i < x.numel(); ++i) special |= sample == 2 && !std::isfinite(x.data<double>()[i]);
    for (int64_t i = 0; i < (*inputs)[1].toTensor().numel(); ++i)
      special |= sample == 2 && !std::isfinite((*inputs)[1].toTensor().data<float>()[i]);
  }
  EXPECT_TRUE(special);
  EXPECT_FALSE(sampleInputs(*graphOf("graph(%self : __torch__.Net):\n  return (%self)\n"), 0));
}

// How many samples ran a graph, and what showed when its first output became another value.
std::pair<size_t, bool> comparedOn(const std::string& graph, const std::string& outputAfter) {
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  std::unique_ptr<Graph> before = graphOf(graph), after = graphOf(graph);
  after->block()->returnNode()->replaceInput(0, after->find(outputAfter));
  size_t compared = 0, same = 0;
  EXPECT_FALSE(compareGraphs(*before, *before, *evaluator, {}, &same)) << graph;
  bool shows = compareGraphs(*before, *after, *evaluator, {}, &compared).has_value();
  EXPECT_GE(same, compared);
  return {same, shows};
}

TEST(Compare, SamplesFitGraphsWhoseTypesTellLittle) {
  const std::pair<size_t, bool> all{4, true};
  // Indices that are there.
  EXPECT_EQ(comparedOn("graph(%x : Float(2, 3), %i : Long(2)):\n"
                       "  %0 : int = prim::Constant[value=0]()\n"
                       "  %a : Tensor = aten::index_select(%x, %0, %i)\n"
                       "  %b : Tensor = aten::neg(%a)\n"
                       "  return (%a)\n",
                       "b"),
            all);
  // Matrices that go together.
  EXPECT_EQ(comparedOn("graph(%x : Tensor, %y : Tensor):\n"
                       "  %a : Tensor = aten::mm(%x, %y)\n"
                       "  %b : Tensor = aten::mm(%y, %x)\n"
                       "  return (%a)\n",
                       "b"),
            all);
  // Attributes and constants without their values.
  EXPECT_EQ(comparedOn("graph(%self : __torch__.M, %x : Float(2, 3)):\n"
                       "  %in : __torch__.N = prim::GetAttr[name=\"in\"](%self)\n"
                       "  %w : Tensor = prim::GetAttr[name=\"w\"](%in)\n"
                       "  %c : Float(2, 3) = prim::Constant[value=<Tensor>]()\n"
                       "  %a : Tensor = aten::mul(%x, %w)\n"
                       "  %b : Tensor = aten::mul(%a, %c)\n"
                       "  return (%a)\n",
                       "b"),
            all);
  // Sizes, and keys that are looked up.
  EXPECT_EQ(comparedOn("graph(%x : Float(2, 3), %sizes : int[], %d : Dict(str, Tensor), %t : (Tensor, str)):\n"
                       "  %key : str = prim::Constant[value=\"a\"]()\n"
                       "  %a : Tensor = aten::reshape(%x, %sizes)\n"
                       "  %v : Tensor = aten::__getitem__(%d, %key)\n"
                       "  %b : Tensor = aten::mul(%a, %v)\n"
                       "  return (%a)\n",
                       "b"),
            all);
  // Images as large as the layers behind them ask for, with as many channels as the weights have.
  EXPECT_EQ(comparedOn("graph(%x : Tensor, %w : Float(4, 5, 3, 3), %m : Float(3, 144)):\n"
                       "  %0 : int = prim::Constant[value=0]()\n"
                       "  %1 : int = prim::Constant[value=1]()\n"
                       "  %c : Float(4, 5, 3, 3) = prim::Constant[value=<Tensor>]()\n"
                       "  %n : NoneType = prim::Constant()\n"
                       "  %ones : int[] = prim::ListConstruct(%1, %1)\n"
                       "  %zeros : int[] = prim::ListConstruct(%0, %0)\n"
                       "  %y : Tensor = aten::conv2d(%x, %c, %n, %ones, %zeros, %ones, %1)\n"
                       "  %last : int = prim::Constant[value=-1]()\n"
                       "  %f : Tensor = aten::flatten(%y, %1, %last)\n"
                       "  %a : Tensor = aten::linear(%f, %m, %n)\n"
                       "  %b : Tensor = aten::neg(%a)\n"
                       "  return (%a)\n",
                       "b"),
            all);
  // Nothing is known of such an object.
  EXPECT_EQ(comparedOn("graph(%s : Stream, %x : Tensor):\n  %b : Tensor = aten::neg(%x)\n  return (%x, %s)\n", "b"),
            (std::pair<size_t, bool>{0, false}));
}

TEST(Compare, SamplesHoldHalves) {
  std::string text =
      "graph(%x : Float(3, 4)):\n"
      "  %half : float = prim::Constant[value=0.5]()\n"
      "  %1 : int = prim::Constant[value=1]()\n"
      "  %s : Tensor = aten::add(%x, %half, %1)\n"
      "  %b : Tensor = aten::floor(%s)\n"
      "  %a : Tensor = aten::round(%x)\n"
      "  return (%a)\n";
  EXPECT_TRUE(comparedOn(text, "b").second);
}

TEST(Compare, SixteenBitsMayDifferInTheLast) {
  auto half = [](DType dtype, double v) {
    Tensor t = Tensor::empty(dtype, Dims{1});
    dtype == DType::Float16 ? void(t.data<Half>()[0] = Half(static_cast<float>(v)))
                            : void(t.data<BFloat16>()[0] = BFloat16(static_cast<float>(v)));
    return IValue(t);
  };
  EXPECT_FALSE(compared(half(DType::Float16, 1), half(DType::Float16, 1 + 0x1p-10)));
  EXPECT_TRUE(compared(half(DType::Float16, 1), half(DType::Float16, 1 + 0x1p-8)));
  EXPECT_FALSE(compared(half(DType::BFloat16, 1), half(DType::BFloat16, 1 + 0x1p-7)));
  EXPECT_TRUE(compared(half(DType::BFloat16, 1), half(DType::BFloat16, 1 + 0x1p-5)));
}

TEST(Compare, WhereResultsAreAssumedFiniteOthersDoNotCount) {
  const RewriteComparison finite{.assumesFinite = true};
  EXPECT_FALSE(compareResults({square({kNaN, kInfinity, 3, 4})}, {square({1, 2, 3, 4})}, finite));
  EXPECT_TRUE(compareResults({square({1, 2, 3, 4})}, {square({kNaN, 2, 3, 4})}, finite));
  EXPECT_TRUE(compareResults({square({kNaN, 2, 3, 4})}, {square({1, 2, 3, 5})}, finite));
}

TEST(Compare, WritesToArgumentsAreResults) {
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  std::string start = "graph(%x : Float(2), %y : Float(2)):\n",
              end = "  %z : Tensor = aten::add_(%a, %y, %one)\n  return (%y)\n";
  std::string one = "  %one : int = prim::Constant[value=1]()\n";
  std::unique_ptr<Graph> writes = graphOf(start + one + "  %a : Tensor = aten::detach(%x)\n" + end),
                         copies = graphOf(start + one + "  %a : Tensor = aten::neg(%x)\n" + end);
  std::optional<RewriteMismatch> m = compareGraphs(*writes, *copies, *evaluator);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->before, "argument f32[2]");
  EXPECT_FALSE(compareGraphs(*writes, *writes, *evaluator));
}

}  // namespace tscompile::test
