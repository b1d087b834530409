#include "tools/pages/graph_lanes.h"

#include "frontend/text/parse.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

// A line for each row: a value that is taken again later keeps its lane until then.
TEST(GraphLanes, ValuesHaveALaneUntilTheyAreTakenLast) {
  Diagnostics diagnostics;
  auto text = parseText(SourceFile::make("x.ir",
                                         "graph(%x : Tensor):\n  %one : int = prim::Constant[value=1]()\n"
                                         "  %a : Tensor = aten::relu(%x)\n  %b : Tensor = aten::neg(%a)\n"
                                         "  %c : Tensor = aten::add(%b, %x, %one)\n  return (%c)\n"),
                        diagnostics);
  ASSERT_TRUE(text);
  const ReportGraph graph(*text->graphs[0], nullptr);
  ASSERT_EQ(graph.rows.size(), 5u);  // input, three nodes, result
  EXPECT_EQ(graph.rows[3].inputs, (std::vector<uint32_t>{2, 0}));
  const LaneDrawing one = drawLanes(graph, {0, 1, 2, 3, 4}, 50);
  ASSERT_EQ(one.chunks.size(), 1u);
  // %x stays in the first lane, %a and %b share the second, %c takes the first one over.
  EXPECT_EQ(one.chunks[0].plainDots, "M8 11h0M8 99h0");
  EXPECT_EQ(one.chunks[0].otherDots, "M18 33h0M18 55h0M8 77h0");
  EXPECT_EQ(one.chunks[0].lines,
            "M8 22L18 33M18 44L18 55M18 66L8 77M8 66L8 77M8 88L8 99M8 11V66M18 33V44M18 55V66M8 77V88");
  EXPECT_EQ(one.width, 26);
  // In pieces of two lines, lanes go on at the top of the next.
  const LaneDrawing two = drawLanes(graph, {0, 1, 2, 3, 4}, 2);
  ASSERT_EQ(two.chunks.size(), 3u);
  EXPECT_EQ(two.chunks[1].lines, "M18 0L18 11M18 22L8 33M8 22L8 33M8 0V22M18 11V22M8 33V44");
}

}  // namespace
}  // namespace tscompile
