// Node rewrites, how their replacements are put into effect, plans, managers and records.
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/call_records.h"
#include "passes/rewrite/managers.h"
#include "passes/rewrite/transaction.h"
#include "runtime/interpreter/evaluator.h"
#include "runtime/registry.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tscompile::test {
namespace {

const Symbol kK = Symbol::of("test::k"), kSplit = Symbol::of("test::split");

PlanResult walk(Graph& g, NodeRewrite r, const PlanSettings& settings = {}) {
  return runPlan(g, Plan::walk("walk", {std::move(r)}, Order::InToOut, Revisit::None), settings);
}
NodeRewrite onF(std::function<Replacement(Node*, RewriteContext&)> apply) { return {"on_f", {kF}, std::move(apply)}; }

// Runs a rewrite that must be refused: the graph stays as it was, and the message says why.
void expectRefused(std::string_view graph, NodeRewrite r, const std::string& why) {
  std::unique_ptr<Graph> g = shortly(graph);
  std::string before = graphText(*g);
  size_t told = 0;
  PlanSettings settings;
  settings.failed = [&](const RewriteFailure& f) {
    ++told;
    EXPECT_EQ(f.rewrite, r.name);
    EXPECT_EQ(f.node.substr(0, f.node.find(' ')), "%v1");
    EXPECT_EQ(graphText(*g), before);  // restored before anybody is told
  };
  PlanResult result = walk(*g, r, settings);
  EXPECT_EQ(graphText(*g), before);
  EXPECT_TRUE(result.outcome.failed);
  EXPECT_EQ(told, 1u);
  EXPECT_NE(result.messages.find("rewrite '" + r.name + "' was taken back: " + why), std::string::npos)
      << result.messages;
  // The same without a failure of the whole.
  settings.failed = nullptr;
  settings.onFailure = OnFailure::Ignore;
  result = walk(*g, r, settings);
  EXPECT_FALSE(result.outcome.failed);
  EXPECT_EQ(result.messages, "");
}

}  // namespace

TEST(Rewrite, AttributeVariablesMustAgree) {
  auto reduce = [](int inner, int outer) {
    return graphOf("graph(%x):\n  %y = test::g[op=" + std::to_string(inner) +
                   "](%x)\n  %z = test::f[op=" + std::to_string(outer) + ", dims=\"all\"](%y)\n  return (%z)\n");
  };
  NodeRewrite r = patternRewrite(
      "r",
      patternOf("graph(%x):\n  %y = test::g[op=$o](%x)\n  %z = test::f[op=$o, dims=~\"a.*\"](%y)\n  return (%z)\n"),
      patternOf("graph(%x):\n  %z = test::h[op=$o](%x)\n  return (%z)\n"));
  std::unique_ptr<Graph> same = reduce(1, 1), other = reduce(1, 2);
  EXPECT_EQ(walk(*same, r).text, "h(x)");
  EXPECT_NE(graphText(*same).find("test::h[op=1]"), std::string::npos);
  EXPECT_EQ(walk(*other, r).text, "f(g(x))");
}

TEST(Rewrite, NodesOfSeveralOutputs) {
  std::string graph =
      "graph(%x):\n  %a : Tensor, %b : Tensor = test::split(%x)\n  %y = test::f(%a)\n  return (%y, %b)\n";
  std::unique_ptr<Graph> g = graphOf(graph);
  NodeRewrite single = patternRewrite("r", patternOf("graph(%x):\n  %a = test::split(%x)\n  return (%a)\n"),
                                      patternOf(shortGraph("%x: h(%x)")));
  EXPECT_FALSE(walk(*g, single).outcome.changed);
  NodeRewrite consumer =
      patternRewrite("r", patternOf("graph(%x):\n  %a, %b = test::split(%x)\n  %y = test::f(%a)\n  return (%y, %b)\n"),
                     patternOf(shortGraph("%x: h(%x), k(%x)")));
  EXPECT_EQ(walk(*g, consumer).text, "h(x), k(x)");
}

