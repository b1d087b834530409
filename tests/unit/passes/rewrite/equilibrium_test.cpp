// Equilibria and sequences: which part runs when, what ends them, what becomes of failures.
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// Says two values for one output.
NodeRewrite wrongRewrite() {
  return {"wrong", {kF}, [](Node* n, RewriteContext&) -> Replacement {
            return std::vector<Value*>{n->input(0), n->input(0)};
          }};
}

}  // namespace

TEST(Equilibrium, PartsRunInTheirOrder) {
  std::string order;
  // Tells that it changed the graph the first few times.
  auto part = [&](std::string name, int times) {
    return GraphRewrite{name, [&order, name, times](Graph&, RewriteContext&) mutable {
                          order += name + " ";
                          return times-- > 0;
                        }};
  };
  NodeRewrite node = substitute("node", kF, kG);
  node.apply = [&order, apply = node.apply](Node* n, RewriteContext& c) {
    order += "node ";
    return apply(n, c);
  };
  Plan::Equilibrium parts{
      .global = {part("global", 1)}, .nodes = {node}, .final = {part("final", 2)}, .cleanup = {part("cleanup", 0)}};
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  EXPECT_TRUE(runPlan(*g, Plan::equilibrium("e", parts)).outcome.converged);
  EXPECT_EQ(order, "global cleanup node final cleanup global final cleanup global final ");
}

TEST(Equilibrium, RewritesThatUndoEachOtherAreNamed) {
  Plan::Equilibrium parts;
  parts.nodes = {substitute("there", kF, kG), substitute("back", kG, kF), substitute("apart", kH, kH)};
  parts.revisit = Revisit::None;
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  PlanResult r = runPlan(*g, Plan::equilibrium("swapping", parts));
  EXPECT_FALSE(r.outcome.converged);
  EXPECT_EQ(r.outcome.stoppedBy, "back, there");
  EXPECT_EQ(r.messages,
            "test: warning: 'swapping' was ended before nothing changed any more\n"
            "note: rewrites that went on: back, there\n");
}

std::unique_ptr<Graph> longGraph(int nodes) {
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  Builder b(*g, g->returnNode());
  for (int i = 0; i < nodes; ++i) g->returnNode()->replaceInput(0, b.insert(kF, {g->output(0)})->output());
  return g;
}

TEST(Equilibrium, PassesAreBounded) {
  Plan::Equilibrium parts;
  int passes = 0;
  parts.global = {GraphRewrite{"grows", [&](Graph& g, RewriteContext&) {
                                 ++passes;
                                 Builder b(g, g.returnNode());
                                 g.returnNode()->replaceInput(0, b.insert(kF, {g.output(0)})->output());
                                 return true;
                               }}};
  PlanSettings settings;
  settings.maxPasses = 5;
  std::unique_ptr<Graph> g = longGraph(2000);
  PlanResult r = runPlan(*g, Plan::equilibrium("e", parts), settings);
  EXPECT_FALSE(r.outcome.converged);
  EXPECT_EQ(r.outcome.stoppedBy, "grows");
  EXPECT_EQ(passes, 5);
}

// What becomes known layer after layer takes as many passes as there are layers.
TEST(Equilibrium, PassesGrowWithTheGraph) {
  Plan::Equilibrium parts;
  int left = 100;
  parts.global = {GraphRewrite{"one_more", [&](Graph& g, RewriteContext&) {
                                 if (!left) return false;
                                 --left;
                                 Builder b(g, g.returnNode());
                                 g.returnNode()->replaceInput(0, b.insert(kF, {g.output(0)})->output());
                                 return true;
                               }}};
  std::unique_ptr<Graph> g = longGraph(2000);
  EXPECT_TRUE(runPlan(*g, Plan::equilibrium("e", parts)).outcome.converged);
  EXPECT_EQ(left, 0);
}

TEST(Equilibrium, TheSizeOfTheGraphIsBounded) {
  NodeRewrite doubles = rule("doubles", "%a: f(%a)", "%a: k(f(%a), f(%a))");
  Plan::Equilibrium parts;
  parts.nodes = {doubles};
  PlanSettings settings;
  settings.maxNodes = 20;
  for (const Plan& plan : {Plan::equilibrium("doubling", parts), Plan::walk("doubling", {doubles})}) {
    std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
    PlanResult r = runPlan(*g, plan, settings);
    EXPECT_FALSE(r.outcome.converged);
    EXPECT_EQ(r.outcome.stoppedBy, "doubles");
    EXPECT_EQ(g->nodeCount(), 21u);
    EXPECT_NE(r.messages.find("the graph has more than 20 nodes"), std::string::npos) << r.messages;
  }
  // A graph that is larger than that may still change.
  settings.maxNodes = 1;
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(f(f(%x)))"));
  EXPECT_EQ(runPlan(*g, Plan::walk("w", {substitute("s", kF, kG)}), settings).text, "g(g(g(x)))");
}

