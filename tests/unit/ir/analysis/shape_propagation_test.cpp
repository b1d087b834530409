// What shape propagation tells of loops and of sizes that are open.
#include "ir/analysis/shape_propagation.h"

#include "frontend/text/parse.h"
#include "ir/support/diagnostic_printer.h"
#include "ir/values/size_expression.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

#include <optional>

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

class Sizes {
 public:
  explicit Sizes(const char* text) {
    Diagnostics diagnostics;
    Result<std::unique_ptr<Graph>> graph = parseGraph(text, diagnostics);
    EXPECT_TRUE(graph.ok()) << renderDiagnostics(diagnostics, "test");
    graph_ = std::move(*graph);
    shapes_.emplace(*graph_, allOps());
  }
  SizeExpression at(const char* name, size_t d) const {
    const Dims& sizes = shapes_->tensor(graph_->find(name)).sizes;
    return d < sizes.size() ? SizeExpression::ofSize(sizes[d]) : SizeExpression::unknown();
  }
  const SymbolicValue& of(const char* name) const { return shapes_->of(graph_->find(name)); }
  const ShapePropagation& all() const { return *shapes_; }
  Graph& graph() { return *graph_; }

 private:
  std::unique_ptr<Graph> graph_;
  std::optional<ShapePropagation> shapes_;
};

// What a loop makes longer in each pass has a size of its own outside, and inside one in each pass.
TEST(ShapePropagation, SizesThatALoopChanges) {
  Sizes s(R"(graph(%x : Float(*, *), %n : int):
  %true : bool = prim::Constant[value=1]()
  %zero : int = prim::Constant[value=0]()
  %y : Tensor = prim::Loop(%n, %true, %x)
    block0(%i : int, %p : Tensor):
      %both : Tensor[] = prim::ListConstruct(%p, %x)
      %next : Tensor = aten::cat(%both, %zero)
      -> (%true, %next)
  return (%y)
)");
  EXPECT_EQ(s.at("y", 1), s.at("x", 1));
  EXPECT_EQ(s.at("next", 0), s.at("p", 0) + s.at("x", 0));
  for (const char* name : {"x", "p", "next"}) EXPECT_EQ(equal(s.at("y", 0), s.at(name, 0)), std::nullopt) << name;
  EXPECT_EQ(s.of("i").integers.has_value() && atMost(0, (*s.of("i").integers)[0]).value_or(false), true);
}

// Results of both branches keep what these have in common.
TEST(ShapePropagation, SizesOfBranches) {
  Sizes s(R"(graph(%x : Float(*, *), %y : Float(*, *), %c : bool):
  %zero : int = prim::Constant[value=0]()
  %z : Tensor, %n : int = prim::If(%c)
    block0():
      %r : Tensor = aten::relu(%x)
      %a : int = aten::size(%x, %zero)
      -> (%r, %a)
    block1():
      %columns : int = aten::size(%y, %zero)
      -> (%x, %columns)
  return (%z, %n)
)");
  EXPECT_EQ(s.at("z", 0), s.at("x", 0));
  EXPECT_EQ(s.at("z", 1), s.at("x", 1));
  ASSERT_TRUE(s.of("n").integers);
  EXPECT_EQ(equal((*s.of("n").integers)[0], s.at("x", 0)), std::nullopt);
}

// Integers that may be negative mean something else to a view.
TEST(ShapePropagation, IntegersThatMayBeNegativeAreNoSizes) {
  Sizes s(R"(graph(%x : Float(*, 4), %n : int):
  %zero : int = prim::Constant[value=0]()
  %one : int = prim::Constant[value=1]()
  %rows : int = aten::size(%x, %zero)
  %less : int = aten::sub(%rows, %one)
  %none : NoneType = prim::Constant()
  %list : int[] = prim::ListConstruct(%n, %less)
  %view : Tensor = aten::view(%x, %list)
  %made : Tensor = aten::zeros(%list, %none, %none, %none, %none)
  %part : Tensor = aten::slice(%x, %zero, %zero, %less, %one)
  return (%view, %made, %part)
)");
  EXPECT_EQ(equal(s.at("view", 0), (*s.of("n").integers)[0]), std::nullopt);
  EXPECT_EQ(s.at("made", 0), SizeExpression((*s.of("n").integers)[0]));
  EXPECT_EQ(s.at("made", 1), s.at("x", 0) - 1);
  EXPECT_EQ(equal(s.at("part", 0), s.at("x", 0) - 1), std::nullopt);
}

// Symbols of an analysis do not leave it.
TEST(ShapePropagation, TypesTellNamedSizesOnly) {
  Sizes s(R"(graph(%x : Float(N, *)):
  %y : Tensor = aten::relu(%x)
  return (%y)
)");
  EXPECT_EQ(s.at("y", 1), s.at("x", 1));
  s.all().applyTo(s.graph());
  EXPECT_EQ(typeText(s.graph().find("y")->type()), "Float(N, *)");
}

}  // namespace
}  // namespace tscompile
