#include "ir/graph/expression.h"

#include "frontend/text/parse.h"
#include "ir/graph/builder.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"
#include "tests/support/property.h"
#include "tests/support/random_graph.h"

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> graphOf(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("text", text), diagnostics);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : nullptr;
}

// What the graph of these nodes returns as "%out".
std::string formula(const std::string& nodes, const ExpressionOptions& options = {}) {
  auto g =
      graphOf("graph(%A : Tensor, %x : Tensor, %y : Tensor, %z : Tensor):\n  %one : int = prim::Constant[value=1]()\n" +
              nodes + "  return (%out)\n");
  return expressionText(g->output(0), options);
}

Value* add(Builder& b, Value* x, Value* y) { return b.insert(Symbol::of("aten::add"), {x, y})->output(); }

}  // namespace

TEST(Expression, BracketsFollowBinding) {
  struct Case {
    const char *nodes, *few, *all;
  };
  static const Case kCases[] = {
      {"  %1 : Tensor = aten::add(%x, %y, %one)\n  %out : Tensor = aten::matmul(%A, %1)\n", "A @ (x + y)",
       "(A @ (x + y))"},
      {"  %1 : Tensor = aten::matmul(%A, %x)\n  %2 : Tensor = aten::matmul(%A, %y)\n"
       "  %out : Tensor = aten::add(%1, %2, %one)\n",
       "A @ x + A @ y", "((A @ x) + (A @ y))"},
      {"  %1 : Tensor = aten::sub(%x, %y, %one)\n  %out : Tensor = aten::sub(%1, %z, %one)\n", "x - y - z",
       "((x - y) - z)"},
      {"  %1 : Tensor = aten::sub(%y, %z, %one)\n  %out : Tensor = aten::sub(%x, %1, %one)\n", "x - (y - z)",
       "(x - (y - z))"},
      {"  %1 : Tensor = aten::pow(%y, %z)\n  %out : Tensor = aten::pow(%x, %1)\n", "x ** y ** z", "(x ** (y ** z))"},
      {"  %1 : Tensor = aten::pow(%x, %y)\n  %out : Tensor = aten::pow(%1, %z)\n", "(x ** y) ** z", "((x ** y) ** z)"},
      {"  %1 : Tensor = aten::neg(%x)\n  %out : Tensor = aten::pow(%1, %y)\n", "(-x) ** y", "((-x) ** y)"},
      {"  %1 : Tensor = aten::pow(%x, %y)\n  %out : Tensor = aten::neg(%1)\n", "-x ** y", "(-(x ** y))"},
      {"  %1 : Tensor = aten::neg(%y)\n  %out : Tensor = aten::pow(%x, %1)\n", "x ** -y", "(x ** (-y))"},
      {"  %1 : Tensor = aten::add(%x, %y, %one)\n  %out : Tensor = aten::relu(%1)\n", "relu(x + y)", "relu((x + y))"},
      {"  %1 : Tensor = aten::lt(%x, %y)\n  %out : Tensor = aten::eq(%1, %z)\n", "(x < y) == z", "((x < y) == z)"},
      {"  %out : Tensor = aten::add(%x, %y, %x)\n", "add(x, y, x)", "add(x, y, x)"},
  };
  for (const Case& c : kCases) {
    EXPECT_EQ(formula(c.nodes), c.few);
    EXPECT_EQ(formula(c.nodes, {.allBrackets = true}), c.all);
  }
}

TEST(Expression, SharedValuesAreWrittenOnce) {
  EXPECT_EQ(formula("  %1 : Tensor = aten::add(%y, %z, %one)\n  %2 : Tensor = aten::mul(%1, %x)\n"
                    "  %out : Tensor = aten::div(%2, %1)\n"),
            "(*1 -> y + z) * x / *1");
  // Used twice in the graph, but once in this expression.
  auto g = graphOf(
      "graph(%x : Tensor):\n  %1 : Tensor = aten::relu(%x)\n  %2 : Tensor = aten::exp(%1)\n"
      "  %3 : Tensor = aten::sin(%1)\n  return (%2, %3)\n");
  EXPECT_EQ(expressionText(g->output(0)), "exp(relu(x))");
  EXPECT_EQ(expressionText(*g), "graph(x):\n  return exp(*1 -> relu(x)), sin(*1)\n");
}

