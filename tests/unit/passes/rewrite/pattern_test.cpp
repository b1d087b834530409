// Patterns and what is made from their matches.
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/rewrite/profile.h"
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

TEST(Pattern, ANameTwiceMayBeEqualConstants) {
  NodeRewrite r = patternRewrite("r", patternOf("graph(%x, %a):\n  %y = aten::clamp(%x, %a, %a)\n  return (%y)\n"),
                                 shortPattern("%x: h(%x)"));
  auto clamped = [&](const std::string& low, const std::string& high) {
    std::unique_ptr<Graph> g = graphOf("graph(%x : Tensor):\n  %a " + low + "\n  %b " + high +
                                       "\n  %y : Tensor = aten::clamp(%x, %a, %b)\n  return (%y)\n");
    return runPlan(*g, Plan::walk("w", {r})).outcome.changed;
  };
  auto number = [](const char* type, const char* value) {
    return std::string(": ") + type + " = prim::Constant[value=" + value + "]()";
  };
  EXPECT_TRUE(clamped(number("int", "2"), number("int", "2")));
  EXPECT_FALSE(clamped(number("int", "2"), number("int", "3")));
  EXPECT_FALSE(clamped(number("int", "2"), number("float", "2.")));
  const char *one = " 1  2 [ CPUFloatType{2} ]", *other = " 1  3 [ CPUFloatType{2} ]",
             *wide = " 1  2 [ CPUDoubleType{2} ]", *row = " 1  2 [ CPUFloatType{1,2} ]";
  EXPECT_TRUE(clamped(number("Tensor", one), number("Tensor", one)));
  for (const char* t : {other, wide, row}) EXPECT_FALSE(clamped(number("Tensor", one), number("Tensor", t))) << t;
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
  g = graphOf(shortGraph("%x, %y, %z: f(g(%x, %y), g(%x, %y), g(%y, %z))"));
  Profile profile;
  PlanSettings settings;
  settings.profile = &profile;
  Plan::Equilibrium parts;
  parts.nodes = {rule("%a, %b: g(%a, %b)", "%a: h(%a)")};
  runPlan(*g, Plan::equilibrium("e", parts), settings);
  const auto& rewrites = std::get<Profile::Equilibrium>(profile.detail).rewrites;
  ASSERT_EQ(rewrites.size(), 1u);
  EXPECT_EQ(rewrites[0].applied, 3u);
  EXPECT_EQ(rewrites[0].created, 3u);
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
  NodeRewrite byValue = patternRewrite("r", p.constantsByValue(), shortPattern("%x: h(%x)"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {byValue})).text, "h(x), h(x)");
}

TEST(Pattern, ConstantsMayBeVariables) {
  NodeRewrite r = patternRewrite(
      "r",
      patternOf("graph(%x):\n  %c = prim::Constant[value=$n]()\n  %p = aten::mul(%x, %c)\n  %y = aten::mul(%p, %c)\n"
                "  return (%y)\n"),
      patternOf("graph(%x):\n  %c : int = prim::Constant[value=$n]()\n  %p = aten::pow(%x, %c)\n"
                "  %y = test::h[n=$n](%p)\n  return (%y)\n"));
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: aten::mul(aten::mul(%x, 7), 7)")),
                         other = graphOf(shortGraph("%x: aten::mul(aten::mul(%x, 7), 8)"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {r})).text, "h(pow(x, 7))");
  EXPECT_NE(graphText(*g).find("test::h[n=7]"), std::string::npos);
  EXPECT_FALSE(runPlan(*other, Plan::walk("w", {r})).outcome.changed);
}

// Whether a node with these attributes matches a pattern with those.
bool matches(const std::string& pattern, const std::string& node) {
  std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %y = test::f" + node + "(%x)\n  return (%y)\n");
  NodeRewrite r = patternRewrite("r", patternOf("graph(%x):\n  %y = test::f" + pattern + "(%x)\n  return (%y)\n"),
                                 shortPattern("%x: h(%x)"));
  return runPlan(*g, Plan::walk("w", {r})).outcome.changed;
}

// std::regex recursed on each character here, and took exponential time there.
TEST(Pattern, RegularExpressionsTakeLinearTimeAndNoStack) {
  std::string many(1000000, 'a');
  EXPECT_TRUE(matches("[name=~\"(a|b)*\"]", "[name=\"" + many + "\"]"));
  EXPECT_FALSE(matches("[name=~\"(a|b)*\"]", "[name=\"" + many + "c\"]"));
  EXPECT_FALSE(matches("[name=~\"(a|a)*c\"]", "[name=\"" + many + "\"]"));
}