TEST(Rewrite, WhatAFunctionThrowsIsAnError) {
  expectRefused("%x: f(%x)", onF([](Node* n, RewriteContext& c) -> Replacement {
                  c.before(n).constant(IValue(1));
                  throw std::runtime_error("no luck");
                }),
                "it throws: no luck");
  expectRefused("%x: f(%x)", onF([](Node*, RewriteContext&) -> Replacement { throw 7; }), "it throws");
  std::unique_ptr<Graph> g = shortly("%x: g(f(%x))");
  const std::string before = graphText(*g);
  GraphRewrite whole{"whole", [](Graph& graph, RewriteContext& c) -> bool {
                       c.before(graph.returnNode()).constant(IValue(1));
                       throw std::runtime_error("no luck");
                     }};
  PlanResult r = runPlan(*g, Plan::of(whole));
  EXPECT_TRUE(r.outcome.failed);
  EXPECT_EQ(graphText(*g), before);
  EXPECT_NE(r.messages.find("rewrite 'whole' was taken back: it throws: no luck"), std::string::npos) << r.messages;
}

TEST(Rewrite, TypesMustFit) {
  std::unique_ptr<Graph> g = graphOf("graph(%x : Float(2, 3)):\n  %y : Float(2, 3) = aten::relu(%x)\n  return (%y)\n");
  NodeRewrite wrong = patternRewrite("wrong", patternOf("graph(%x):\n  %y = aten::relu(%x)\n  return (%y)\n"),
                                     patternOf("graph(%x):\n  %y : Double(2, 3) = test::f(%x)\n  return (%y)\n"));
  PlanResult r = walk(*g, wrong);
  EXPECT_NE(r.messages.find("does not fit %y of type Float(2, 3)"), std::string::npos) << r.messages;
  // What was known of the former value goes over to one of which less is known.
  NodeRewrite right = patternRewrite("right", patternOf("graph(%x):\n  %y = aten::relu(%x)\n  return (%y)\n"),
                                     patternOf(shortGraph("%x: f(%x)")));
  walk(*g, right);
  EXPECT_EQ(typeText(g->output(0)->type()), "Float(2, 3)");
  EXPECT_EQ(g->output(0)->name(), "y");
}

// What texts leave open, or say of nodes that are new, follows from the operators.
TEST(Rewrite, TypesMustFitWhereTheyFollow) {
  auto messages = [](const char* graph, NodeRewrite r) {
    std::unique_ptr<Graph> g = graphOf(graph);
    std::string before = graphText(*g);
    Diagnostics diagnostics;
    RewriteContext context(*g, allOps(), diagnostics);
    EXPECT_TRUE(Plan::walk("w", {std::move(r)}, Order::InToOut, Revisit::None).run(context).failed);
    EXPECT_EQ(graphText(*g), before);
    return renderDiagnostics(diagnostics, "t");
  };
  NodeRewrite mulOne = patternRewrite("mul_one", patternOf("graph(%x, %a):\n  %m = aten::mul(%x, %a)\n  return (%m)\n"),
                                      patternOf("graph(%x, %a):\n  return (%x)\n"));
  std::string told = messages(
      "graph(%x : Bool(3)):\n  %one : int = prim::Constant[value=1]()\n  %m : Tensor = aten::mul(%x, %one)\n"
      "  return (%m)\n",
      mulOne);
  EXPECT_NE(told.find("%x is Bool(3), which does not fit %m of type Long(3)"), std::string::npos) << told;
  told = messages("graph(%x : Float(4, 1), %y : Float(4, 8)):\n  %m : Tensor = aten::mul(%x, %y)\n  return (%m)\n",
                  mulOne);
  EXPECT_NE(told.find("%x is Float(4, 1), which does not fit %m of type Float(4, 8)"), std::string::npos) << told;
  NodeRewrite declared{"declared", {Symbol::of("aten::relu")}, [](Node* n, RewriteContext& c) -> Replacement {
                         Builder b = c.before(n);
                         return b.call("aten::gt", {n->input(0), b.constant(0)}, n->output(0)->type());
                       }};
  told = messages("graph(%x : Float(2, 3)):\n  %y : Float(2, 3) = aten::relu(%x)\n  return (%y)\n", declared);
  EXPECT_NE(told.find("is Bool(2, 3), which does not fit %y of type Float(2, 3)"), std::string::npos) << told;
}

