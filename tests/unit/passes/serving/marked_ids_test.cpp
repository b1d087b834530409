#include "passes/serving/marked_ids.h"

#include "frontend/text/parse.h"
#include "ir/values/random.h"
#include "runtime/registry.h"

#include <gmock/gmock.h>

namespace tscompile::test {
namespace {

using ::testing::ElementsAre;

std::vector<int64_t> marksOf(const char* text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
  RewriteContext context(**graph, allOps(), diagnostics);
  return markedIds(**graph, (*graph)->input(0), context);
}

TEST(MarkedIds, AreWhatIdsAreComparedWith) {
  EXPECT_THAT(marksOf("graph(%ids : Tensor):\n"
                      "  %end : int = prim::Constant[value=7]()\n"
                      "  %at : int = prim::Constant[value=3]()\n"
                      "  %isEnd : Tensor = aten::eq(%ids, %end)\n"
                      "  %rows : Tensor = aten::unsqueeze(%isEnd, %at)\n"
                      "  return (%rows)\n"),
              ElementsAre(7));
}

TEST(MarkedIds, OrdersMarkBothSides) {
  EXPECT_THAT(marksOf("graph(%ids : Tensor):\n"
                      "  %first : int = prim::Constant[value=70]()\n"
                      "  %isSpecial : Tensor = aten::gt(%ids, %first)\n"
                      "  return (%isSpecial)\n"),
              ElementsAre(70, 69, 71));
}

// Of a graph that chooses rows of this table.
std::vector<int64_t> marksOfTable(const Tensor& table) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(
      "graph(%ids : Tensor):\n"
      "  %table : Tensor = prim::Constant[value={0}]()\n"
      "  %at : Tensor?[] = prim::ListConstruct(%ids)\n"
      "  %rows : Tensor = aten::index(%table, %at)\n"
      "  return (%rows)\n",
      diagnostics);
  (*graph)->find("table")->node()->setAttribute(sym::value, IValue(table));
  RewriteContext context(**graph, allOps(), diagnostics);
  return markedIds(**graph, (*graph)->input(0), context);
}

TEST(MarkedIds, RowsOfFewAndOfZerosStandOutInTables) {
  EXPECT_THAT(marksOfTable(Tensor::of<int64_t>(Dims{6}, std::array<int64_t, 6>{4, 4, 1, 2, 4, 1})), ElementsAre(3, 2));
  EXPECT_THAT(marksOfTable(Tensor::of<bool>(Dims{4}, std::array{false, false, false, true})), ElementsAre(3, 0));
  std::vector<float> words(80);
  for (size_t i = 0; i < words.size(); ++i) words[i] = i / 2 == 35 ? 0.0F : static_cast<float>(i);
  EXPECT_THAT(marksOfTable(Tensor::of<float>(Dims{40, 2}, words)), ElementsAre(35));
}

TEST(MarkedIds, OperatorsWithoutKernelsMarkNothing) {
  EXPECT_THAT(marksOf("graph(%ids : Tensor):\n"
                      "  %1 : Tensor = _quantized::_wrapped_linear_prepack(%ids, %ids, %ids, %ids)\n"
                      "  return (%1)\n"),
              ElementsAre());
}

// A third of a text has earlier ids, unless there are so few words that it has them anyway.
TEST(MarkedIds, SomeIdsComeAgain) {
  int again = 0;
  for (size_t i = 0; i < 300; ++i) {
    const uint64_t bits = random::bits(1, i);
    EXPECT_EQ(placeOfId(bits, i, 100), i);
    EXPECT_LE(placeOfId(bits, i, 5000), i);
    again += placeOfId(bits, i, 5000) < i;
  }
  EXPECT_GT(again, 70);
  EXPECT_LT(again, 130);
}

}  // namespace
}  // namespace tscompile::test
