#include "passes/rewrite/journal.h"

#include "frontend/text/parse.h"
#include "ir/graph/builder.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "tests/support/rewriting.h"
#include "tests/support/text_file.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> graphIn(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("text", text), diagnostics);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : nullptr;
}

constexpr const char* kJournalGraph =
    "graph(%x : Tensor,\n"
    "      %c : bool):\n"
    "  %y : Tensor = aten::relu(%x)\n"
    "  %z : Tensor = prim::If(%c)\n"
    "    block0():\n"
    "      %a : Tensor = aten::mul(%y, %y)\n"
    "      -> (%a)\n"
    "    block1():\n"
    "      -> (%x)\n"
    "  %w : Tensor = aten::matmul(%z, %y)\n"
    "  return (%w)\n";

// %y becomes the tanh of %x.
void relu(Graph& g) {
  Node* old = g.find("y")->node();
  Value* made = Builder(g, old).insert(Symbol::of("aten::tanh"), {g.input(0)})->output();
  old->output()->replaceAllUsesWith(made);
  old->destroy();
  made->setName("y");
}
// %a becomes %y.
void inner(Graph& g) {
  Node* old = g.find("a")->node();
  old->output()->replaceAllUsesWith(old->input(0));
  old->destroy();
}
void product(Graph& g) {
  Node* n = g.find("w")->node();
  n->setKind(Symbol::of("aten::mm"));
  n->setAttribute(Symbol::of("k"), IValue(1));
  n->addInput(g.input(0));
}

// A graph and its journal after three rewrites.
struct ThreeSteps {
  std::unique_ptr<Graph> graph = graphIn(kJournalGraph);
  Journal journal{*graph};
  std::vector<std::string> texts{graphText(*graph)};

  ThreeSteps() {
    void (*const kRewrites[])(Graph&) = {relu, inner, product};
    const char* const kReasons[] = {"relu_to_tanh", "drop_square", "matmul_to_mm"};
    for (int i = 0; i < 3; ++i) {
      kRewrites[i](*graph);
      journal.step(kReasons[i]);
      texts.push_back(graphText(*graph));
    }
  }
};

}  // namespace

TEST(Journal, WalksThroughAllStates) {
  ThreeSteps t;
  ASSERT_EQ(t.journal.size(), 3u);
  EXPECT_EQ(t.texts[0], kJournalGraph);
  for (size_t from = 0; from <= 3; ++from)
    for (size_t to = 0; to <= 3; ++to) {
      t.journal.goTo(from);
      t.journal.goTo(to);
      EXPECT_EQ(t.journal.current(), to);
      EXPECT_EQ(graphText(*t.graph), t.texts[to]);
    }
  t.journal.start();
  EXPECT_FALSE(t.journal.previous());
  for (size_t k = 0; k < 3; ++k) {
    EXPECT_EQ(graphText(*t.graph), t.texts[k]);
    EXPECT_TRUE(t.journal.next());
  }
  EXPECT_FALSE(t.journal.next());
  EXPECT_TRUE(t.journal.previous());
  EXPECT_EQ(graphText(*t.graph), t.texts[2]);
  t.journal.end();
  EXPECT_EQ(graphText(*t.graph), t.texts[3]);
  EXPECT_EQ(t.journal.reason(0), "relu_to_tanh");
  EXPECT_EQ(t.journal.reason(2), "matmul_to_mm");
}

TEST(Journal, StepsAreNamedByTheirRewrites) {
  std::unique_ptr<Graph> g = graphOf(shortGraph("%x: k(f(g(%x)))"));
  Journal journal(*g);
  std::vector<std::string> texts{graphText(*g)};
  PlanSettings settings;
  settings.applied = [&](const std::string& name) {
    journal.step(name);
    texts.push_back(graphText(*g));
  };
  auto kind = [](const char* name) { return Symbol::of("test::" + std::string(name)); };
  runPlan(
      *g,
      Plan::sequence("s", {Plan::walk("w", {bypass("drop_g", kind("g")), substitute("f_to_h", kind("f"), kind("h"))}),
                           Plan::walk("w", {bypass("drop_k", kind("k"))})}),
      settings);
  ASSERT_EQ(journal.size(), 3u);
  EXPECT_EQ(journal.reason(0) + " " + journal.reason(1) + " " + journal.reason(2), "drop_g f_to_h drop_k");
  EXPECT_EQ(shortText(*g), "h(x)");
  for (size_t k : {0, 3, 2, 1}) {
    journal.goTo(k);
    EXPECT_EQ(graphText(*g), texts[k]);
  }
}

TEST(Journal, ExportsReadableEdits) {
  ThreeSteps t;
  t.journal.goTo(1);
  EXPECT_EQ(t.journal.text(), readText(TSCOMPILE_TESTS_DIR "/data/journal.jsonl"));
  EXPECT_EQ(t.journal.current(), 1u);
  EXPECT_EQ(graphText(*t.graph), t.texts[1]);
}

TEST(Journal, AChangeInThePastForgetsTheFuture) {
  ThreeSteps t;
  t.journal.goTo(1);
  product(*t.graph);
  t.journal.step("other");
  EXPECT_EQ(t.journal.size(), 2u);
  EXPECT_EQ(t.journal.reason(1), "other");
  std::string last = graphText(*t.graph);
  t.journal.start();
  EXPECT_EQ(graphText(*t.graph), kJournalGraph);
  t.journal.end();
  EXPECT_EQ(graphText(*t.graph), last);
}

TEST(Journal, ChangesWithoutAStepAreNotLost) {
  ThreeSteps t;
  t.graph->find("c")->setName("condition");
  std::string last = graphText(*t.graph);
  t.journal.start();
  EXPECT_EQ(graphText(*t.graph), kJournalGraph);
  EXPECT_EQ(t.journal.size(), 4u);
  EXPECT_EQ(t.journal.reason(3), "");
  t.journal.end();
  EXPECT_EQ(graphText(*t.graph), last);
}

TEST(Journal, StepsWithoutChangesAreNone) {
  ThreeSteps t;
  t.journal.step("nothing");
  EXPECT_EQ(t.journal.size(), 3u);
}

TEST(Journal, SharesALogThatIsThere) {
  auto graph = graphIn(kJournalGraph);
  EditLog log(*graph);
  graph->find("c")->setName("before");
  {
    Journal journal(*graph);
    relu(*graph);
    journal.step("relu");
    // A transaction of somebody else that comes to nothing.
    size_t here = log.position();
    inner(*graph);
    log.moveTo(here);
    product(*graph);
    journal.step("product");
    EXPECT_EQ(journal.size(), 2u);
    journal.start();
    EXPECT_NE(graphText(*graph), kJournalGraph);
    EXPECT_NE(graph->find("before"), nullptr);
    journal.end();
  }
  log.moveTo(0);
  EXPECT_EQ(graphText(*graph), kJournalGraph);
}

}  // namespace tscompile::test
