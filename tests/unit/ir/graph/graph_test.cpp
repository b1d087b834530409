// Graphs as data structures: order, uses, names, nested blocks, copies.
#include "ir/graph/graph.h"

#include "frontend/text/parse.h"
#include "ir/analysis/verifier.h"
#include "ir/graph/builder.h"
#include "ir/graph/clone.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"
#include "runtime/registry.h"

#include <gtest/gtest.h>

namespace tscompile {
namespace {

const Symbol kRelu = Symbol::of("aten::relu"), kAdd = Symbol::of("aten::add");

std::unique_ptr<Graph> parsed(const char* text) {
  Diagnostics diagnostics;
  ParseOptions options;
  options.registry = &allOps();
  Result<std::unique_ptr<Graph>> graph = parseGraph(SourceFile::make("text", text), diagnostics, options);
  EXPECT_TRUE(graph.ok()) << renderDiagnostics(diagnostics, "test");
  return std::move(*graph);
}

constexpr const char* kNested = R"(graph(%x : Tensor,
      %c : bool):
  %y : Tensor = prim::If(%c)
    block0():
      %a : Tensor = aten::relu(%x)
      %b : Tensor = aten::neg(%a)
      -> (%b)
    block1():
      -> (%x)
  %z : Tensor = aten::relu(%y)
  return (%z)
)";

TEST(Types, AreInterned) {
  EXPECT_EQ(listType(types().tensor), types().tensorList);
  EXPECT_EQ(optionalType(types().integer), optionalType(types().integer));
  EXPECT_NE(optionalType(types().integer), types().integer);
}

TEST(Graph, PrintsWhatABuilderMade) {
  Graph graph;
  Value* x = graph.addInput(types().tensor);
  Builder b(graph);
  Value* y = b.call("aten::relu", {x});
  graph.addOutput(y);
  EXPECT_EQ(graphText(graph), "graph(%0 : Tensor):\n  %1 : Tensor = aten::relu(%0)\n  return (%1)\n");
}

TEST(Graph, KeepsItsOrderThroughManyInsertionsAtOnePlace) {
  Graph graph;
  Value* x = graph.addInput(types().tensor);
  Builder b(graph);
  Node* first = b.insert(kRelu, {x});
  Node* last = b.insert(kRelu, {x});
  // Between the same two neighbours there is room for ever more nodes.
  b.setPoint(last);
  std::vector<Node*> nodes{first};
  for (int i = 0; i < 5000; ++i) nodes.push_back(b.insert(kRelu, {x}));
  b.setPointAfter(first);
  for (int i = 0; i < 5000; ++i) nodes.insert(nodes.begin() + 1, b.insert(kRelu, {x})), b.setPointAfter(first);
  nodes.push_back(last);
  for (size_t i = 1; i < nodes.size(); ++i) {
    ASSERT_TRUE(nodes[i - 1]->isBefore(nodes[i])) << i;
    ASSERT_FALSE(nodes[i]->isBefore(nodes[i - 1])) << i;
    ASSERT_EQ(nodes[i - 1]->next(), nodes[i]);
  }
}

TEST(Graph, OrdersNodesOfDifferentBlocks) {
  auto graph = parsed(kNested);
  Node* branch = graph->block()->first();
  Node *a = branch->block(0)->first(), *b = a->next(), *z = branch->next();
  EXPECT_TRUE(a->isBefore(b));
  EXPECT_TRUE(a->isBefore(z));
  EXPECT_TRUE(z->isAfter(b));
  EXPECT_EQ(a->block()->depth(), 1u);
  EXPECT_EQ(a->block()->owner(), branch);
  EXPECT_EQ(a->block()->parent(), graph->block());
}

TEST(Graph, FindsNodesByKindInTextOrder) {
  auto graph = parsed(kNested);
  auto relus = [&] { return graph->nodesOf([](Symbol kind) { return kind == kRelu; }); };
  Node* branch = graph->block()->first();
  Node *a = branch->block(0)->first(), *b = a->next(), *z = branch->next();
  EXPECT_EQ(relus(), (std::vector<Node*>{a, z}));
  b->setKind(kRelu);  // made before z, and stands before it
  EXPECT_EQ(relus(), (std::vector<Node*>{a, b, z}));
  Node* loose = graph->create(kRelu, {graph->input(0)});
  EXPECT_EQ(relus(), (std::vector<Node*>{a, b, z}));
  loose->insertBefore(branch);  // the last that was made
  EXPECT_EQ(relus(), (std::vector<Node*>{loose, a, b, z}));
  loose->destroy();
  EXPECT_EQ(relus(), (std::vector<Node*>{a, b, z}));
  EXPECT_EQ(graph->kinds().count(kRelu), 3u);
  EXPECT_EQ(graph->kinds().count(kAdd), 0u);
  // More kinds than the table had room for, and a node that takes the number of the one that is gone.
  for (int i = 0; i < 200; ++i) {
    Symbol kind = Symbol::of("test::kind" + std::to_string(i));
    graph->create(kind, {graph->input(0)})->insertBefore(z);
    ASSERT_EQ(graph->kinds().count(kind), 1u);
  }
  EXPECT_EQ(relus(), (std::vector<Node*>{a, b, z}));
  EXPECT_EQ(graph->nodesOf([](Symbol) { return true; }).size(), graph->nodeCount());
}

TEST(Graph, MovesNodes) {
  auto graph =
      parsed("graph(%x : Tensor):\n  %a : Tensor = aten::relu(%x)\n  %b : Tensor = aten::neg(%x)\n  return (%a, %b)\n");
  Node *a = graph->block()->first(), *b = a->next();
  a->moveAfter(b);
  EXPECT_TRUE(b->isBefore(a));
  EXPECT_EQ(graphText(*graph),
            "graph(%x : Tensor):\n  %b : Tensor = aten::neg(%x)\n  %a : Tensor = aten::relu(%x)\n  return (%a, %b)\n");
}

