// Patterns and what is made from their matches.
#include "ir/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

Pattern shortPattern(std::string_view text) { return patternOf(shortGraph(text)); }
NodeRewrite rule(std::string_view from, std::string_view to, Sharing sharing = Sharing::SingleUse) {
  return patternRewrite("rule", shortPattern(from).sharing(sharing), shortPattern(to));
}
// The graph after one walk, or until nothing changes.
std::string walked(std::string_view graph, NodeRewrite r, Order order = Order::InToOut,
                   Revisit revisit = Revisit::Created) {
  std::unique_ptr<Graph> g = graphOf(shortGraph(graph));
  return runPlan(*g, Plan::walk("walk", {std::move(r)}, order, revisit)).text;
}

}  // namespace

TEST(Pattern, ReplacesAndPrunes) {
  EXPECT_EQ(walked("%x, %y, %z: f(g(%x, %y), %z)", rule("%a, %b, %c: f(g(%a, %b), %c)", "%c, %b: h(%c, %b)")),
            "h(z, y)");
  EXPECT_EQ(walked("%x, %y: f(%x, %y)", rule("%a, %b: f(%a, %b)", "%a, %b: h(f1(%a), g1(%b), k(%a, %b))")),
            "h(f1(x), g1(y), k(x, y))");
}

TEST(Pattern, ANameTwiceIsOneValue) {
  EXPECT_EQ(walked("%x, %z: f(g(%x, %x), %z)", rule("%a, %b: f(g(%a, %a), %b)", "%a, %b: h(%a, %b)")), "h(x, z)");
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x, %y, %z: f(g(%x, %y), %z)"));
  std::string before = graphText(*g);
  PlanResult r = runPlan(*g, Plan::walk("w", {rule("%a, %b: f(g(%a, %a), %b)", "%a, %b: h(%a, %b)")}));
  EXPECT_FALSE(r.outcome.changed);
  EXPECT_EQ(graphText(*g), before);
}

TEST(Pattern, OscillationIsFound) {
  NodeRewrite swap = rule("%a, %b: g(%a, %b)", "%a, %b: g(%b, %a)");
  EXPECT_EQ(walked("%x, %y: g(%x, %y)", swap, Order::InToOut, Revisit::None), "g(y, x)");
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x, %y: g(%x, %y)"));
  Plan::Equilibrium parts;
  parts.nodes = {swap};
  parts.revisit = Revisit::None;
  PlanResult r = runPlan(*g, Plan::equilibrium("swapping", parts));
  EXPECT_FALSE(r.outcome.converged);
  EXPECT_EQ(r.outcome.stoppedBy, "rule");
  parts.revisit = Revisit::Created;
  r = runPlan(*g, Plan::equilibrium("swapping", parts));
  EXPECT_FALSE(r.outcome.converged);
  EXPECT_NE(r.messages.find("'swapping' was ended before nothing changed any more"), std::string::npos) << r.messages;
}

TEST(Pattern, EveryMatchIsReplaced) {
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x, %y, %z: f(g(%x, %y), g(%x, %y), g(%y, %z))"));
  PlanResult r = runPlan(*g, Plan::walk("w", {rule("%a, %b: g(%a, %b)", "%a: h(%a)")}));
  EXPECT_EQ(r.text, "f(h(x), h(x), h(y))");
  EXPECT_EQ(r.outcome.applied, 3u);
}

TEST(Pattern, PairsCancelInEitherOrder) {
  for (Order order : {Order::InToOut, Order::OutToIn}) {
    NodeRewrite r = rule("%a: f(f(%a))", "%a: %a");
    EXPECT_EQ(walked("%x: f(f(f(f(%x))))", r, order), "x");
    EXPECT_EQ(walked("%x: f(f(f(f(f(%x)))))", r, order), "f(x)");
  }
}

TEST(Pattern, WithoutRevisitingEachNodeIsSeenOnce) {
  EXPECT_EQ(walked("%x: f(f(f(%x)))", rule("%a: f(%a)", "%a: g(f(%a))"), Order::InToOut, Revisit::None),
            "g(f(g(f(g(f(x))))))");
}

