#include "ir/graph/module_path.h"

#include "frontend/text/parse.h"
#include "ir/graph/graph.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

std::string pathOfLast(const std::string& scope) {
  Diagnostics diagnostics;
  auto text = parseText(
      SourceFile::make("x.ir", "graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)" + scope + "\n  return (%y)\n"),
      diagnostics);
  std::string out = "?";
  if (text) forEachNode(*text->graphs[0], [&](const Node* n) { out = modulePath(n); });
  return out;
}

TEST(ModulePath, OfAllKindsOfScopes) {
  EXPECT_EQ(pathOfLast(""), "");
  EXPECT_EQ(pathOfLast(", scope: __module.layer1/__module.layer1.0/__module.layer1.0.conv1"), "layer1.0.conv1");
  EXPECT_EQ(pathOfLast(", scope: net.Net::/torch.nn.Sequential::layer1/torch.nn.Conv2d::0"), "layer1.0");
  EXPECT_EQ(pathOfLast(", scope: net.Net::/net.Block::layers.3/torch.nn.Linear::fc"), "layers.3.fc");
  EXPECT_EQ(pathOfLast(", scope: ResNet/Sequential[layer1]/Conv2d[conv1]"), "layer1.conv1");
}

TEST(ModulePath, OfTheNamesOfWeights) {
  Diagnostics diagnostics;
  auto text = parseText(
      SourceFile::make("x.ir",
                       "graph(%x : Tensor):\n  %self.feat.conv1.weight : Tensor = prim::Constant[value=<Tensor>]()\n"
                       "  %y : Tensor = aten::matmul(%x, %self.feat.conv1.weight)\n  return (%y)\n"),
      diagnostics);
  ASSERT_TRUE(text);
  EXPECT_EQ(modulePath(text->graphs[0]->outputs()[0].value->node()), "feat.conv1");
}

TEST(ModulePath, NumbersOfAModuleTellNothing) {
  Diagnostics diagnostics;
  auto text =
      parseText(SourceFile::make("x.ir",
                                 "graph(%x : Tensor):\n  %self.attention.heads : int = prim::Constant[value=1]()\n"
                                 "  %y : Tensor = aten::softmax(%x, %self.attention.heads)\n  return (%y)\n"),
                diagnostics);
  ASSERT_TRUE(text);
  EXPECT_EQ(modulePath(text->graphs[0]->outputs()[0].value->node()), "");
}

TEST(ModulePath, ScopesGrowByThePathsOfModules) {
  const Symbol outer = scopeOfModule(Symbol(), "layer1");
  EXPECT_EQ(outer.text(), "__module.layer1");
  EXPECT_EQ(scopeOfModule(outer, "layer1.0").text(), "__module.layer1/__module.layer1.0");
  EXPECT_EQ(scopeOfModule(outer, "layer1"), outer);  // a method that calls another one of its module
  EXPECT_EQ(scopeOfModule(outer, "a, b\n"), outer);  // no text that could be read back
}

}  // namespace
}  // namespace tscompile
