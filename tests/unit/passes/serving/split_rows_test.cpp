#include "frontend/text/parse.h"
#include "passes/serving/serving_passes.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// [4, 4] with another number at each place.
Tensor distinct() {
  std::vector<float> numbers(16);
  for (size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i);
  return Tensor::of<float>(Dims{4, 4}, numbers);
}

// How many nodes are layers of texts after splitRows, of a graph whose products take %repeated, made of %weight.
size_t layersOf(const std::string& lines) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(
      "graph(%ids : Tensor):\n"
      "  %zero : int = prim::Constant[value=0]()\n"
      "  %one : int = prim::Constant[value=1]()\n"
      "  %four : int = prim::Constant[value=4]()\n"
      "  %m1 : int = prim::Constant[value=-1]()\n"
      "  %no : bool = prim::Constant[value=0]()\n"
      "  %none : NoneType = prim::Constant()\n"
      "  %weight : Tensor = prim::Constant[value={0}]()\n"
      "  %b : int = aten::size(%ids, %zero)\n"
      "  %s : int = aten::size(%ids, %one)\n"
      "  %x : Tensor = aten::embedding(%weight, %ids, %m1, %no, %no)\n" +
          lines + "  return (%y)\n",
      diagnostics);
  EXPECT_TRUE(graph) << lines;
  (*graph)->find("weight")->node()->setAttribute(sym::value, IValue(distinct()));
  RewriteContext context(**graph, allOps(), diagnostics);
  const std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  context.evaluator = evaluator.get();
  splitRows(context, (*graph)->input(0), nullptr);
  return static_cast<size_t>((*graph)->kinds().count(Symbol::of("aten::linear")));
}

TEST(SplitRows, ProductsWithAWeightRepeatedForEachTextAreLayers) {
  const std::string sizes = "  %sizes : int[] = prim::ListConstruct(%b, %four, %four)\n";
  EXPECT_EQ(layersOf(sizes + "  %repeated : Tensor = aten::expand(%weight, %sizes, %no)\n"
                             "  %y : Tensor = aten::bmm(%x, %repeated)\n"),
            1u);
  // What is repeated is not the weight as it lies.
  EXPECT_EQ(layersOf(sizes + "  %turned : Tensor = aten::t(%weight)\n"
                             "  %repeated : Tensor = aten::expand(%turned, %sizes, %no)\n"
                             "  %y : Tensor = aten::bmm(%x, %repeated)\n"),
            0u);
}

TEST(SplitRows, ProductsOfTheTokensOfAllTextsAreLayers) {
  const std::string rows =
      "  %sizes : int[] = prim::ListConstruct(%m1, %four)\n"
      "  %rows : Tensor = aten::reshape(%x, %sizes)\n";
  EXPECT_EQ(layersOf(rows + "  %y : Tensor = aten::mm(%rows, %weight)\n"), 1u);
  // Of the first token of each text.
  EXPECT_EQ(layersOf("  %rows : Tensor = aten::select(%x, %one, %zero)\n"
                     "  %y : Tensor = aten::mm(%rows, %weight)\n"),
            0u);
}

}  // namespace
}  // namespace tscompile::test
