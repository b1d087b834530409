// How drivers go through a graph: orders, where they start, which kinds they ask about, what they look at again; and
// what they tell of it.
#include "ir/graph/clone.h"
#include "ir/graph/dot.h"
#include "ir/graph/printer.h"
#include "passes/catalog.h"
#include "passes/rewrite/kind_index.h"
#include "passes/rewrite/managers.h"
#include "passes/rewrite/trace.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// Notes the nodes that it is asked about and changes nothing.
NodeRewrite noting(std::string& seen, std::vector<Symbol> kinds = {}) {
  return {"note", std::move(kinds), [&seen](Node* n, RewriteContext&) {
            seen +=
                (seen.empty() ? "" : " ") + (n->outputCount() ? n->output(0)->name() : std::string(n->kind().name()));
            return Replacement();
          }};
}

constexpr const char* kTwoBranches =
    "graph(%x, %c : bool):\n  %a = test::f(%x)\n  %b = test::g(%x)\n  %d = prim::If(%c)\n    block0():\n"
    "      %e = test::h(%b)\n      -> (%e)\n    block1():\n      -> (%x)\n  %r = test::f(%d, %a)\n  return (%r)\n";

std::string visited(Order order, uint64_t seed = 0) {
  std::unique_ptr<Graph> g = graphOf(kTwoBranches);
  std::string seen;
  runPlan(*g, Plan::walk("w", {noting(seen)}, order, Revisit::None, seed));
  return seen;
}

}  // namespace

TEST(Walk, Orders) {
  EXPECT_EQ(visited(Order::InToOut), "a b d e r");
  EXPECT_EQ(visited(Order::OutToIn), "r e d b a");
  EXPECT_EQ(visited(Order::DepthFirst), "b e d a r");
  std::string one = visited(Order::Random, 1);
  EXPECT_EQ(one, visited(Order::Random, 1));
  EXPECT_EQ(one.size(), visited(Order::InToOut).size());
  int others = 0;
  for (uint64_t seed = 2; seed < 12; ++seed) others += visited(Order::Random, seed) != one;
  EXPECT_GT(others, 5);
  EXPECT_EQ(Plan::walk("w", {}, Order::DepthFirst).describe(), "w: walk depth first\n");
}

TEST(Walk, StartsFromChosenValues) {
  std::unique_ptr<Graph> g = graphOf(kTwoBranches);
  std::string seen;
  PlanSettings settings;
  settings.from = {g->find("d")};
  runPlan(*g, Plan::walk("w", {noting(seen)}), settings);
  EXPECT_EQ(seen, "b d e");
  // Only what lies after %a is rewritten, until nothing changes as well.
  settings.from = {g->find("a")};
  Plan::Equilibrium parts;
  parts.nodes = {substitute("s", Symbol::of("test::f"), Symbol::of("test::k"))};
  runPlan(*g, Plan::equilibrium("e", parts), settings);
  EXPECT_EQ(shortText(*g), "f(If(c), k(x))");
}

TEST(Walk, KindsMayBeWholeNameSpaces) {
  std::string text =
      "graph(%x : Float(2), %n : int):\n  %a = test::f(%x)\n  %b : Float(2) = aten::relu(%x)\n"
      "  %l : int[] = prim::ListConstruct(%n)\n  %c = test::g(%b)\n  return (%a, %c, %l)\n";
  std::unique_ptr<Graph> g = graphOf(text);
  std::string seen;
  runPlan(*g, Plan::walk("w", {noting(seen, {Symbol::of("test::*")})}));
  EXPECT_EQ(seen, "a c");
  seen.clear();
  runPlan(*g, Plan::walk("w", {noting(seen, {Symbol::of("aten::*"), Symbol::of("test::g")})}));
  EXPECT_EQ(seen, "b c");
  AnalysisPatternManager manager;
  Diagnostics diagnostics;
  size_t count = 0;
  ASSERT_TRUE(manager.add("count",
                          {.kinds = {Symbol::of("test::*")},
                           .match = [](const Node*, const RewriteArguments&) { return true; },
                           .analyze = [&](const auto& nodes, const RewriteArguments&) { count = nodes.size(); }},
                          1, diagnostics));
  manager.analyze(*g);
  EXPECT_EQ(count, 2u);
}

