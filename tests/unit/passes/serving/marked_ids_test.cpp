#include "passes/serving/marked_ids.h"

#include "frontend/text/parse.h"
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

TEST(MarkedIds, OperatorsWithoutKernelsMarkNothing) {
  EXPECT_THAT(marksOf("graph(%ids : Tensor):\n"
                      "  %1 : Tensor = _quantized::_wrapped_linear_prepack(%ids, %ids, %ids, %ids)\n"
                      "  return (%1)\n"),
              ElementsAre());
}

}  // namespace
}  // namespace tscompile::test
