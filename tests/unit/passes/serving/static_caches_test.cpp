// Graphs that write what they keep of earlier tokens become graphs of whole texts.
#include "passes/serving/static_caches.h"

#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/serving/one_token.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> graphOfCaches(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
  EXPECT_TRUE(graph) << renderDiagnostics(diagnostics, "test");
  return graph ? std::move(*graph) : nullptr;
}

std::string writingKeys(const std::string& ids, const std::string& rest) {
  return "graph(%self : __torch__.Decoder, %ids : " + ids +
         ", %input_pos : Tensor):\n  %1 : int = prim::Constant[value=1]()\n"
         "  %k : Tensor = prim::GetAttr[name=\"keys\"](%self)\n" +
         rest + "  return (%y)\n";
}
const std::string kKeysWritten = "  %all : Tensor = aten::index_copy_(%k, %1, %input_pos, %ids)\n";

TEST(StaticCaches, PlacesCountAndWhatIsReadAgainIsWhatWasWritten) {
  std::unique_ptr<Graph> g =
      graphOfCaches(writingKeys("Tensor", kKeysWritten + "  %again : Tensor = prim::GetAttr[name=\"keys\"](%self)\n"
                                                         "  %y : Tensor = aten::relu(%again)\n"));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::WholeText);
  EXPECT_EQ(g->inputs().size(), 2u);
  const std::string text = graphText(*g);
  EXPECT_NE(text.find("aten::arange("), std::string::npos) << text;
  const size_t copy = text.find(" : Tensor = aten::clone(%k"), name = text.rfind('%', copy);
  ASSERT_NE(copy, std::string::npos) << text;
  EXPECT_NE(text.find("aten::relu(" + text.substr(name, copy - name) + ")"), std::string::npos) << text;
}

TEST(StaticCaches, AGraphForOneTokenRunsForEach) {
  std::unique_ptr<Graph> g =
      graphOfCaches(writingKeys("Long(1, 1)", kKeysWritten + "  %y : Tensor = aten::relu(%k)\n"));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::OneByOne);
  const std::string text = graphText(*g);
  EXPECT_NE(text.find("prim::Loop("), std::string::npos) << text;
  EXPECT_EQ(text.find("%input_pos"), std::string::npos) << text;
}

TEST(StaticCaches, OtherGraphsStayAsTheyAre) {
  for (const char* rest : {"  %y : Tensor = aten::add(%k, %ids, %1)\n",
                           "  %y : Tensor = aten::index_copy_(%k, %1, %input_pos, %ids)\n  %n : NoneType = "
                           "prim::SetAttr[name=\"keys\"](%self, %y)\n"}) {
    std::unique_ptr<Graph> g = graphOfCaches(writingKeys("Tensor", rest));
    const std::string before = graphText(*g);
    EXPECT_EQ(readWholeTexts(*g, allOps()), StaticCaches::None) << rest;
    EXPECT_EQ(graphText(*g), before);
  }
}

TEST(StaticCaches, MasksAsLongAsTheyAreShowWhatIsWritten) {
  const std::string rest =
      "  %all : Float(1, 6) = aten::index_copy_(%k, %1, %input_pos, %ids)\n"
      "  %y : Tensor = aten::mul(%all, %attention_mask)\n";
  for (const char* ids : {"Long(1, *)", "Long(1, 1)"}) {
    std::string text = writingKeys(ids, rest);
    const std::string places = "%input_pos : Tensor";
    text.replace(text.find(places), places.size(), places + ", %attention_mask : Long(1, 6)");
    std::unique_ptr<Graph> g = graphOfCaches(text);
    StaticCacheFacts facts;
    ASSERT_NE(readWholeTexts(*g, allOps(), &facts), StaticCaches::None);
    EXPECT_EQ(facts.mask, "attention_mask");
    EXPECT_EQ(facts.tokens, 6);
    EXPECT_EQ(g->inputs().size(), 2u);
    EXPECT_NE(graphText(*g).find("aten::le("), std::string::npos) << graphText(*g);
  }
}

TEST(StaticCaches, WhatIsWrittenForTheNextCallAloneGoes) {
  std::unique_ptr<Graph> g =
      graphOfCaches(writingKeys("Tensor", kKeysWritten + "  %y : Tensor = aten::relu(%all)\n"
                                                         "  %next : Tensor = aten::add_(%k, %1, %1)\n"));
  ASSERT_EQ(readWholeTexts(*g, allOps()), StaticCaches::WholeText);
  EXPECT_EQ(graphText(*g).find("aten::add_"), std::string::npos) << graphText(*g);
}

// [1, 1, 8] -> [1, 8] -> [1, 1, 2, 4] -> [1, 2, 1, 4]
TEST(OneToken, SizesOfTokensBecomeOpen) {
  const std::string ids = "graph(%ids : Long(1, 1), %table : Float(9, 8)):\n";
  const std::string rest =
      "  %m1 : int = prim::Constant[value=-1]()\n  %1 : int = prim::Constant[value=1]()\n"
      "  %2 : int = prim::Constant[value=2]()\n  %no : bool = prim::Constant[value=0]()\n"
      "  %rows : int[] = prim::Constant[value=[1, 8]]()\n  %heads : int[] = prim::Constant[value=[1, 1, 2, 4]]()\n"
      "  %x : Float(1, 1, 8) = aten::embedding(%table, %ids, %m1, %no, %no)\n"
      "  %r : Float(1, 8) = aten::reshape(%x, %rows)\n  %h : Float(1, 1, 2, 4) = aten::reshape(%r, %heads)\n"
      "  %y : Float(1, 2, 1, 4) = aten::transpose(%h, %1, %2)\n  return (%y)\n";
  std::unique_ptr<Graph> g = graphOfCaches(ids + rest);
  ASSERT_TRUE(widenToTexts(*g, allOps()));
  std::string text = graphText(*g);
  EXPECT_NE(text.find("%ids : Long(1, *)"), std::string::npos) << text;
  EXPECT_NE(text.find("%y : Float(1, 2, *, 4)"), std::string::npos) << text;
  EXPECT_FALSE(widenToTexts(*graphOfCaches("graph(%ids : Long(1, 3)):\n  return (%ids)\n"), allOps()));
}

}  // namespace
}  // namespace tscompile::test