TEST(Pattern, ConstantsAreComparedByTypeAndValue) {
  std::unique_ptr<Graph> g = graphOf(
      "graph(%x : Tensor):\n  %a : int = prim::Constant[value=2]()\n  %b : float = prim::Constant[value=2.]()\n"
      "  %y : Tensor = aten::mul(%x, %a)\n  %z : Tensor = aten::mul(%x, %b)\n  return (%y, %z)\n");
  Pattern p = patternOf("graph(%x):\n  %c = prim::Constant[value=2]()\n  %y = aten::mul(%x, %c)\n  return (%y)\n");
  NodeRewrite twice = patternRewrite("r", p, shortPattern("%x: h(%x)"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {twice})).text, "h(x), mul(x, 2.000000)");
}

TEST(Pattern, ConditionsSeeValues) {
  Pattern p = shortPattern("%a: f(%a)");
  p.where("a", [](Value* v, RewriteContext&) { return v->node() && v->node()->kind() == Symbol::of("test::g"); });
  EXPECT_EQ(walked("%x, %y: h(f(g(%x, %y)), f(f1(%x, %y)))", patternRewrite("r", p, shortPattern("%a: k(%a)"))),
            "h(k(g(x, y)), f(f1(x, y)))");
}

TEST(Pattern, SharedInnerValues) {
  std::string graph =
      "graph(%x, %y):\n  %w = test::f(%x, %y)\n  %h = test::h(%w)\n  %k = test::k(%h, %w)\n  return (%k)\n";
  for (auto [sharing, expected] : {std::pair{Sharing::SingleUse, "k(h(f(x, y)), f(x, y))"},
                                   {Sharing::SameUseCount, "k(h(f(x, y)), f(x, y))"},
                                   {Sharing::Shared, "k(k(x, y), f(x, y))"}}) {
    std::unique_ptr<Graph> g = graphOf(graph);
    NodeRewrite r = rule("%a, %b: h(f(%a, %b))", "%a, %b: k(%a, %b)", sharing);
    EXPECT_EQ(runPlan(*g, Plan::walk("w", {r})).text, expected);
  }
  // Inputs of a pattern may have any number of uses.
  std::unique_ptr<Graph> g = graphOf(graph);
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {rule("%a: k(h(%a), %a)", "%a: k(%a, %a)")})).text, "k(f(x, y), f(x, y))");
}

TEST(Pattern, CommutativeOperatorsMatchEitherWay) {
  NodeRewrite r = rule("%a, %b: f(commutes(g(%a), %b), %b)", "%a, %b: h(%a, %b)");
  EXPECT_EQ(walked("%x, %y: f(commutes(g(%x), %y), %y)", r), "h(x, y)");
  EXPECT_EQ(walked("%x, %y: f(commutes(%y, g(%x)), %y)", r), "h(x, y)");
  NodeRewrite ordered = rule("%a, %b: f(k(g(%a), %b), %b)", "%a, %b: h(%a, %b)");
  EXPECT_EQ(walked("%x, %y: f(k(%y, g(%x)), %y)", ordered), "f(k(y, g(x)), y)");
  // The binding that fits only the other way round.
  NodeRewrite crossing = rule("%p, %q: f(commutes(%p, %q), %q)", "%p, %q: h(%p, %q)");
  EXPECT_EQ(walked("%a, %b: f(commutes(%a, %b), %a)", crossing), "h(b, a)");
}