TEST(Rewrite, WhatTheyThrowIsToldAndTakenBack) {
  expectRefused("%x: f(%x)", onF([](Node* n, RewriteContext& c) -> Replacement {
                  c.before(n).call(kH, {n->input(0)}, types().tensor);
                  throw std::runtime_error("boom");
                }),
                "it throws: boom");
}

TEST(Rewrite, EquilibriumEndsWhereNothingChanges) {
  Plan::Equilibrium parts;
  parts.nodes = {rule("f_to_g", "%a, %b: f(%a, %b)", "%a, %b: g(%a, %b)"),
                 rule("h_to_f", "%a, %b: h(%a, %b)", "%a, %b: f(%a, %b)"),
                 rule("k_of_g", "%a, %b: k(g(%a, %b))", "%a, %b: h(%a, %b)")};
  std::unique_ptr<Graph> g = shortly("%x, %y: k(h(%x, %y))");
  PlanResult r = runPlan(*g, Plan::equilibrium("e", parts));
  EXPECT_EQ(r.text, "g(x, y)");
  EXPECT_TRUE(r.outcome.converged);

  // A rule that always finds something again is ended by its bound, and named.
  std::unique_ptr<Graph> grows = shortly("%x: f(%x)");
  parts.nodes = {rule("grows", "%a: f(%a)", "%a: g(f(%a))")};
  PlanSettings settings;
  settings.maxUseRatio = 1;
  r = runPlan(*grows, Plan::equilibrium("e", parts), settings);
  EXPECT_FALSE(r.outcome.converged);
  EXPECT_EQ(r.outcome.stoppedBy, "grows");
}

TEST(Rewrite, AnEquilibriumThatIsBoundedEndsEarlyAtAGraph) {
  Plan::Equilibrium parts;
  parts.nodes = {rule("f_to_g", "%a, %b: f(%a, %b)", "%a, %b: g(%a, %b)"),
                 rule("h_to_f", "%a, %b: h(%a, %b)", "%a, %b: f(%a, %b)"),
                 rule("k_of_g", "%a, %b: k(g(%a, %b))", "%a, %b: h(%a, %b)")};
  // Bounds count from 16 nodes on: this one lets each rule be used once.
  PlanSettings settings;
  settings.maxUseRatio = 1.0 / 16;
  std::unique_ptr<Graph> g = shortly("%x, %y: k(h(%x, %y))");
  PlanResult r = runPlan(*g, Plan::equilibrium("e", parts), settings);
  EXPECT_FALSE(r.outcome.converged);
  EXPECT_TRUE(r.outcome.stoppedBy == "h_to_f" || r.outcome.stoppedBy == "f_to_g") << r.outcome.stoppedBy;
  EXPECT_TRUE(r.text == "f(x, y)" || r.text == "g(x, y)") << r.text;
  // Each time the same.
  std::unique_ptr<Graph> again = shortly("%x, %y: k(h(%x, %y))");
  EXPECT_EQ(runPlan(*again, Plan::equilibrium("e", parts), settings).text, r.text);
}

