// Changes that all happen or none: what is checked, what is taken back, who may object; which types may follow which.
#include "passes/rewrite/transaction.h"

#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "passes/rewrite/apply.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

// Why a transaction that does this is refused; "" if it is not.
std::string refusal(Graph& graph, const std::function<void(Transaction&)>& change) {
  Diagnostics diagnostics;
  Transaction t(graph, testOps());
  change(t);
  return t.commit(diagnostics) ? "" : diagnostics.list().at(0).message;
}

}  // namespace

TEST(Transactions, NestAndRollBack) {
  std::unique_ptr<Graph> g = shortly("%x, %y: f(g(%x), %y)");
  std::string before = graphText(*g);
  Diagnostics diagnostics;
  Node* inner = g->block()->first();
  {
    Transaction outer(*g, testOps());
    outer.replace(inner->output(), g->input(0));
    EXPECT_EQ(shortText(*g), "f(x, y)");
    {
      Transaction t(*g, testOps());
      t.replace(g->output(0), g->input(1));
      EXPECT_EQ(shortText(*g), "y");
      EXPECT_FALSE(outer.commit(diagnostics));  // the inner one is still open
    }
    EXPECT_EQ(graphText(*g), before);
  }
  EXPECT_NE(renderDiagnostics(diagnostics, "t").find("a transaction inside this one has not ended"), std::string::npos);
}

TEST(Transactions, WhatMustGoAndWhatMustFit) {
  std::unique_ptr<Graph> g = shortly("%x, %y: f(g(%x), g(%x))");
  std::string before = graphText(*g);
  Diagnostics diagnostics;
  Node* inner = g->block()->first();
  {
    Transaction t(*g, testOps());
    t.mustGo(inner);
    t.replaceIf(inner->output(), g->input(0), [](const Use&) { return false; });
    EXPECT_FALSE(t.commit(diagnostics));
  }
  EXPECT_NE(renderDiagnostics(diagnostics, "t").find("test::g was to go"), std::string::npos);
  EXPECT_EQ(graphText(*g), before);
  g = graphOf("graph(%x : Double(2)):\n  %y : Float(2) = test::f(%x)\n  return (%y)\n");
  Transaction t(*g, testOps());
  t.replace(g->output(0), g->input(0));
  EXPECT_FALSE(t.commit(diagnostics));
  EXPECT_NE(renderDiagnostics(diagnostics, "t").find("does not fit %y of type Float(2)"), std::string::npos);
}

TEST(Transactions, ObserversMayObject) {
  std::unique_ptr<Graph> g = shortly("%x, %y: f(g(%x), %y)");
  std::string before = graphText(*g);
  Diagnostics diagnostics;
  Node* inner = g->block()->first();
  EditLog log(*g);
  ProtectValues protect({inner->output()});
  log.attach(&protect);
  Transaction t(*g, testOps());
  t.replace(inner->output(), g->input(0));
  EXPECT_FALSE(t.commit(diagnostics));
  EXPECT_EQ(graphText(*g), before);
  log.detach(&protect);
  Transaction again(*g, testOps());
  again.replace(inner->output(), g->input(0));
  EXPECT_TRUE(again.commit(diagnostics));
  EXPECT_EQ(shortText(*g), "f(x, y)");
}

TEST(Transactions, OnlySomeUses) {
  std::unique_ptr<Graph> g = shortly("%x, %y: f(%x, g(%x)), h(%x)");
  EXPECT_EQ(refusal(*g,
                    [&](Transaction& t) {
                      t.replaceIf(g->input(0), g->input(1), [](const Use& u) { return u.user->kind().name() != "g"; });
                    }),
            "");
  EXPECT_EQ(shortText(*g), "f(y, g(x)), h(y)");
}

TEST(Transactions, ValuesThatAreGoneAreRefused) {
  std::unique_ptr<Graph> g = shortly("%x: f(g(%x))");
  EditLog log(*g);
  Value* gone = g->block()->first()->output();
  EXPECT_EQ(refusal(*g, [&](Transaction& t) { t.replace(gone, g->input(0)); }), "");
  ASSERT_EQ(shortText(*g), "f(x)");
  EXPECT_EQ(refusal(*g, [&](Transaction& t) { t.replace(gone, g->input(0)); }),
            "the change was taken back: %1 is not in the graph");
  EXPECT_EQ(refusal(*g, [&](Transaction& t) { t.replace(g->output(0), gone); }),
            "the change was taken back: %1 was removed from the graph");
  EXPECT_EQ(shortText(*g), "f(x)");
}

TEST(Transactions, WhatHasEffectsStays) {
  std::unique_ptr<Graph> g = graphOf(
      "graph(%x : Tensor, %y : Tensor):\n  %a : Tensor = test::g(%x)\n  %w : Tensor = aten::neg_(%y)\n"
      "  %z : Tensor = test::f(%a, %w)\n  return (%z)\n");
  EXPECT_EQ(refusal(*g, [&](Transaction& t) { t.replace(g->output(0), g->input(0)); }), "");
  EXPECT_EQ(graphText(*g), "graph(%x : Tensor,\n      %y : Tensor):\n  %w : Tensor = aten::neg_(%y)\n  return (%x)\n");
}

TEST(Transactions, TypesOfWhatTakesAPlace) {
  // What is known of either; nothing where they contradict each other.
  for (auto [before, after, merged] : {std::tuple{"Tensor", "Float(2, 3)", "Float(2, 3)"},
                                       {"Float(2, 3)", "Tensor", "Float(2, 3)"},
                                       {"Float(*, 3)", "Float(2, *)", "Float(2, 3)"},
                                       {"Float(2, 3)", "Float(2, 4)", ""},
                                       {"Float(2, 3)", "Float(2)", ""},
                                       {"Float(2)", "Double(2)", ""},
                                       {"Float(2, device=cpu)", "Float(2, device=cuda:0)", ""},
                                       {"Float(2, device=cuda:1)", "Float(2, device=cuda:0)", ""},
                                       {"Float(2, device=cuda:0)", "Float(2)", "Float(2, device=cuda:0)"},
                                       {"int", "int", "int"},
                                       {"int", "float", ""},
                                       {"int[]", "Tensor", ""}}) {
    std::unique_ptr<Graph> g =
        graphOf("graph(%a : " + std::string(before) + ", %b : " + after + "):\n  return (%a, %b)\n");
    TypePtr type = mergedType(g->input(0)->type(), g->input(1)->type());
    EXPECT_EQ(type ? typeText(type) : "", merged) << before << " by " << after;
  }
}

}  // namespace tscompile::test