TEST(Sequence, GoesOnBehindWarningsAndEndsAtErrors) {
  Plan plan = Plan::sequence("outer", {Plan::sequence("inner", {Plan::walk("first", {wrongRewrite()})}),
                                       Plan::walk("second", {substitute("right", kF, kG)})});
  auto run = [&](OnFailure onFailure, const char* text, const char* messages) {
    std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %y = test::f(%x)\n  return (%y)\n");
    PlanSettings settings;
    settings.onFailure = onFailure;
    std::vector<RewriteFailure> failures;
    settings.failed = [&](const RewriteFailure& f) { failures.push_back(f); };
    PlanResult r = runPlan(*g, plan, settings);
    EXPECT_EQ(r.text, text);
    EXPECT_EQ(r.outcome.failed, onFailure == OnFailure::Error);
    EXPECT_EQ(r.messages.substr(0, r.messages.find('\n')), messages);
    ASSERT_EQ(failures.size(), 1u);
    EXPECT_EQ(failures[0].rewrite, "wrong");
    EXPECT_EQ(failures[0].message, "2 values for 1 output");
    EXPECT_NE(failures[0].node.find("%y : Tensor = test::f(%x)"), std::string::npos);
  };
  run(OnFailure::Error, "f(x)", "<text>:2:3: error: rewrite 'wrong' was taken back: 2 values for 1 output");
  run(OnFailure::Warn, "g(x)", "<text>:2:3: warning: rewrite 'wrong' was taken back: 2 values for 1 output");
  run(OnFailure::Ignore, "g(x)", "");
}

TEST(Sequence, EntriesThatBreakTheGraphAreTakenBack) {
  // The first node of the graph then uses what is made after it.
  GraphRewrite breaks{"breaks", [](Graph& g, RewriteContext&) {
                        g.block()->first()->replaceInput(0, g.output(0));
                        return true;
                      }};
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(g(%x))"));
  std::string before = graphText(*g);
  PlanSettings settings;
  settings.verify = true;
  PlanResult r =
      runPlan(*g, Plan::sequence("s", {Plan::of(breaks), Plan::walk("after", {substitute("s", kF, kH)})}), settings);
  EXPECT_EQ(graphText(*g), before);
  EXPECT_TRUE(r.outcome.failed);
  EXPECT_NE(r.messages.find("'breaks' was taken back: it leaves a graph that is not valid"), std::string::npos)
      << r.messages;
}

TEST(Sequence, DescribesItselfToADepth) {
  Plan plan = Plan::sequence("a", {Plan::sequence("b", {Plan::walk("c", {substitute("s", kF, kG)})})});
  EXPECT_EQ(plan.describe(), "a: sequence\n  b: sequence\n    c: walk from the inputs\n      s\n");
  EXPECT_EQ(plan.describe(2), "a: sequence\n  b: sequence\n    c: walk from the inputs\n");
  EXPECT_EQ(plan.describe(1), "a: sequence\n  b: sequence\n");
  EXPECT_EQ(plan.describe(0), "a: sequence\n");
}

// ---- structure ----

TEST(StructureHash, TellsGraphsThatDifferInMoreThanNames) {
  auto hash = [](const std::string& text) { return structureHash(*graphOf(text)); };
  const std::string text =
      "graph(%x : Tensor, %c : bool):\n  %n : int = prim::Constant[value=2]()\n  %a : Tensor = aten::mul(%x, %n)\n"
      "  %y : Tensor = prim::If(%c)\n    block0():\n      %b : Tensor = test::f[k=1](%a)\n      -> (%b)\n"
      "    block1():\n      -> (%x)\n  return (%y)\n";
  auto with = [&](std::string from, const std::string& to) {
    std::string other = text;
    for (size_t at = other.find(from); at != std::string::npos; at = other.find(from, at + to.size()))
      other.replace(at, from.size(), to);
    EXPECT_NE(other, text) << from;
    return hash(other);
  };
  EXPECT_EQ(with("%a", "%other"), hash(text));
  EXPECT_EQ(with("  return", "  # net.py:7:3\n  return"), hash(text));
  for (auto [from, to] : {std::pair{"value=2", "value=3"},
                          {"value=2", "value=2."},
                          {"k=1", "k=2"},
                          {"k=1", "j=1"},
                          {"test::f", "test::g"},
                          {"(%a)", "(%x)"},
                          {"-> (%x)", "-> (%a)"},
                          {"(%x, %n)", "(%x, %x)"},
                          {"return (%y)", "return (%a)"},
                          {"return (%y)", "return (%y, %y)"}})
    EXPECT_NE(with(from, to), hash(text)) << to;
}

TEST(StructureHash, TellsTensorsApart) {
  auto tensor = [](int64_t size, float last) {
    Tensor t = Tensor::empty(DType::Float32, Dims{size});
    std::fill_n(t.data<float>(), size, 1.0F);
    t.data<float>()[size - 1] = last;
    return t;
  };
  auto hash = [](const Tensor& t) {
    std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %y = test::f(%x)\n  return (%y)\n");
    g->block()->first()->setAttribute(Symbol::of("t"), IValue(t));
    return structureHash(*g);
  };
  for (int64_t size : {3, 5000}) {
    Tensor t = tensor(size, 2);
    EXPECT_EQ(hash(t), hash(t)) << size;
    EXPECT_NE(hash(t), hash(tensor(size, 3))) << size;
  }
  EXPECT_EQ(hash(tensor(3, 2)), hash(tensor(3, 2)));
}

}  // namespace tscompile::test