TEST(Walk, UsersOfWhatChangedAreVisitedAgainOnDemand) {
  // h(f(x)) is only seen once f is there; the node h was visited before, from the outputs on.
  NodeRewrite make = substitute("make", Symbol::of("test::g"), Symbol::of("test::f"));
  NodeRewrite use = patternRewrite("use", patternOf(shortGraph("%a: h(f(%a))")), patternOf(shortGraph("%a: k(%a)")));
  use.seeds = nullptr;
  use.kinds = {Symbol::of("test::h")};
  auto visited = [&](Revisit revisit) {
    std::unique_ptr<Graph> g = graphOf(shortGraph("%x: h(g(%x))"));
    return runPlan(*g, Plan::walk("w", {make, use}, Order::OutToIn, revisit)).text;
  };
  EXPECT_EQ(visited(Revisit::Created), "h(f(x))");
  EXPECT_EQ(visited(Revisit::CreatedAndUsers), "k(x)");
}

// Of several rewrites those of higher benefit first, then those that were given first; none once the node is gone.
TEST(Walk, RewritesAreAskedInTheirOrder) {
  std::string asked;
  auto asking = [&](const char* name, int benefit) {
    NodeRewrite r{name, {Symbol::of("test::f")}, [&asked, name](Node*, RewriteContext&) {
                    asked += std::string(name) + " ";
                    return Replacement();
                  }};
    r.benefit = benefit;
    return r;
  };
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  runPlan(*g, Plan::walk("w", {asking("a", 1), asking("b", 2), asking("c", 1), asking("d", 2)}));
  EXPECT_EQ(asked, "b d a c ");
  asked.clear();
  NodeRewrite drop = bypass("drop", Symbol::of("test::f"));
  drop.benefit = 2;
  runPlan(*g, Plan::walk("w", {asking("a", 1), drop, asking("b", 3)}));
  EXPECT_EQ(asked, "b ");
  EXPECT_EQ(shortText(*g), "x");
}

TEST(Walk, PartsOfOthersAreAskedAboutTheirKinds) {
  auto to = [](const char* kind) {
    return NodeRewrite{"to", {Symbol::of("test::*")}, [kind](Node* n, RewriteContext& c) -> Replacement {
                         if (n->kind() == Symbol::of(kind)) return {};
                         return c.before(n).call(Symbol::of(kind), {n->input(0)}, types().tensor);
                       }};
  };
  NodeRewrite other{"other", {Symbol::of("aten::*")}, [](Node*, RewriteContext&) -> Replacement {
                      ADD_FAILURE() << "it asks for other nodes";
                      return {};
                    }};
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {firstOf("first", {other, to("test::g")})})).text, "g(x)");
}

TEST(Walk, WhatIsAllowedToAPartIsAllowedToTheWhole) {
  NodeRewrite plain = substitute("plain", Symbol::of("test::f"), Symbol::of("test::g")), loose = plain;
  loose.tolerance = 0.5;
  loose.autoCast = true;
  auto nothing = [](const Graph&) { return 0.0; };
  for (const NodeRewrite& whole :
       {firstOf("first", {plain, loose}), chain("chain", {plain, loose}), bestOf("best", {plain, loose}, nothing)}) {
    EXPECT_EQ(whole.tolerance, 0.5) << whole.name;
    EXPECT_TRUE(whole.autoCast) << whole.name;
  }
  EXPECT_FALSE(firstOf("first", {plain}).autoCast);
}

TEST(Walk, OneSweepSkipsMatchesThatOverlap) {
  // f(f(x)) -> f(x): each replacement makes an f that the next match would take.
  NodeRewrite r = patternRewrite("r", patternOf(shortGraph("%a: f(f(%a))")), patternOf(shortGraph("%a: f(%a)")));
  auto swept = [&](Revisit revisit) {
    std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(f(f(f(f(%x)))))"));
    return runPlan(*g, Plan::walk("w", {r}, Order::InToOut, revisit)).text;
  };
  EXPECT_EQ(swept(Revisit::OneSweep), "f(f(f(x)))");
  EXPECT_EQ(swept(Revisit::Created), "f(x)");
}