TEST(Pattern, AttributesThatAreNotWrittenMayBeAnything) {
  EXPECT_TRUE(matches("", "[axis=1, name=\"a\"]"));
  EXPECT_TRUE(matches("[axis=1]", "[axis=1, name=\"a\"]"));
  EXPECT_FALSE(matches("[axis=1]", "[axis=2, name=\"a\"]"));
  EXPECT_FALSE(matches("[axis=1]", "[name=\"a\"]"));
  EXPECT_FALSE(matches("[axis=$a]", "[name=\"a\"]"));
  // A string is a regular expression only where that is said.
  EXPECT_TRUE(matches("[name=\"a.c\"]", "[name=\"a.c\"]"));
  EXPECT_FALSE(matches("[name=\"a.c\"]", "[name=\"abc\"]"));
  EXPECT_TRUE(matches("[name=~\"a.c\"]", "[name=\"abc\"]"));
  EXPECT_FALSE(matches("[name=~\"a.c\"]", "[name=\"abcd\"]"));
}

TEST(Pattern, MatchesLieInOneBlock) {
  std::unique_ptr<Graph> g = graphOf(
      "graph(%x, %c : bool):\n  %a = test::g(%x)\n  %y = prim::If(%c)\n    block0():\n      %b = test::f(%a)\n"
      "      %d = test::g(%x)\n      %e = test::f(%d)\n      %s = test::k(%b, %e)\n      -> (%s)\n    block1():\n"
      "      -> (%x)\n  return (%y)\n");
  runPlan(*g, Plan::walk("w", {rule("%a: f(g(%a))", "%a: h(%a)")}));
  Node* sum = g->find("s")->node();
  EXPECT_EQ(sum->input(0)->node()->kind(), Symbol::of("test::f"));
  EXPECT_EQ(sum->input(1)->node()->kind(), Symbol::of("test::h"));
}

TEST(Pattern, ReplacementsMayBeMadeByCode) {
  NodeRewrite r =
      patternRewrite("r", shortPattern("%a, %b: f(g(%a), %b)"), [](const Match& m, RewriteContext& c) -> Replacement {
        if (m["a"] == m["b"]) return {};
        EXPECT_EQ(m.nodes().size(), 2u);
        EXPECT_EQ(m.point()->kind(), Symbol::of("test::f"));
        EXPECT_EQ(m["q"], nullptr);
        Builder b = c.before(m.point());
        return b.call(Symbol::of("test::k"), {m["b"], m["a"]}, types().tensor);
      });
  EXPECT_EQ(walked("%x, %y: f(g(%x), %y)", r), "k(y, x)");
  EXPECT_EQ(walked("%x, %y: f(g(%x), %x)", r), "f(g(x), x)");
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

TEST(Pattern, ProductsMatchEitherWayAndQuotientsDoNot) {
  auto rewritten = [](const std::string& pattern, const std::string& replacement, const std::string& node) {
    std::unique_ptr<Graph> g = graphOf("graph(%x : Tensor, %y : Tensor):\n" + node + "  return (%r)\n");
    return runPlan(*g, Plan::walk("w", {patternRewrite("r", patternOf(pattern), patternOf(replacement))})).text;
  };
  const std::string one = "graph(%a):\n  %1 : Tensor = aten::relu(%a)\n  %r = aten::OP(%1, %a)\n  return (%r)\n",
                    h = "graph(%a):\n  %r = test::h(%a)\n  return (%r)\n", ones = "  %o : Tensor = aten::relu(%x)\n";
  auto named = [](std::string text, const char* op) { return text.replace(text.find("OP"), 2, op); };
  EXPECT_EQ(rewritten(named(one, "mul"), h, ones + "  %r : Tensor = aten::mul(%o, %x)\n"), "h(x)");
  EXPECT_EQ(rewritten(named(one, "mul"), h, ones + "  %r : Tensor = aten::mul(%x, %o)\n"), "h(x)");
  EXPECT_EQ(rewritten(named(one, "div"), h, ones + "  %r : Tensor = aten::div(%o, %x)\n"), "h(x)");
  EXPECT_EQ(rewritten(named(one, "div"), h, ones + "  %r : Tensor = aten::div(%x, %o)\n"), "div(x, relu(x))");
  // (p * q) / q, where q is found on either side of the product.
  const char* crossing = "graph(%p, %q):\n  %m = aten::mul(%p, %q)\n  %r = aten::div(%m, %q)\n  return (%r)\n";
  const char* first = "graph(%p, %q):\n  %r = test::h(%p, %q)\n  return (%r)\n";
  EXPECT_EQ(rewritten(crossing, first, "  %m : Tensor = aten::mul(%x, %y)\n  %r : Tensor = aten::div(%m, %y)\n"),
            "h(x, y)");
  EXPECT_EQ(rewritten(crossing, first, "  %m : Tensor = aten::mul(%x, %y)\n  %r : Tensor = aten::div(%m, %x)\n"),
            "h(y, x)");
  EXPECT_EQ(rewritten(crossing, first, "  %m : Tensor = aten::mul(%x, %x)\n  %r : Tensor = aten::div(%m, %y)\n"),
            "div(mul(x, x), y)");
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
  // Too few inputs, and a first one that a condition refuses.
  Pattern two =
      patternOf("graph(%a : Float(*), %b, %rest...):\n  %l = prim::ListConstruct(%a, %b, %rest...)\n  return (%l)\n");
  auto matches = [&](const std::string& inputs) {
    std::unique_ptr<Graph> g = graphOf("graph(%x : Float(2), %y : Double(2)):\n  %l : Tensor[] = prim::ListConstruct(" +
                                       inputs + ")\n  return (%l)\n");
    Diagnostics diagnostics;
    RewriteContext context(*g, testOps(), diagnostics);
    std::optional<Match> m = two.match(g->block()->first(), context);
    return m ? static_cast<int>(m->rest("rest").size()) : -1;
  };
  EXPECT_EQ(matches("%x"), -1);
  EXPECT_EQ(matches("%x, %y"), 0);
  EXPECT_EQ(matches("%x, %y, %y"), 1);
  EXPECT_EQ(matches("%y, %x, %x"), -1);
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

TEST(Pattern, TheRarestNodeLeadsTheSearch) {
  NodeRewrite r = rule("%a: f(g(f(%a)))", "%a: h(%a)");
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(g(f(f(f(%x)))))")), none = graphOf(shortGraph("%x: f(f(%x))"));
  EXPECT_EQ(r.seeds(g->kinds()), std::vector<Symbol>{Symbol::of("test::g")});
  EXPECT_EQ(r.seeds(none->kinds()), std::nullopt);
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {r})).text, "h(f(f(x)))");
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

