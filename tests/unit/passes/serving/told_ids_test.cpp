#include "frontend/text/parse.h"
#include "passes/serving/marked_ids.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tscompile::test {
namespace {

using Ids = std::vector<int64_t>;

constexpr int64_t kWords = 700;

// Of a graph that computes %flags from %ids.
Ids toldBy(const std::string& lines) {
  Diagnostics diagnostics;
  const std::string text =
      "graph(%ids : Long(*, *), %mask : Long(*, *)):\n"
      "  %0 : int = prim::Constant[value=0]()\n  %1 : int = prim::Constant[value=1]()\n"
      "  %7 : int = prim::Constant[value=7]()\n  %no : bool = prim::Constant[value=0]()\n"
      "  %none : NoneType = prim::Constant()\n  %float : int = prim::Constant[value=6]()\n"
      "  %m1 : int = prim::Constant[value=-1]()\n  %n : int = prim::Constant[value=700]()\n" +
      lines + "  return (%flags)\n";
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
  if (!graph) return {-1};
  RewriteContext context(**graph, allOps(), diagnostics);
  const std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  context.evaluator = evaluator.get();
  return toldIds(**graph, (*graph)->input(0), kWords, context);
}

TEST(ToldIds, AreThoseThatFewAreLike) {
  EXPECT_EQ(toldBy("  %f : Tensor = aten::to(%ids, %float, %no, %no, %none)\n"
                   "  %x : float = prim::Constant[value=7.]()\n  %flags : Tensor = aten::eq(%f, %x)\n"),
            Ids{7});
  EXPECT_EQ(toldBy("  %f : Tensor = aten::mul(%ids, %7)\n  %x : int = prim::Constant[value=49]()\n"
                   "  %flags : Tensor = aten::lt(%f, %x)\n"),
            (Ids{0, 1}));
  EXPECT_EQ(toldBy("  %all : Tensor = aten::arange(%n, %none, %none, %none, %none)\n"
                   "  %bits : Tensor = aten::eq(%all, %7)\n  %flags : Tensor = aten::take(%bits, %ids)\n"),
            Ids{7});
}

// Of three kinds those of the two that are rarer.
TEST(ToldIds, AreOfEachKind) {
  EXPECT_EQ(toldBy("  %x : int = prim::Constant[value=300]()\n  %y : int = prim::Constant[value=690]()\n"
                   "  %a : Tensor = aten::gt(%ids, %x)\n  %b : Tensor = aten::gt(%ids, %y)\n"
                   "  %flags : Tensor = aten::add(%a, %b, %1)\n"),
            (Ids{0, 1, 691, 692}));
}

TEST(ToldIds, WhatTellsAllApartTellsNone) {
  EXPECT_EQ(toldBy("  %flags : Tensor = aten::mul(%ids, %7)\n"), Ids{});
  EXPECT_EQ(toldBy("  %flags : Tensor = aten::eq(%ids, %mask)\n"), Ids{});
}

}  // namespace
}  // namespace tscompile::test