TEST(Walk, TracesNameWhatIsReplaced) {
  std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %y = test::f(%x)\n  %z = test::g(%y)\n  return (%z)\n");
  std::string lines;
  PlanSettings settings;
  settings.trace = [&](const std::string& line) { lines += line + "\n"; };
  NodeRewrite rename{"rename", {Symbol::of("test::g")}, [](Node* n, RewriteContext&) {
                       n->setKind(Symbol::of("test::k"));
                       return Replacement::done();
                     }};
  runPlan(*g, Plan::walk("w", {bypass("bypass", Symbol::of("test::f")), rename}), settings);
  EXPECT_EQ(lines,
            "rewriting: rewrite bypass replaces %y of test::f with %x of the inputs\n"
            "rewriting: rewrite rename changes %z : Tensor = test::g(%x)\n");
}

TEST(Walk, TracesTellWhatIsRefused) {
  NodeRewrite wrong{"wrong", {Symbol::of("test::f")}, [](Node* n, RewriteContext&) -> Replacement {
                      return std::vector<Value*>{n->input(0), n->input(0)};
                    }};
  auto traced = [&](const std::vector<std::string>& ignored) {
    std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %y = test::f(%x)\n  return (%y)\n");
    std::string lines;
    PlanSettings settings;
    settings.onFailure = OnFailure::Ignore;
    settings.trace = traceWithout(ignored, [&](const std::string& line) { lines += line + "\n"; });
    runPlan(*g, Plan::walk("w", {wrong}), settings);
    return lines;
  };
  EXPECT_EQ(traced({}),
            "rewriting: validate failed on node %y : Tensor = test::f(%x). Reason: wrong, 2 values for 1 output\n");
  EXPECT_EQ(traced({"wrong"}), "");
}

TEST(Walk, NodesWithoutAPlaceAreTold) {
  NodeRewrite careless{"careless", {Symbol::of("test::f")}, [](Node* n, RewriteContext& c) {
                         return Replacement(Builder(c.graph, n).insert(Symbol::of("test::g"), {n->input(0)})->output());
                       }};
  auto run = [&](NodeRewrite r, Provenance provenance) {
    std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
    PlanSettings settings;
    settings.provenance = provenance;
    return runPlan(*g, Plan::walk("w", {std::move(r)}), settings);
  };
  PlanResult off = run(careless, Provenance::Off), warned = run(careless, Provenance::Warn),
             refused = run(careless, Provenance::Error);
  EXPECT_EQ(off.messages, "");
  EXPECT_EQ(warned.text, "g(x)");
  EXPECT_EQ(warned.messages, "test: warning: rewrite 'careless': test::g was made without a place in the source\n");
  EXPECT_EQ(refused.text, "f(x)");
  EXPECT_NE(refused.messages.find("test::g was made without a place in the source"), std::string::npos);
  EXPECT_EQ(run(substitute("s", Symbol::of("test::f"), Symbol::of("test::g")), Provenance::Error).messages, "");
}

TEST(Walk, OtherDTypesAreConvertedWhereThatIsAllowed) {
  NodeRewrite r = patternRewrite("r", patternOf("graph(%x):\n  %y = aten::relu(%x)\n  return (%y)\n"),
                                 patternOf("graph(%x):\n  %y : Double(2) = test::f(%x)\n  return (%y)\n"));
  std::string text = "graph(%x : Float(2)):\n  %y : Float(2) = aten::relu(%x)\n  return (%y)\n";
  std::unique_ptr<Graph> g = graphOf(text);
  EXPECT_NE(runPlan(*g, Plan::walk("w", {r})).messages.find("does not fit"), std::string::npos);
  EXPECT_EQ(shortText(*g), "relu(x)");
  r.autoCast = true;
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {r})).messages, "");
  EXPECT_EQ(g->output(0)->node()->kind(), Symbol::of("aten::to"));
  EXPECT_EQ(g->output(0)->node()->input(0)->node()->kind(), Symbol::of("test::f"));
  EXPECT_EQ(typeText(g->output(0)->type()), "Float(2)");
  EXPECT_EQ(g->output(0)->name(), "y");
}

