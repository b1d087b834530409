// What shape propagation tells of loops.
#include "ir/analysis/shape_propagation.h"

#include "frontend/text/parse.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

// Each round moves the values on by one place, so that the last one changes in the sixth round only.
TEST(ShapePropagation, ForgetsWhatALongChainOfCarriedValuesChanges) {
  constexpr const char* kText = R"(graph(%x : Float(2, 3), %n : int, %zero : int):
  %true : bool = prim::Constant[value=1]()
  %a : Tensor, %b : Tensor, %c : Tensor, %d : Tensor, %e : Tensor, %f : Tensor = prim::Loop(%n, %true, %x, %x, %x, %x, %x, %x)
    block0(%i : int, %p : Tensor, %q : Tensor, %r : Tensor, %s : Tensor, %t : Tensor, %u : Tensor):
      %first : Tensor = aten::unsqueeze(%p, %zero)
      %last : Tensor = aten::relu(%u)
      -> (%true, %first, %p, %q, %r, %s, %t)
  return (%f)
)";
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(kText, diagnostics);
  ASSERT_TRUE(graph.ok()) << renderDiagnostics(diagnostics, "test");
  ShapePropagation shapes(**graph, allOps());
  for (const char* name : {"a", "f", "last"}) EXPECT_FALSE(shapes.tensor((*graph)->find(name)).hasRank) << name;
}

// Values that stay as they are keep their sizes.
TEST(ShapePropagation, KeepsWhatALoopDoesNotChange) {
  constexpr const char* kText = R"(graph(%x : Float(2, 3), %n : int):
  %true : bool = prim::Constant[value=1]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %p : Tensor):
      %next : Tensor = aten::relu(%p)
      -> (%true, %next)
  return (%y)
)";
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> graph = parseGraph(kText, diagnostics);
  ASSERT_TRUE(graph.ok()) << renderDiagnostics(diagnostics, "test");
  ShapePropagation shapes(**graph, allOps());
  EXPECT_EQ(typeText(shapes.of((*graph)->find("y")).type), "Float(2, 3)");
}

}  // namespace
}  // namespace tscompile