TEST(Pattern, TheRestOfTheInputs) {
  NodeRewrite r = patternRewrite(
      "r",
      patternOf("graph(%first, %d, %rest...):\n  %g = test::g(%first)\n  %l = prim::ListConstruct(%g, %rest...)\n"
                "  %y = aten::cat(%l, %d)\n  return (%y)\n"),
      patternOf("graph(%first, %d, %rest...):\n  %l : Tensor[] = prim::ListConstruct(%first, %rest...)\n"
                "  %y = aten::cat(%l, %d)\n  return (%y)\n"));
  for (auto [rest, expected] : {std::pair{"%g, %x, %y, %z", "cat(ListConstruct(x, x, y, z), 0)"},
                                {"%g", "cat(ListConstruct(x), 0)"},
                                {"%x, %g", "cat(ListConstruct(x, g(x)), 0)"}}) {
    std::unique_ptr<Graph> g = graphOf(
        "graph(%x : Tensor, %y : Tensor, %z : Tensor):\n  %d : int = prim::Constant[value=0]()\n"
        "  %g : Tensor = test::g(%x)\n  %l : Tensor[] = prim::ListConstruct(" +
        std::string(rest) + ")\n  %r : Tensor = aten::cat(%l, %d)\n  return (%r)\n");
    EXPECT_EQ(runPlan(*g, Plan::walk("w", {r})).text, expected);
  }
  Diagnostics diagnostics;
  EXPECT_FALSE(
      Pattern::parse("graph(%r..., %a):\n  %l = prim::ListConstruct(%r..., %a)\n  return (%l)\n", diagnostics));
  EXPECT_NE(renderDiagnostics(diagnostics, "t").find("the rest of the inputs, %r..., comes last"), std::string::npos);
}

TEST(Pattern, AnyOperator) {
  NodeRewrite r = patternRewrite("r",
                                 patternOf("graph(%a, %rest...):\n  %g = test::g(%a)\n  %y = any::op(%g, %rest...)\n"
                                           "  return (%y)\n"),
                                 patternOf("graph(%a, %rest...):\n  %y = any::op(%a, %rest...)\n  return (%y)\n"));
  EXPECT_EQ(walked("%x, %y, %z: h(k(g(%x)), f(g(%y), %x, %z))", r), "h(k(x), f(y, x, z))");
}

TEST(Pattern, TypesOfPatterns) {
  std::string graph =
      "graph(%x : Float(2, 64), %y : Double(2, 64), %z : Tensor):\n  %a : Tensor = aten::relu(%x)\n"
      "  %b : Tensor = aten::relu(%y)\n  %c : Tensor = aten::relu(%z)\n  return (%a, %b, %c)\n";
  auto run = [&](const std::string& type) {
    std::unique_ptr<Graph> g = graphOf(graph);
    NodeRewrite r = patternRewrite("r", patternOf("graph(%x : " + type + "):\n  %y = aten::relu(%x)\n  return (%y)\n"),
                                   shortPattern("%x: h(%x)"));
    return runPlan(*g, Plan::walk("w", {r})).text;
  };
  EXPECT_EQ(run("Float(*, 64)"), "h(x), relu(y), relu(z)");
  EXPECT_EQ(run("DoubleTensor"), "relu(x), h(y), relu(z)");
  EXPECT_EQ(run("Float(*, 3)"), "relu(x), relu(y), relu(z)");
  EXPECT_EQ(run("Tensor"), "h(x), h(y), h(z)");
}

TEST(Pattern, ReportsWhatIsWrong) {
  auto messages = [](std::string_view text) {
    Diagnostics diagnostics;
    EXPECT_FALSE(Pattern::parse(text, diagnostics));
    return renderDiagnostics(diagnostics, "t");
  };
  EXPECT_NE(messages("graph(%x):\n  %y = test::f(%x)\n  %z = test::g(%x, %w)\n  return (%z)\n").find("<pattern>:3:"),
            std::string::npos);
  EXPECT_NE(messages("graph(%x, %w):\n  %y = test::f(%x)\n  %z = test::g(%w)\n  return (%y, %z)\n")
                .find("the nodes of a pattern are connected by values"),
            std::string::npos);
  EXPECT_NE(messages("graph(%x):\n  %y = test::f[a=~\"(\"](%x)\n  return (%y)\n").find("is no regular expression"),
            std::string::npos);
}

}  // namespace tscompile::test
