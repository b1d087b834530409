// Attention over tensors of a fixed length, which hold the tokens of a text at their places, becomes attention over
// these tokens, if nothing sees the other places.
#include "passes/serving/fixed_caches.h"

#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// Keys [1, 2, 16, 4] at the places of the tokens, and the scores [1, 2, tokens, 16] of some queries.
std::string scoring(const std::string& rest) {
  return "graph(%ids : Tensor, %positions : Long(*, *)):\n"
         "  %0 : int = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n"
         "  %2 : int = prim::Constant[value=2]()\n  %3 : int = prim::Constant[value=3]()\n"
         "  %4 : int = prim::Constant[value=4]()\n  %m1 : int = prim::Constant[value=-1]()\n"
         "  %16 : int = prim::Constant[value=16]()\n  %none : NoneType = prim::Constant()\n"
         "  %far : float = prim::Constant[value=-inf]()\n  %6 : int = prim::Constant[value=6]()\n"
         "  %s : int = aten::size(%ids, %1)\n  %sizes : int[] = prim::ListConstruct(%1, %2, %16, %4)\n"
         "  %cache : Tensor = aten::zeros(%sizes, %6, %none, %none, %none)\n"
         "  %places : Tensor = aten::select(%positions, %0, %0)\n"
         "  %of.k : int[] = prim::ListConstruct(%1, %2, %s, %4)\n"
         "  %k : Tensor = aten::ones(%of.k, %6, %none, %none, %none)\n"
         "  %all : Tensor = aten::index_copy(%cache, %2, %places, %k)\n"
         "  %all.t : Tensor = aten::transpose(%all, %2, %3)\n  %scores : Tensor = aten::matmul(%k, %all.t)\n"
         "  %count : Tensor = aten::arange(%16, %none, %none, %none, %none)\n"
         "  %own : Tensor = aten::unsqueeze(%places, %1)\n" +
         rest + "  return (%y)\n";
}
const std::string kLater = "  %later : Tensor = aten::gt(%count, %own)\n";
const std::string kWeighed =
    "  %masked : Tensor = aten::masked_fill(%scores, %later, %far)\n"
    "  %weights : Tensor = aten::softmax(%masked, %m1, %none)\n";
const std::string kSummed = "  %y : Tensor = aten::matmul(%weights, %all)\n";

struct Read {
  Result<int64_t> places = Failed{};
  std::string text, why;
};
Read readFrom(const std::string& text) {
  Diagnostics diagnostics;
  Read out;
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
  EXPECT_TRUE(graph) << renderDiagnostics(diagnostics, "test");
  if (!graph) return out;
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  RewriteContext context(**graph, allOps(), diagnostics);
  context.evaluator = evaluator.get();
  out.places = readNewTokens(context, (*graph)->input(0), (*graph)->input(1));
  out.text = graphText(**graph);
  if (!diagnostics.list().empty()) out.why = diagnostics.list().front().message;
  return out;
}

TEST(FixedCaches, WhatIsHiddenIsNotRead) {
  const Read read = readFrom(scoring(kLater + kWeighed + kSummed));
  ASSERT_TRUE(read.places) << read.why;
  EXPECT_EQ(*read.places, 16);
  EXPECT_NE(read.text.find("aten::transpose(%k, "), std::string::npos) << read.text;
  EXPECT_NE(read.text.find("aten::matmul(%weights, %k)"), std::string::npos) << read.text;
  EXPECT_NE(read.text.find("aten::slice(%later, "), std::string::npos) << read.text;
}

TEST(FixedCaches, ScoresAreChosenOrFilled) {
  const Read read = readFrom(scoring(kLater +
                                     "  %low : Tensor = aten::full_like(%scores, %far, %none, %none, %none, "
                                     "%none, %none)\n  %masked : Tensor = aten::where(%later, %low, %scores)\n"
                                     "  %weights : Tensor = aten::softmax(%masked, %m1, %none)\n" +
                                     kSummed));
  ASSERT_TRUE(read.places) << read.why;
  EXPECT_NE(read.text.find("aten::matmul(%weights, %k)"), std::string::npos) << read.text;
}

TEST(FixedCaches, WhatSeesOtherPlacesIsRefused) {
  const std::string windows =
      "  %start : Tensor = aten::sub(%own, %4, %1)\n"
      "  %later : Tensor = aten::lt(%count, %start)\n";  // the first ones, and none behind
  EXPECT_EQ(readFrom(scoring(windows + kWeighed + kSummed)).why,
            "places of a cache of a fixed length are read here: its mask does not hide the places after the text");
  EXPECT_EQ(readFrom(scoring(kLater + kWeighed +
                             "  %more : Tensor = aten::add(%weights, %1, %1)\n"
                             "  %y : Tensor = aten::matmul(%more, %all)\n"))
                .why,
            "places of a cache of a fixed length are read here: weights of its keys are changed");
  EXPECT_EQ(readFrom(scoring("  %y : Tensor = aten::matmul(%scores, %all)\n")).why,
            "places of a cache of a fixed length are read here: its values are not weighed by a softmax");
  EXPECT_EQ(readFrom(scoring("  %y : Tensor = aten::sum(%all, %none)\n")).why,
            "places of a cache of a fixed length are read here, which is not known");
}

TEST(FixedCaches, OtherGraphsStayAsTheyAre) {
  const std::string text = "graph(%ids : Tensor, %positions : Long(*, *)):\n  return (%ids)\n";
  const Read read = readFrom(text);
  ASSERT_TRUE(read.places);
  EXPECT_EQ(*read.places, 0);
  EXPECT_NE(read.text.find("%positions : Long(*, *)"), std::string::npos) << read.text;
}

}  // namespace
}  // namespace tscompile::test