TEST(Rewrite, ReplacementsAreChecked) {
  expectRefused("%x: f(%x)", onF([](Node* n, RewriteContext&) -> Replacement {
                  return std::vector<Value*>{n->input(0), n->input(0)};
                }),
                "2 values for 1 output");
  expectRefused("%x: f(%x)", onF([](Node*, RewriteContext&) -> Replacement { return std::vector<Value*>{nullptr}; }),
                "no value for %v1, which is used");
  expectRefused("%x: g(f(%x))", onF([](Node* n, RewriteContext&) -> Replacement {
                  return n->output()->firstUse()->user->output();  // defined after
                }),
                "%v2 is used before it would be defined");
  // An output that nobody uses needs no value.
  std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %a : Tensor, %b : Tensor = test::split(%x)\n  return (%a)\n");
  NodeRewrite r{"r", {kSplit}, [](Node* n, RewriteContext&) -> Replacement {
                  return std::vector<Value*>{n->input(0), nullptr};
                }};
  EXPECT_EQ(walk(*g, r).text, "x");
  // No change is no change, even if something was tried.
  std::unique_ptr<Graph> same = shortly("%x: f(%x)");
  std::string before = graphText(*same);
  EXPECT_FALSE(walk(*same, onF([](Node* n, RewriteContext& c) -> Replacement {
                 c.before(n).call(kH, {n->input(0)}, types().tensor);
                 return {};
               })).outcome.changed);
  EXPECT_EQ(graphText(*same), before);
}

TEST(Rewrite, SeveralValuesAtOnceOrNone) {
  auto both = [](bool good) {
    return onF([good](Node* n, RewriteContext& c) -> Replacement {
      Node* g = n->output()->firstUse()->user;
      Value* made = c.before(n).call(kH, {n->input(0)}, types().tensor);
      Value* last = good ? c.before(n).call(kK, {n->input(0)}, types().tensor) : c.graph.output(0);
      return Replacement::of({{n->output(), made}, {g->output(), last}});
    });
  };
  std::unique_ptr<Graph> g = shortly("%x: f1(g(f(%x)))");
  EXPECT_EQ(walk(*g, both(true)).text, "f1(k(x))");
  expectRefused("%x: f1(g(f(%x)))", both(false), "%v3 is used before it would be defined");
}

TEST(Rewrite, WhatMustGoIsGone) {
  expectRefused("%x: g(f(%x))", onF([](Node* n, RewriteContext& c) -> Replacement {
                  Value* made = c.before(n->next()).call(kH, {n->output()}, types().tensor);
                  return Replacement::of({{n->output(), made}}, {n});
                }),
                "test::f was to go, but is still used");
  // Values of nodes that are gone cannot come back.
  std::unique_ptr<Graph> g = shortly("%x: g(f(%x))");
  Value* gone = nullptr;
  NodeRewrite first = onF([&](Node* n, RewriteContext&) -> Replacement {
    gone = n->output();
    return n->input(0);
  });
  NodeRewrite second{"second", {kG}, [&](Node*, RewriteContext&) -> Replacement { return gone; }};
  PlanResult r = runPlan(*g, Plan::sequence("s", {Plan::walk("1", {first}), Plan::walk("2", {second})}));
  EXPECT_EQ(r.text, "g(x)");
  EXPECT_NE(r.messages.find("was removed from the graph"), std::string::npos) << r.messages;
}

TEST(Rewrite, WhatIsReplacedIsInTheGraph) {
  std::unique_ptr<Graph> g = shortly("%x: g(f(%x))");
  Value* gone = nullptr;
  NodeRewrite first = onF([&](Node* n, RewriteContext&) -> Replacement {
    gone = n->output();
    return n->input(0);
  });
  NodeRewrite second{"second", {kG}, [&](Node* n, RewriteContext&) { return Replacement::of({{gone, n->input(0)}}); }};
  PlanResult r = runPlan(*g, Plan::sequence("s", {Plan::walk("1", {first}), Plan::walk("2", {second})}));
  EXPECT_EQ(r.text, "g(x)");
  EXPECT_NE(r.messages.find("rewrite 'second' was taken back: %1 is not in the graph"), std::string::npos)
      << r.messages;
}

TEST(Rewrite, NamesPlacesAndScopesGoOver) {
  const std::string place = ", scope: Net/Act # net.py:7:3\n";
  auto graph = [&](const std::string& nodes) { return "graph(%x : Tensor):\n" + nodes + "  return (%y)\n"; };
  for (auto [rewrite, nodes] : {std::pair{substitute("s", kF, kH), "  %y : Tensor = test::h(%x)" + place},
                                {rule("r", "%x: f(%x)", "%x: g(h(%x))"),
                                 "  %2 : Tensor = test::h(%x)" + place + "  %y : Tensor = test::g(%2)" + place}}) {
    std::unique_ptr<Graph> g = graphOf(graph("  %y : Tensor = test::f(%x)" + place));
    runPlan(*g, Plan::walk("w", {rewrite}));
    EXPECT_EQ(graphText(*g), graph(nodes));
  }
}