TEST(KindIndex, FollowsTheGraph) {
  std::unique_ptr<Graph> g = graphOf(kTwoBranches);
  EditLog log(*g);
  KindIndex index(log);
  auto names = [&](const char* kind) {
    std::string out;
    for (Node* n : index.nodes(Symbol::of(kind))) out += (out.empty() ? "" : " ") + n->output()->name();
    return out;
  };
  EXPECT_EQ(names("test::f"), "a r");
  EXPECT_EQ(names("test::h"), "e");
  size_t start = log.position();
  g->find("a")->node()->setKind(Symbol::of("test::h"));
  EXPECT_EQ(names("test::f"), "r");
  EXPECT_EQ(names("test::h"), "e a");
  Builder b(*g, g->find("r")->node());
  b.insert(Symbol::of("test::f"), {g->input(0)})->output()->setName("new");
  EXPECT_EQ(names("test::f"), "r new");
  g->find("d")->replaceAllUsesWith(g->input(0));
  g->find("d")->node()->destroy();
  EXPECT_EQ(names("test::h"), "a") << "what was inside has gone with it";
  EXPECT_EQ(index.count(Symbol::of("prim::If")), 0u);
  log.moveTo(start);
  EXPECT_EQ(names("test::f"), "r a");
  EXPECT_EQ(names("test::h"), "e");
  EXPECT_EQ(index.count(Symbol::of("prim::If")), 1u);
}

TEST(Clone, TellsWhatValuesHaveBecome) {
  std::unique_ptr<Graph> g = graphOf(kTwoBranches);
  ValueMap values;
  std::unique_ptr<Graph> copy = cloneGraph(*g, values);
  EXPECT_EQ(graphText(*copy), graphText(*g));
  for (const char* name : {"x", "a", "e", "r"}) EXPECT_EQ(values.at(g->find(name)), copy->find(name)) << name;
  EXPECT_EQ(values.size(), g->valueCount());
}

TEST(Dot, NamesAreQuoted) {
  std::unique_ptr<Graph> g = graphOf(
      "graph(%x):\n  %s : str = prim::Constant[value=\"a\\\"b\"]()\n  %y = test::f[note=\"c\\\\d\"](%x)\n"
      "  return (%y, %s)\n");
  std::string text = dotText(*g, "Net \"1\"");
  EXPECT_EQ(text.substr(0, text.find('\n')), "digraph \"Net \\\"1\\\"\" {");
  // Quotes are balanced in each line.
  for (size_t at = 0, end; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    int quotes = 0;
    for (size_t i = at; i < end; ++i) {
      if (text[i] == '\\') {
        ++i;
        continue;
      }
      quotes += text[i] == '"';
    }
    EXPECT_EQ(quotes % 2, 0) << text.substr(at, end - at);
  }
}

TEST(Modes, GoFromInliningToEverything) {
  auto plan = [](const char* mode) { return loweringDatabase().query(*loweringMode(mode)).describe(); };
  auto has = [&](const char* mode, const char* entry) { return plan(mode).find(entry) != std::string::npos; };
  EXPECT_EQ(plan("min"), "lowering: sequence\n  bind_inputs\n  mark_fallback\n  inline_calls\n  freeze\n");
  EXPECT_EQ(plan("o0"), plan("min"));
  EXPECT_EQ(plan("merge"), plan("min") + "  merge1\n");
  EXPECT_EQ(plan("o2"), loweringDatabase().query(Query().including({"default"})).describe());
  EXPECT_TRUE(has("o1", "functionalise"));
  EXPECT_FALSE(has("o1", "specialize"));
  EXPECT_TRUE(has("o3", "dot_to_dot22"));
  for (const char* mode : {"o1", "o2", "o3"}) EXPECT_FALSE(has(mode, "inplace")) << mode;
  EXPECT_TRUE(has("o4", "inplace"));
  for (const char* mode : {"o1", "o2", "o3", "o4"}) {
    EXPECT_FALSE(has(mode, "log1p")) << mode;       // assumes that there is no NaN
    EXPECT_FALSE(has(mode, "neg_to_mul")) << mode;  // reorders
  }
  EXPECT_TRUE(has("stabilize", "log1p"));
  EXPECT_FALSE(has("stabilize", "specialize"));
  EXPECT_TRUE(has("unsafe", "neg_to_mul") && has("unsafe", "log1p"));
  EXPECT_FALSE(loweringMode("o5"));
}

}  // namespace tscompile::test