TEST(Expression, ModulesAreWrittenByTheirPath) {
  auto g = graphOf(
      "graph(%self : __torch__.M, %x : Tensor):\n"
      "  %1 : __torch__.N = prim::GetAttr[name=\"conv\"](%self)\n"
      "  %2 : Tensor = prim::GetAttr[name=\"weight\"](%1)\n"
      "  %3 : Tensor = prim::GetAttr[name=\"bias\"](%1)\n"
      "  %4 : Tensor = aten::linear(%x, %2, %3)\n"
      "  return (%4)\n");
  EXPECT_EQ(expressionText(g->output(0)), "linear(x, self.conv.weight, self.conv.bias)");
}

TEST(Expression, LongConstantsAreNotRepeated) {
  std::string list = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13]";
  EXPECT_EQ(formula("  %l : int[] = prim::Constant[value=" + list +
                    "]()\n  %1 : Tensor = aten::view(%x, %l)\n  %out : Tensor = aten::view(%1, %l)\n"),
            "view(view(x, *1 -> " + list + "), *1)");
}

TEST(Expression, TreesNameNodesByLetters) {
  auto g = graphOf(
      "graph(%x : Tensor, %y : Tensor):\n  %1 : Tensor = aten::mul(%x, %y)\n  %2 : Tensor = aten::add(%1, %1)\n"
      "  return (%2)\n");
  EXPECT_EQ(treeText(g->output(0)),
            "add [id A] '2'\n"
            " |mul [id B] '1'\n"
            " | |x [id C]\n"
            " | |y [id D]\n"
            " |mul [id B] '1'\n");
}

TEST(Expression, DoublingChainsStayLinear) {
  Graph graph;
  Builder b(graph);
  Value* v = graph.addInput(types().tensor);
  constexpr size_t kSteps = 10'000;
  for (size_t i = 0; i < kSteps; ++i) v = add(b, v, v);
  graph.addOutput(v);
  EXPECT_LT(expressionText(graph).size(), kSteps * 40);
  EXPECT_LT(expressionText(v).size(), kSteps * 40);
  size_t lines = 0;
  printTree(graph, [&](std::string_view piece) { lines += std::count(piece.begin(), piece.end(), '\n'); });
  EXPECT_EQ(lines, 2 * kSteps + 2);
}

TEST(Expression, DeepExpressionsAndBlocksCostNoStack) {
  Graph graph;
  Builder b(graph);
  Value* x = graph.addInput(types().tensor);
  Value* v = x;
  constexpr size_t kSteps = 200'000;
  for (size_t i = 0; i < kSteps; ++i) v = b.insert(Symbol::of("aten::sub"), {x, v})->output();
  graph.addOutput(v);
  std::string text = expressionText(v);
  EXPECT_TRUE(text.starts_with("%0 - (%0 - (%0"));
  EXPECT_GT(text.size(), kSteps * 4);

  Value* c = graph.addInput(types().boolean);
  Block* at = graph.block();
  for (size_t i = 0; i < kSteps; ++i) {
    Node* n = graph.create(sym::If, {c}, 0);
    at->append(n);
    at = n->addBlock();
    n->addBlock();
  }
  size_t bytes = 0;
  TextSink count = [&](std::string_view piece) { bytes += piece.size(); };
  EXPECT_FALSE(printExpression(graph, count, {.maxBytes = 1 << 24}));
  EXPECT_EQ(bytes, size_t{1} << 24);
  bytes = 0;
  EXPECT_FALSE(printTree(graph, count, 1 << 24));
  EXPECT_EQ(bytes, size_t{1} << 24);
}

TEST(Expression, EveryGraphCanBeShown) {
  forEachSeed(200, [](uint64_t seed) {
    Choices choices(seed);
    std::unique_ptr<Graph> graph = randomGraph(choices, allOps());
    std::string formulas = expressionText(*graph), tree = treeText(*graph);
    EXPECT_NE(formulas.find("  return"), std::string::npos);
    // Every node but constants is there by its name.
    forEachNode(*graph, [&](Node* n) {
      if (n->kind() == sym::Constant || n->kind() == sym::If || n->kind() == sym::Loop) return;
      EXPECT_NE(tree.find(n->kind().name()), std::string::npos) << nodeText(*n);
    });
    for (const Use& u : graph->outputs()) {
      expressionText(u.value);
      treeText(u.value);
    }
  });
}

}  // namespace tscompile::test