TEST(Rewrite, WhatIsMadeMeanwhileIsKnown) {
  std::unique_ptr<Graph> g =
      graphOf("graph(%x : Float(2, 3)):\n  %a : Tensor = aten::t(%x)\n  %y : Tensor = aten::relu(%a)\n  return (%y)\n");
  NodeRewrite r{"r", {Symbol::of("aten::relu")}, [](Node* n, RewriteContext& c) -> Replacement {
                  EXPECT_EQ(c.facts.sizes(n->output()), (Dims{3, 2}));
                  Value* back = c.before(n).call(Symbol::of("aten::t"), {n->input(0)}, types().tensor);
                  EXPECT_EQ(c.facts.sizes(back), (Dims{2, 3}));
                  EXPECT_EQ(c.facts.dtype(back), DType::Float32);
                  return {};
                }};
  EXPECT_FALSE(walk(*g, r).outcome.changed);
}

TEST(Rewrite, EffectsAreNotDropped) {
  std::unique_ptr<Graph> g = graphOf("graph(%x : Tensor):\n  %y : Tensor = aten::relu_(%x)\n  return (%y)\n");
  std::string before = graphText(*g);
  NodeRewrite r{"drops", {Symbol::of("aten::relu_")}, [](Node* n, RewriteContext& c) -> Replacement {
                  return c.before(n).call(Symbol::of("aten::relu"), {n->input(0)}, types().tensor);
                }};
  PlanResult result = walk(*g, r);
  EXPECT_EQ(graphText(*g), before);
  EXPECT_NE(result.messages.find("aten::relu_ has effects, which the replacement would drop"), std::string::npos);
}

TEST(Rewrite, MemoryThatIsWrittenIsLeftAlone) {
  // The pattern reads %x after the write, the graph before it.
  std::unique_ptr<Graph> g = graphOf(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::relu(%x)
  %w : Tensor = aten::neg_(%x)
  %b : Tensor = aten::exp(%a)
  return (%b)
)");
  NodeRewrite fuse =
      patternRewrite("fuse", patternOf("graph(%x):\n  %a = aten::relu(%x)\n  %b = aten::exp(%a)\n  return (%b)\n"),
                     patternOf(shortGraph("%x: f(%x)")));
  EXPECT_FALSE(walk(*g, fuse).outcome.changed);
  // One node is computed where it stood; its result is new memory as before.
  NodeRewrite single = patternRewrite("single", patternOf("graph(%x):\n  %a = aten::relu(%x)\n  return (%a)\n"),
                                      patternOf(shortGraph("%x: f(%x)")));
  EXPECT_TRUE(walk(*g, single).outcome.changed);
  // A result that would become an alias of what is written.
  std::unique_ptr<Graph> alias = graphOf(R"(graph(%x : Tensor, %n : int):
  %a : Tensor = aten::contiguous(%x, %n)
  %w : Tensor = aten::neg_(%x)
  return (%a)
)");
  NodeRewrite drop =
      patternRewrite("drop", patternOf("graph(%x, %n):\n  %a = aten::contiguous(%x, %n)\n  return (%a)\n"),
                     patternOf("graph(%x, %n):\n  return (%x)\n"));
  EXPECT_FALSE(walk(*alias, drop).outcome.changed);
}