TEST(Graph, ReplacesUsesInTheirOrder) {
  auto graph = parsed(
      "graph(%x : Tensor, %n : int):\n  %y : Tensor = aten::add(%x, %x, %n)\n  %z : Tensor = aten::relu(%x)\n  return "
      "(%y, %z, %x)\n");
  Value* x = graph->input(0);
  EXPECT_EQ(x->useCount(), 4u);
  Builder b(*graph, graph->block()->first());
  Value* neg = b.call(Symbol::of("aten::neg"), {x}, types().tensor);
  std::vector<Node*> users;
  for (Use& u : x->uses())
    if (u.user != neg->node()) users.push_back(u.user);
  x->replaceAllUsesWith(neg);
  EXPECT_FALSE(x->hasUses());
  neg->node()->replaceInput(0, x);
  EXPECT_EQ(x->useCount(), 1u);
  std::vector<Node*> after;
  for (Use& u : neg->uses())
    if (u.user != neg->node()) after.push_back(u.user);
  EXPECT_EQ(after, users);
  Diagnostics diagnostics;
  EXPECT_TRUE(verify(*graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
}

TEST(Graph, UsesKnowTheirPosition) {
  auto graph = parsed("graph(%x : Tensor, %n : int):\n  %y : Tensor = aten::add(%x, %x, %n)\n  return (%y)\n");
  Node* add = graph->block()->first();
  add->insertInput(0, graph->input(1));
  EXPECT_EQ(add->inputUse(0).index(), 0u);
  EXPECT_EQ(add->inputUse(2).index(), 2u);
  EXPECT_EQ(graph->input(1)->useCount(), 2u);
  add->removeInput(0);
  EXPECT_EQ(graph->input(1)->useCount(), 1u);
  EXPECT_EQ(graph->input(1)->firstUse()->index(), 2u);
}

TEST(Graph, RenamesTheOlderOwnerOfAName) {
  auto graph = parsed("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x)\n  return (%y)\n");
  Value* y = graph->output(0);
  EXPECT_TRUE(y->setName("x"));
  EXPECT_EQ(y->name(), "x");
  EXPECT_EQ(graph->input(0)->name(), "x.1");
  EXPECT_FALSE(y->setName("12"));
  EXPECT_EQ(graph->find("x"), y);
}

TEST(Graph, DestroysNodesWithTheirBlocks) {
  auto graph = parsed(kNested);
  Node* branch = graph->block()->first();
  branch->output()->replaceAllUsesWith(graph->input(0));
  size_t before = graph->nodeCount();
  branch->destroy();
  EXPECT_LT(graph->nodeCount(), before);
  EXPECT_EQ(graphText(*graph),
            "graph(%x : Tensor,\n      %c : bool):\n  %z : Tensor = aten::relu(%x)\n  return (%z)\n");
}

TEST(Builder, GuardsItsPlace) {
  auto graph = parsed(kNested);
  Node* branch = graph->block()->first();
  Builder b(*graph);
  {
    InsertionGuard guard(b);
    b.setPointAtStart(branch->block(1));
    Value* extra = b.call(kRelu, {graph->input(0)}, types().tensor);
    branch->block(1)->returnNode()->replaceInput(0, extra);
  }
  try {
    InsertionGuard guard(b);
    b.setPointAtStart(branch->block(0));
    throw 1;
  } catch (int) {
  }
  graph->returnNode()->replaceInput(0, b.call(kRelu, {graph->output(0)}, types().tensor));
  EXPECT_EQ(graph->block()->last()->input(0), branch->next()->output());
  EXPECT_EQ(branch->block(1)->first()->kind(), kRelu);
  Diagnostics diagnostics;
  EXPECT_TRUE(verify(*graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
}

TEST(Builder, GivesThePlaceOfANode) {
  auto graph =
      parsed("graph(%x : Tensor):\n  %y : Tensor = aten::relu(%x), scope: Net/Relu # net.py:7:3\n  return (%y)\n");
  Builder b(*graph);
  b.setPlaceOf(graph->block()->first());
  graph->returnNode()->replaceInput(0, b.call(kRelu, {graph->output(0)}, types().tensor));
  EXPECT_NE(graphText(*graph).find("aten::relu(%y), scope: Net/Relu # net.py:7:3"), std::string::npos)
      << graphText(*graph);
}

TEST(Clone, IsIndependent) {
  auto graph = parsed(kNested);
  std::unique_ptr<Graph> copy = cloneGraph(*graph);
  std::string text = graphText(*graph);
  EXPECT_EQ(graphText(*copy), text);
  copy->block()->first()->block(0)->first()->setKind(Symbol::of("aten::sigmoid"));
  EXPECT_EQ(graphText(*graph), text);
  EXPECT_NE(graphText(*copy), text);
  graph.reset();
  EXPECT_EQ(copy->nodeCount(), 4u);
}

TEST(Clone, OfABlockTakesItsValuesAlong) {
  auto graph = parsed(kNested);
  Node* branch = graph->block()->first();
  ValueMap values;
  cloneNodesBefore(*branch->block(0), branch, values);
  Value* result = values.at(branch->block(0)->result(0));
  branch->output()->replaceAllUsesWith(result);
  branch->destroy();
  Diagnostics diagnostics;
  EXPECT_TRUE(verify(*graph, allOps(), diagnostics)) << renderDiagnostics(diagnostics, "test");
  EXPECT_EQ(graph->nodeCount(), 3u);
}

}  // namespace
}  // namespace tscompile