TEST(Pattern, SumsMatchInAnyNestingAndOrder) {
  const Symbol kPlus = Symbol::of("test::commutes");
  auto summed = [&](std::string_view graph) {
    Pattern from = shortPattern("%a, %b: commutes(commutes(%a, f(%a)), %b)").associative({kPlus});
    return walked(graph, patternRewrite("r", from, shortPattern("%a, %b: g(%a, %b)")));
  };
  for (const char* sum : {"commutes(commutes(%x, f(%x)), %y)", "commutes(commutes(f(%x), %y), %x)",
                          "commutes(%y, commutes(f(%x), %x))", "commutes(%x, commutes(%y, f(%x)))"})
    EXPECT_EQ(summed("%x, %y: " + std::string(sum)), "g(x, y)") << sum;
  // Too many terms, too few, none that fit, and a part of the sum that something else uses.
  for (const char* sum :
       {"commutes(commutes(commutes(%y, %y), f(%x)), %x)", "commutes(f(%x), %x)", "commutes(commutes(%y, f(%x)), %y)"})
    EXPECT_EQ(summed("%x, %y: " + std::string(sum)).find("g("), std::string::npos) << sum;
  std::unique_ptr<Graph> g = graphOf(
      "graph(%x, %y):\n  %f = test::f(%x)\n  %s = test::commutes(%x, %f)\n  %t = test::commutes(%s, %y)\n"
      "  return (%t, %s)\n");
  Pattern from = shortPattern("%a, %b: commutes(commutes(%a, f(%a)), %b)").associative({kPlus});
  EXPECT_FALSE(
      runPlan(*g, Plan::walk("w", {patternRewrite("r", from, shortPattern("%a, %b: g(%a, %b)"))})).outcome.changed);
  // Without being asked for, nesting counts.
  EXPECT_EQ(walked("%x, %y: commutes(%x, commutes(%y, f(%x)))",
                   rule("%a, %b: commutes(commutes(%a, f(%a)), %b)", "%a, %b: g(%a, %b)")),
            "commutes(x, commutes(y, f(x)))");
}

