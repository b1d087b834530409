// Graphs that write what they keep of earlier tokens become graphs of whole texts.
#include "passes/serving/static_caches.h"

#include "frontend/text/parse.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
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

}  // namespace
}  // namespace tscompile::test