// (x * y) / y as a graph rewrite, a node rewrite and patterns.
TEST(Rewrite, ThreeWaysToSimplifyAQuotient) {
  const Symbol mul = Symbol::of("aten::mul"), div = Symbol::of("aten::div");
  auto simplified = [&](Node* n) -> Value* {
    Node* m = n->input(0)->node();
    if (n->kind() != div || !m || m->kind() != mul) return nullptr;
    if (m->input(1) == n->input(1)) return m->input(0);
    return m->input(0) == n->input(1) ? m->input(1) : nullptr;
  };
  GraphRewrite whole{"whole", [&](Graph& g, RewriteContext& c) {
                       bool changed = false;
                       forEachNode(g, [&](Node* n) {
                         Value* v = simplified(n);
                         if (!v) return;
                         Transaction t(g, c.registry);
                         t.replace(n->output(), v);
                         changed |= t.commit(c.diagnostics).ok();
                       });
                       return changed;
                     }};
  NodeRewrite node{"node", {div}, [&](Node* n, RewriteContext&) -> Replacement {
                     Value* v = simplified(n);
                     return v ? Replacement(v) : Replacement();
                   }};
  NodeRewrite pattern = rule("pattern", "%x, %y: aten::div(aten::mul(%x, %y), %y)", "%x, %y: %x");
  for (const Plan& plan : {Plan::of(whole), Plan::walk("node", {node}), Plan::walk("pattern", {pattern})}) {
    std::unique_ptr<Graph> g = graphOf(R"(graph(%x : Tensor, %y : Tensor, %z : Tensor):
  %a : Tensor = aten::mul(%y, %x)
  %b : Tensor = aten::div(%a, %y)
  %c : Tensor = aten::div(%z, %x)
  %d : Tensor = aten::mul(%b, %c)
  return (%d)
)");
    EXPECT_EQ(runPlan(*g, plan).text, "mul(x, div(z, x))") << plan.name();
    // Equal things are the same thing only after merging.
    g = shortly("%x, %y, %z: aten::div(aten::mul(commutes(%y, %z), %x), commutes(%y, %z))");
    EXPECT_FALSE(runPlan(*g, plan).outcome.changed);
    Plan merging = Plan::of({"merge", mergeCommonSubexpressions});
    EXPECT_EQ(runPlan(*g, Plan::sequence("s", {merging, plan})).text, "x") << plan.name();
  }
}

TEST(Rewrite, ShortForms) {
  std::unique_ptr<Graph> g = shortly("%x, %y: f(g(%x, %y), %y)");
  EXPECT_EQ(walk(*g, substitute("s", kG, kH)).text, "f(h(x, y), y)");
  EXPECT_EQ(walk(*g, bypass("b", kH)).text, "f(x, y)");
  // Each output needs an input that fits.
  g = graphOf("graph(%x):\n  %a : Tensor, %b : Tensor = test::split(%x)\n  return (%a, %b)\n");
  EXPECT_FALSE(walk(*g, bypass("b", kSplit)).outcome.changed);
  g = graphOf("graph(%x : Tensor):\n  %n : int = aten::dim(%x)\n  return (%n)\n");
  EXPECT_NE(walk(*g, bypass("b", Symbol::of("aten::dim"))).messages.find("does not fit %n of type int"),
            std::string::npos);
  EXPECT_EQ(shortText(*g), "dim(x)");
  g = shortly("%x: f(g(%x))");
  NodeRewrite first = firstOf("first", {rule("a", "%x: f(%x)", "%x: h(%x)"), rule("b", "%x: f(%x)", "%x: k(%x)")});
  EXPECT_EQ(walk(*g, first).text, "h(g(x))");
  g = shortly("%x: f(%x)");
  NodeRewrite all = chain("all", {rule("a", "%x: f(%x)", "%x: g(%x)"), rule("b", "%x: g(%x)", "%x: h(%x)")});
  EXPECT_EQ(walk(*g, all).text, "h(x)");
}