// A condition on the whole is asked about every way in which the terms fit, until it takes one.
TEST(Pattern, OneOfManyMatchesIsChosen) {
  std::string asked;
  auto summed = [&](std::string_view chosen) {
    asked.clear();
    Pattern from = shortPattern("%a, %b, %c: commutes(commutes(%a, %b), %c)")
                       .associative({Symbol::of("test::commutes")})
                       .where([&asked, chosen](const Match& m, RewriteContext&) {
                         std::string names = m["a"]->name() + m["b"]->name() + m["c"]->name();
                         asked += names + " ";
                         return names == chosen;
                       });
    return walked("%x, %y, %z: commutes(commutes(%x, %y), %z)",
                  patternRewrite("r", from, shortPattern("%a, %b, %c: f(%a, %b, %c)")));
  };
  EXPECT_EQ(summed("zxy"), "f(z, x, y)");
  EXPECT_EQ(asked, "xyz xzy yxz yzx zxy ");
  EXPECT_EQ(summed("none"), "commutes(commutes(x, y), z)");
  EXPECT_EQ(asked, "xyz xzy yxz yzx zxy zyx ");
}

TEST(Pattern, ManyTermsThatDoNotFitEnd) {
  std::string pattern = "%a: f(%a)", graph = "%x: f(%x)";
  for (int i = 0; i < 7; ++i) {
    pattern = "%a: commutes(" + pattern.substr(4) + ", h(%a, g(%a)))";
    graph = "%x: commutes(" + graph.substr(4) + ", h(%x, f(%x)))";
  }
  NodeRewrite r =
      patternRewrite("r", shortPattern(pattern).associative({Symbol::of("test::commutes")}), shortPattern("%a: f(%a)"));
  EXPECT_EQ(walked(graph, r).find("commutes"), 0u);
}

TEST(Pattern, ScaledSumsAreNone) {
  auto sum = [](const char* factor) {
    return graphOf(
        "graph(%x : Float(2), %y : Float(2)):\n  %one : int = prim::Constant[value=1]()\n"
        "  %n : int = prim::Constant[value=" +
        std::string(factor) +
        "]()\n"
        "  %f : Float(2) = aten::neg(%x)\n  %s : Float(2) = aten::add(%y, %x, %one)\n"
        "  %t : Float(2) = aten::add(%s, %f, %n)\n  return (%t)\n");
  };
  NodeRewrite r =
      patternRewrite("r",
                     patternOf("graph(%a, %b):\n  %one = prim::Constant[value=1]()\n  %f = aten::neg(%a)\n"
                               "  %s = aten::add(%a, %f, %one)\n  %t = aten::add(%s, %b, %one)\n  return (%t)\n")
                         .associative({Symbol::of("aten::add")}),
                     patternOf("graph(%b):\n  return (%b)\n"));
  std::unique_ptr<Graph> plain = sum("1"), scaled = sum("2");
  EXPECT_EQ(runPlan(*plain, Plan::walk("w", {r})).text, "y");
  EXPECT_FALSE(runPlan(*scaled, Plan::walk("w", {r})).outcome.changed);
}

TEST(Pattern, CallsAndModulesByName) {
  const std::string text =
      "graph(%self : __torch__.Net, %x : Tensor):\n  %c : __torch__.nn.Conv2d = prim::GetAttr[name=\"conv\"](%self)\n"
      "  %f : Function = prim::Constant[name=\"relu\"]()\n"
      "  %a : Tensor = prim::CallMethod[name=\"forward\"](%c, %x)\n"
      "  %b : Tensor = prim::CallFunction(%f, %a)\n  return (%b)\n";
  auto rewritten = [&](const char* pattern, const char* replacement) {
    std::unique_ptr<Graph> g = graphOf(text);
    return runPlan(*g, Plan::walk("w", {patternRewrite("r", patternOf(pattern), patternOf(replacement))})).text;
  };
  const char* kReplacement = "graph(%x):\n  %y = test::f(%x)\n  return (%y)\n";
  EXPECT_EQ(rewritten("graph(%x):\n  %y = match::call[name=\"relu\"](%x)\n  return (%y)\n", kReplacement),
            "f(CallMethod(GetAttr(self), x))");
  for (const char* name : {"\"Conv2d.forward\"", "\"__torch__.nn.Conv2d.forward\"", "~\".*Conv.*\""})
    EXPECT_EQ(
        rewritten(
            ("graph(%m, %x):\n  %y = match::call[name=" + std::string(name) + "](%m, %x)\n  return (%y)\n").c_str(),
            kReplacement),
        "CallFunction(None, f(x))")
        << name;
  // Whole names only.
  EXPECT_EQ(rewritten("graph(%m, %x):\n  %y = match::call[name=\"2d.forward\"](%m, %x)\n  return (%y)\n", kReplacement),
            "CallFunction(None, CallMethod(GetAttr(self), x))");
  EXPECT_EQ(rewritten("graph(%s, %x):\n  %m = match::module[name=\"Conv2d\"](%s)\n  %y = match::call(%m, %x)\n"
                      "  return (%y)\n",
                      kReplacement),
            "CallFunction(None, f(x))");
}

