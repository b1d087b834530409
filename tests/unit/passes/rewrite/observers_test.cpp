// What tells of changes: traces as text and JSON, what became of a value; the driver that goes by kinds.
#include "ir/graph/printer.h"
#include "passes/rewrite/by_kind.h"
#include "passes/rewrite/trace.h"
#include "tests/support/json.h"
#include "tests/support/rewriting.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

constexpr const char* kChain = "graph(%x):\n  %y = test::f(%x)\n  %z = test::g(%y)\n  return (%z)\n";

TEST(TraceObserver, TellsEveryEdit) {
  for (auto form : {TraceObserver::Form::Text, TraceObserver::Form::Json}) {
    std::unique_ptr<Graph> g = graphOf(kChain);
    EditLog log(*g);
    std::vector<std::string> lines;
    TraceObserver trace(
        log, [&](const std::string& line) { lines.push_back(line); }, form);
    size_t start = log.position();
    runPlan(*g, Plan::walk("w", {bypass("bypass", Symbol::of("test::f"))}));
    g->find("z")->node()->setKind(Symbol::of("test::k"));
    g->find("z")->node()->setAttribute(Symbol::of("n"), IValue(int64_t{3}));
    ASSERT_EQ(lines.size(), 5u) << fmt::format("{}", fmt::join(lines, "\n"));
    if (form == TraceObserver::Form::Text) {
      EXPECT_EQ(lines[0], "changing input 0 of %z = test::g from %y to %x");
      EXPECT_EQ(lines[1], "changing input 0 of %y = test::f from %x to nothing");
      EXPECT_EQ(lines[2], "pruning %y = test::f()");
      EXPECT_EQ(lines[3], "changing %z = test::g to test::k");
      EXPECT_EQ(lines[4], "changing attribute n of %z = test::k");
    } else {
      Json change = parseJson(lines[0]);
      EXPECT_EQ(change["edit"].text, "input");
      EXPECT_EQ(change["index"].text, "0");
      EXPECT_EQ(change["before"].text, "%y");
      EXPECT_EQ(change["after"].text, "%x");
      EXPECT_EQ(parseJson(lines[2])["edit"].text, "prune");
      EXPECT_EQ(parseJson(lines[2])["node"].text, "%y = test::f()");
      EXPECT_FALSE(change.has("takingBack"));
    }
    lines.clear();
    log.moveTo(start);
    EXPECT_EQ(graphText(*g), graphText(*graphOf(kChain)));
    ASSERT_EQ(lines.size(), 5u);
    for (const std::string& line : lines)
      EXPECT_NE(line.find(form == TraceObserver::Form::Text ? "taking back: " : "\"takingBack\": true"),
                std::string::npos)
          << line;
  }
}

TEST(Trace, RewritesCanBeLeftOut) {
  std::unique_ptr<Graph> g = graphOf("graph(%x):\n  %y = test::f(%x)\n  %z = test::g(%y)\n  return (%z)\n");
  std::string lines;
  PlanSettings settings;
  settings.trace = traceWithout({"bypass"}, [&](const std::string& line) { lines += line + "\n"; });
  runPlan(*g,
          Plan::walk("w", {bypass("bypass", Symbol::of("test::f")),
                           substitute("bypass_not", Symbol::of("test::g"), Symbol::of("test::h"))}),
          settings);
  EXPECT_EQ(lines, "rewriting: rewrite bypass_not replaces %z of test::g with %z of test::h\n");
}

TEST(ReplacedBy, FollowsValuesThroughEveryRewrite) {
  std::unique_ptr<Graph> g = graphOf(kChain);
  EditLog log(*g);
  ReplacedBy became(log);
  const Value *x = g->input(0), *y = g->find("y"), *z = g->find("z");
  size_t start = log.position();
  EXPECT_EQ(became.now(z), z);
  runPlan(*g, Plan::walk("one", {substitute("g_to_h", Symbol::of("test::g"), Symbol::of("test::h"))}));
  const Value* first = g->output(0);
  ASSERT_NE(first, z);
  EXPECT_EQ(became.now(z), first);
  runPlan(*g, Plan::walk("two", {substitute("h_to_k", Symbol::of("test::h"), Symbol::of("test::k"))}));
  const Value* second = g->output(0);
  EXPECT_EQ(became.now(z), second);
  EXPECT_EQ(became.chain(z), (std::vector<const Value*>{z, first, second}));
  runPlan(*g, Plan::walk("three", {bypass("bypass", Symbol::of("test::f"))}));
  EXPECT_EQ(became.now(y), x);
  EXPECT_EQ(became.now(x), x);
  log.moveTo(start);
  for (const Value* v : {x, y, z}) EXPECT_EQ(became.now(v), v);
}