TEST(Rewrite, TheCheapestOfSeveral) {
  auto cost = [](const Graph& g) { return static_cast<double>(g.nodeCount()); };
  NodeRewrite two = rule("two", "%x: f(f1(%x))", "%x: g(h(%x))"), one = rule("one", "%x: f(f1(%x))", "%x: k(%x)"),
              three = rule("three", "%x: f(f1(%x))", "%x: g(g(h(%x)))");
  std::unique_ptr<Graph> g = shortly("%x: f(f1(%x))");
  EXPECT_EQ(walk(*g, bestOf("best", {three, one, two}, cost)).text, "k(x)");
  g = shortly("%x: f(f1(%x))");
  std::string before = graphText(*g);
  EXPECT_FALSE(walk(*g, bestOf("best", {three, two}, cost)).outcome.changed);
  EXPECT_EQ(graphText(*g), before);
}

TEST(Rewrite, ComparingOnSamplesFindsWrongRules) {
  std::unique_ptr<Evaluator> evaluator = makeEvaluator(allOps());
  auto run = [&](const char* to, double tolerance) {
    std::unique_ptr<Graph> g =
        graphOf("graph(%x : Float(2, 3)):\n  %y : Float(2, 3) = aten::sigmoid(%x)\n  return (%y)\n");
    NodeRewrite r = patternRewrite("r", patternOf("graph(%x):\n  %y = aten::sigmoid(%x)\n  return (%y)\n"),
                                   patternOf(std::string("graph(%x):\n") + to + "  return (%y)\n"));
    r.tolerance = tolerance;
    Diagnostics diagnostics;
    RewriteContext context(*g, allOps(), diagnostics);
    context.evaluator = evaluator.get();
    PlanSettings settings;
    settings.compare = true;
    Outcome outcome = Plan::walk("w", {r}, Order::InToOut, Revisit::None).run(context, settings);
    EXPECT_EQ(outcome.changed, !outcome.failed);
    return renderDiagnostics(diagnostics, "t");
  };
  std::string wrong = run("  %y = aten::tanh(%x)\n", 1e-5);
  EXPECT_NE(wrong.find("rewrite 'r' was taken back: output 0 was f32[2, 3], now f32[2, 3]; at ["), std::string::npos)
      << wrong;
  EXPECT_NE(wrong.find("absolute difference max "), std::string::npos);
  EXPECT_EQ(run("  %y = aten::tanh(%x)\n", 10), "");
  EXPECT_EQ(run("  %n = aten::neg(%x)\n  %m = aten::neg(%n)\n  %y = aten::sigmoid(%m)\n", 1e-5), "");
}

TEST(Rewrite, UnifyAndReify) {
  // An operator and its inputs as variables: cons(op, args).
  Pattern any = patternOf("graph(%args...):\n  %y = any::op(%args...)\n  return (%y)\n");
  std::unique_ptr<Graph> g = shortly("%x, %y, %z: f(%x, %y, %z)");
  Diagnostics diagnostics;
  RewriteContext c(*g, testOps(), diagnostics);
  std::optional<Match> m = any.match(g->block()->first(), c);
  ASSERT_TRUE(m);
  EXPECT_EQ(m->kind("op"), kF);
  EXPECT_EQ(m->rest("args").size(), 3u);
  Builder b = c.before(g->returnNode());
  std::optional<std::vector<Value*>> made =
      patternOf("graph(%args...):\n  %y = test::k(%args...)\n  return (%y)\n").reify(*m, c, b);
  ASSERT_TRUE(made);
  g->returnNode()->replaceInput(0, made->at(0));
  EXPECT_EQ(shortText(*g), "k(x, y, z)");
}