TEST(Pattern, TellsWhyItDoesNotMatch) {
  auto why = [](std::string_view pattern, std::string_view graph) {
    std::unique_ptr<Graph> g = graphOf(graph);
    Diagnostics diagnostics;
    RewriteContext context(*g, testOps(), diagnostics);
    return patternOf(pattern).whyNot(context);
  };
  const char* kPattern =
      "graph(%x, %y):\n  %p = aten::mul(%x, %y)\n  %q : Float(*) = aten::div(%p, %y)\n  return (%q)\n";
  auto graph = [](const char* body) {
    return "graph(%a : Float(2), %b : Float(2), %c : Double(2)):\n" + std::string(body);
  };
  EXPECT_EQ(why(kPattern, graph("  return (%a)\n")), "the graph has no aten::div");
  EXPECT_EQ(why(kPattern, graph("  %q : Float(2) = aten::div(%a, %b)\n  return (%q)\n")),
            "%p is to come from aten::mul, but %a is an input, at %q : Float(2) = aten::div(%a, %b)");
  EXPECT_EQ(why(kPattern, graph("  %s : Float(2) = aten::relu(%a)\n  %q : Float(2) = aten::div(%s, %b)\n"
                                "  return (%q)\n")),
            "expected aten::mul, found aten::relu, at %s : Float(2) = aten::relu(%a)");
  EXPECT_EQ(why(kPattern, graph("  %m : Double(2) = aten::mul(%c, %c)\n  %q : Double(2) = aten::div(%m, %c)\n"
                                "  return (%q)\n")),
            "%q is to be Float(*), but %q is Double(2), at %q : Double(2) = aten::div(%m, %c)");
  // Of several places the one where most fits.
  EXPECT_EQ(why(kPattern, graph("  %n : Float(2) = aten::div(%a, %a)\n  %m : Float(2) = aten::mul(%a, %a)\n"
                                "  %q : Float(2) = aten::div(%m, %b)\n  return (%n, %q)\n"))
                .substr(0, 22),
            "%y is %b already, not ");
  EXPECT_EQ(why(kPattern, graph("  %m : Float(2) = aten::mul(%a, %b)\n  %q : Float(2) = aten::div(%m, %b)\n"
                                "  return (%q, %m)\n")),
            "something else uses %m, an inner value of the match, at %q : Float(2) = aten::div(%m, %b)");
  EXPECT_EQ(why(kPattern, graph("  %m : Float(2) = aten::mul(%a, %b)\n  %q : Float(2) = aten::div(%m, %b)\n"
                                "  return (%q)\n")),
            "");
}

TEST(Pattern, TellsThatAMatchIsLeftAlone) {
  NodeRewrite r =
      patternRewrite("r", patternOf("graph(%x):\n  %p = aten::neg(%x)\n  %q = aten::neg(%p)\n  return (%q)\n"),
                     patternOf("graph(%x):\n  return (%x)\n"));
  auto why = [&](const char* write) {
    std::unique_ptr<Graph> g =
        graphOf("graph(%a : Tensor):\n  %p : Tensor = aten::neg(%a)\n  %q : Tensor = aten::neg(%p)\n" +
                std::string(write) + "  return (%q)\n");
    Diagnostics diagnostics;
    RewriteContext context(*g, testOps(), diagnostics);
    return r.whyNot(context);
  };
  EXPECT_EQ(why(""), "");
  EXPECT_NE(why("  %w : Tensor = aten::relu_(%a)\n").find("some node writes memory"), std::string::npos);
  // One node may go where its result is written, if new memory takes its place.
  auto whyNeg = [&](const char* replacement) {
    NodeRewrite single =
        patternRewrite("r", patternOf("graph(%x):\n  %p = aten::neg(%x)\n  return (%p)\n"), patternOf(replacement));
    std::unique_ptr<Graph> g =
        graphOf("graph(%a : Tensor):\n  %p : Tensor = aten::neg(%a)\n  %w : Tensor = aten::relu_(%p)\n  return (%p)\n");
    const std::string before = graphText(*g);
    Diagnostics diagnostics;
    RewriteContext context(*g, testOps(), diagnostics);
    std::string told = single.whyNot(context);
    EXPECT_EQ(graphText(*g), before);
    return told;
  };
  EXPECT_NE(whyNeg("graph(%x):\n  return (%x)\n").find("takes their place is no new memory"), std::string::npos);
  EXPECT_EQ(whyNeg("graph(%x):\n  %p = aten::exp(%x)\n  return (%p)\n"), "");
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