TEST(ByKind, LooksOnlyAtNodesOfItsKinds) {
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x, %y: f(k(f(g(%x, %y)), k(%x, f(%y))))"));
  size_t asked = 0;
  NodeRewrite watching = substitute("f_to_g1", Symbol::of("test::f"), Symbol::of("test::g1"));
  auto apply = watching.apply;
  watching.apply = [&asked, apply](Node* n, RewriteContext& c) {
    ++asked;
    EXPECT_EQ(n->kind(), Symbol::of("test::f"));
    return apply(n, c);
  };
  // What one makes, the other is asked about.
  NodeRewrite back = substitute("g1_to_h", Symbol::of("test::g1"), Symbol::of("test::h"));
  PlanResult r = runPlan(*g, Plan::of(byKind("kinds", {back, watching})));
  EXPECT_EQ(r.text, "h(k(h(g(x, y)), k(x, h(y))))");
  EXPECT_TRUE(r.outcome.changed);
  EXPECT_EQ(asked, 3u);
  EXPECT_FALSE(runPlan(*g, Plan::of(byKind("kinds", {back, watching}))).outcome.changed);
}

TEST(ByKind, EndsWhereRulesGoRound) {
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: f(%x)"));
  PlanResult r =
      runPlan(*g, Plan::of(byKind("kinds", {substitute("f_to_g", Symbol::of("test::f"), Symbol::of("test::g")),
                                            substitute("g_to_f", Symbol::of("test::g"), Symbol::of("test::f"))})));
  EXPECT_TRUE(r.text == "f(x)" || r.text == "g(x)") << r.text;
}

// Plugins are known by name space, type and version, which are attributes like others.
TEST(Pattern, PluginsByTheirAttributes) {
  Pattern pattern =
      patternOf("graph(%x):\n  %y = test::f[ns=\"llm\", type=~\"GPT.*\", version=$v](%x)\n  return (%y)\n");
  Pattern replacement = patternOf("graph(%x):\n  %y = test::g[version=$v](%x)\n  return (%y)\n");
  auto rewritten = [&](const char* attributes) {
    std::unique_ptr<Graph> g =
        graphOf("graph(%x):\n  %y = test::f[" + std::string(attributes) + "](%x)\n  return (%y)\n");
    runPlan(*g, Plan::walk("w", {patternRewrite("r", pattern, replacement)}));
    PrintOptions plain;
    plain.typeVerbosity = 0;
    return nodeText(*g->output(0)->node(), plain);
  };
  EXPECT_EQ(rewritten("ns=\"llm\", type=\"GPTAttention\", version=\"1\""), "%y = test::g[version=\"1\"](%x)");
  EXPECT_EQ(rewritten("ns=\"llm\", type=\"Gemm\", version=\"1\""),
            "%y = test::f[ns=\"llm\", type=\"Gemm\", version=\"1\"](%x)");
  EXPECT_EQ(rewritten("ns=\"other\", type=\"GPTAttention\", version=\"1\""),
            "%y = test::f[ns=\"other\", type=\"GPTAttention\", version=\"1\"](%x)");
}

// Users keep their order when another value takes the place.
TEST(Rewrite, UsersKeepTheirOrder) {
  std::unique_ptr<Graph> g = graphOf(R"(graph(%x : Tensor, %y : Tensor):
  %1 : int = prim::Constant[value=1]()
  %o : Tensor = aten::add(%x, %y, %1)
  %u : Tensor = aten::relu(%o)
  %v : Tensor = aten::neg(%o)
  %w : Tensor = aten::mul(%o, %u)
  return (%v, %w, %o)
)");
  auto users = [](const Value* v) {
    std::string out;
    for (const Use& u : v->uses()) out += std::string(u.user->kind().text()) + " ";
    return out;
  };
  EditLog log(*g);  // keeps the node that goes, to look at it
  const Value* old = g->find("o");
  std::string before = users(old);
  PlanResult r =
      runPlan(*g, Plan::walk("w", {substitute("add_to_sub", Symbol::of("aten::add"), Symbol::of("aten::sub"))}));
  EXPECT_EQ(r.outcome.applied, 1u);
  EXPECT_EQ(users(g->output(2)), before);
  EXPECT_EQ(users(old), "");
}

}  // namespace
}  // namespace tscompile::test