TEST(Rewrite, RelationsWorkBothWays) {
  Relation relation{"distribute", patternOf(R"(graph(%a, %x, %y, %one):
  %s = aten::add(%x, %y, %one)
  %r = aten::matmul(%a, %s)
  return (%r)
)"),
                    patternOf(R"(graph(%a, %x, %y, %one):
  %p = aten::matmul(%a, %x)
  %q = aten::matmul(%a, %y)
  %r = aten::add(%p, %q, %one)
  return (%r)
)")};
  std::unique_ptr<Graph> g = graphOf(R"(graph(%A : Tensor, %x : Tensor, %y : Tensor, %z : Tensor, %w : Tensor):
  %1 : int = prim::Constant[value=1]()
  %p : Tensor = aten::add(%x, %y, %1)
  %q : Tensor = aten::add(%z, %w, %1)
  %s : Tensor = aten::add(%p, %q, %1)
  %r : Tensor = aten::matmul(%A, %s)
  return (%r)
)");
  std::string before = shortText(*g);
  Plan::Equilibrium forward, backward;
  forward.nodes = {relation.forward()};
  backward.nodes = {relation.backward()};
  EXPECT_EQ(runPlan(*g, Plan::equilibrium("forward", forward)).text,
            "add(add(matmul(A, x), matmul(A, y), 1), add(matmul(A, z), matmul(A, w), 1), 1)");
  EXPECT_EQ(runPlan(*g, Plan::equilibrium("backward", backward)).text, before);
}

// ---- managers ----

TEST(Managers, ReplaceAddBySub) {
  std::unique_ptr<Graph> g = graphOf(R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %o : Float(2, 3) = aten::add(%x, %y, %1)
  %u : Tensor = aten::relu(%o)
  return (%o, %u)
)");
  Diagnostics diagnostics;
  RewritePatternManager manager;
  PatternRewriter addToSub;
  addToSub.kinds = {Symbol::of("aten::add")};
  addToSub.match = [](const Node* n, RewriteContext& c) { return n->inputCount() == 3 && c.arguments.contains("go"); };
  addToSub.rewrite = [](Node* n, RewriteContext& c) -> Replacement {
    c.reports["seen"] = IValue(true);
    return c.before(n).call(Symbol::of("aten::sub"), {n->input(0), n->input(1), n->input(2)}, types().tensor);
  };
  ASSERT_TRUE(manager.add("replace_add_to_sub", addToSub, 0, diagnostics));
  EXPECT_FALSE(manager.add("replace_add_to_sub", addToSub, 1, diagnostics));
  EXPECT_NE(renderDiagnostics(diagnostics, "t").find("the label 'replace_add_to_sub' is taken"), std::string::npos);
  EXPECT_NE(manager.get("replace_add_to_sub"), nullptr);
  EXPECT_EQ(manager.get("other"), nullptr);
  RewriteContext context(*g, testOps(), diagnostics);
  EXPECT_EQ(manager.rewrite(context).applied, 0u);
  EXPECT_EQ(manager.rewrite(context, {{"go", IValue(true)}}).applied, 1u);
  EXPECT_TRUE(context.reports.contains("seen"));
  EXPECT_EQ(shortText(*g), "sub(x, y, 1), relu(sub(x, y, 1))");
  EXPECT_EQ(g->output(0)->name(), "o");
  EXPECT_EQ(typeText(g->output(0)->type()), "Float(2, 3)");

  AnalysisPatternManager analyses;
  size_t count = 0;
  ASSERT_TRUE(
      analyses.add("count",
                   {{Symbol::of("aten::sub")},
                    [](const Node*, const RewriteArguments&) { return true; },
                    [&](const std::vector<const Node*>& nodes, const RewriteArguments&) { count = nodes.size(); }},
                   0, diagnostics));
  analyses.analyze(*g);
  EXPECT_EQ(count, 1u);
}

TEST(Managers, HigherBenefitGoesFirst) {
  Diagnostics diagnostics;
  RewritePatternManager manager;
  auto to = [](Symbol kind) {
    PatternRewriter r;
    r.kinds = {kF};
    r.matchAndRewrite = [kind](Node* n, RewriteContext& c) -> Replacement {
      return c.before(n).call(kind, {n->input(0)}, types().tensor);
    };
    return r;
  };
  ASSERT_TRUE(manager.add("low", to(kG), 1, diagnostics));
  ASSERT_TRUE(manager.add("high", to(kH), 2, diagnostics));
  std::unique_ptr<Graph> g = shortly("%x: f(%x)");
  RewriteContext context(*g, testOps(), diagnostics);
  manager.rewrite(context);
  EXPECT_EQ(shortText(*g), "h(x)");
}

}  // namespace tscompile::test
