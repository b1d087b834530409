#include "passes/rewrite/call_records.h"

#include "frontend/text/parse.h"
#include "ir/graph/builder.h"
#include "ir/graph/printer.h"
#include "ir/support/diagnostic_printer.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

std::unique_ptr<Graph> parsed(const std::string& text) {
  Diagnostics diagnostics;
  Result<std::unique_ptr<Graph>> g = parseGraph(SourceFile::make("text", text), diagnostics);
  EXPECT_TRUE(g.ok()) << renderDiagnostics(diagnostics, "test") << text;
  return g ? std::move(*g) : nullptr;
}

constexpr const char* kText =
    "graph(%x : Tensor,\n"
    "      %b : Tensor):\n"
    "  %heads : int = prim::Constant[value=8]()\n"
    "  %qkv : Tensor = aten::relu(%x)\n"
    "  %out : Float(2, 3), %past : Tensor = test::attention(%qkv, %b, %heads)\n"
    "  %next : Tensor = aten::exp(%out)\n"
    "  return (%next, %out, %past)\n";

// The graph above and a record of its attention.
struct Attention {
  std::unique_ptr<Graph> graph = parsed(kText);
  EditLog log{*graph};
  CallRecords records{log};
  Node* node = find("out")->node();
  CallRecord* record = records.add("gpt_attention",
                                   {{"qkv", find("qkv")},
                                    {"biases", CallArgument::list({find("b"), CallArgument::tuple({find("x")})})},
                                    {"heads", IValue(8)},
                                    {"mask", IValue()}},
                                   {find("out"), find("past")}, {node});

  Value* find(const char* name) { return graph->find(name); }
  Value* nested(size_t i) { return record->argument("biases")->items()->list[i].value(); }
  Value* insert(const char* kind, Value* input, Node* before) {
    return Builder(*graph, before).insert(Symbol::of(kind), {input})->output();
  }
};

}  // namespace

TEST(CallRecords, AreFoundByNodeAndKind) {
  Attention a;
  EXPECT_EQ(a.records.find(a.node), a.record);
  EXPECT_EQ(a.records.find(a.find("next")->node()), nullptr);
  EXPECT_EQ(a.records.ofKind("gpt_attention"), std::vector<CallRecord*>{a.record});
  EXPECT_TRUE(a.records.ofKind("relu").empty());
  EXPECT_EQ(a.record->kind(), "gpt_attention");
  EXPECT_EQ(a.record->input("qkv"), a.find("qkv"));
  EXPECT_EQ(a.record->input("heads"), nullptr);
  EXPECT_EQ(a.record->input("unknown"), nullptr);
  EXPECT_EQ(a.record->argument("heads")->constant()->toInt(), 8);
  EXPECT_EQ(a.nested(0), a.find("b"));
  EXPECT_EQ(a.record->signature(), "gpt_attention(qkv=%, biases=[%, (%)], heads=8, mask=None)");
  EXPECT_EQ(a.record->nodes(), std::vector<Node*>{a.node});
  EXPECT_EQ(a.records.requestFor("gpt_attention"), nullptr);
  a.records.request("gpt_attention");
  for (const char* name : {"gpt_attention", "__torch__.functional.gpt_attention"}) {
    ASSERT_NE(a.records.requestFor(name), nullptr) << name;
    EXPECT_EQ(*a.records.requestFor(name), "gpt_attention");
  }
  EXPECT_EQ(a.records.requestFor("my_gpt_attention"), nullptr);
}

TEST(CallRecords, ClonedInputsAreOnesOwn) {
  Attention a;
  CallArguments inputs = a.record->cloneInputs();
  *findArgument(inputs, "qkv") = a.find("x");
  EXPECT_EQ(findArgument(inputs, "qkv")->value(), a.find("x"));
  EXPECT_EQ(a.record->input("qkv"), a.find("qkv"));
  EXPECT_EQ(findArgument(inputs, "nothing"), nullptr);
}

TEST(CallRecords, InputsAreReplacedInsideListsToo) {
  Attention a;
  EXPECT_EQ(a.records.replaceInputWith(*a.record, a.find("b"), a.find("x")), 1u);
  EXPECT_EQ(a.nested(0), a.find("x"));
  EXPECT_EQ(a.records.replaceInputWith(*a.record, a.find("x"), a.find("qkv")), 2u);
  EXPECT_EQ(a.record->signature(), "gpt_attention(qkv=%, biases=[%, (%)], heads=8, mask=None)");
  EXPECT_EQ(a.record->argument("biases")->items()->list[1].items()->list[0].value(), a.find("qkv"));
  EXPECT_EQ(graphText(*a.graph), kText);
}

TEST(CallRecords, FollowReplacementsByThemselves) {
  Attention a;
  Value* tanh = a.insert("aten::tanh", a.find("x"), a.node);
  a.find("qkv")->replaceAllUsesWith(tanh);
  EXPECT_EQ(a.record->input("qkv"), tanh);
  // What a driver does: all uses but those of the replacement itself.
  Value* biased = a.insert("aten::neg", tanh, a.node);
  a.node->replaceInput(0, biased);
  EXPECT_TRUE(tanh->hasUses());
  EXPECT_EQ(a.record->input("qkv"), biased);
  // Inside lists.
  a.find("b")->replaceAllUsesWith(a.find("x"));
  EXPECT_EQ(a.nested(0), a.find("x"));
}

TEST(CallRecords, OtherUsersDoNotMatter) {
  Attention a;
  Node* other = a.insert("aten::sin", a.find("qkv"), a.node)->node();
  other->replaceInput(0, a.find("b"));
  EXPECT_EQ(a.record->input("qkv"), a.find("qkv"));
}

TEST(CallRecords, OutputsFollowToo) {
  Attention a;
  Value* other = a.insert("aten::abs", a.find("x"), a.node);
  a.find("past")->replaceAllUsesWith(other);
  EXPECT_EQ(a.record->outputs()[1], other);
}

TEST(CallRecords, OutputsHandOverTheirUses) {
  Attention a;
  Node* made = Builder(*a.graph, a.node).insert(Symbol::of("test::attention"), {a.find("x"), a.find("b")}, 2);
  Diagnostics diagnostics;
  EXPECT_TRUE(a.records.replaceOutputsUsesWith(*a.record, made->outputs(), diagnostics).ok());
  a.node->destroy();
  EXPECT_EQ(graphText(*a.graph),
            "graph(%x : Tensor,\n"
            "      %b : Tensor):\n"
            "  %heads : int = prim::Constant[value=8]()\n"
            "  %qkv : Tensor = aten::relu(%x)\n"
            "  %out : Float(2, 3), %past : Tensor = test::attention(%x, %b)\n"
            "  %next : Tensor = aten::exp(%out)\n"
            "  return (%next, %out, %past)\n");
  EXPECT_FALSE(a.record->isAlive());
  EXPECT_EQ(a.records.find(a.node), nullptr);
  EXPECT_EQ(a.records.size(), 0u);
  // And back.
  a.log.moveTo(0);
  EXPECT_EQ(graphText(*a.graph), kText);
}

TEST(CallRecords, OutputsThatDoNotFitAreRefused) {
  Attention a;
  Value* one = a.insert("aten::abs", a.find("x"), a.node);
  Diagnostics diagnostics;
  EXPECT_FALSE(a.records.replaceOutputsUsesWith(*a.record, std::vector<Value*>{one}, diagnostics).ok());
  EXPECT_EQ(diagnostics.list().back().message, "1 value for 2 outputs of 'gpt_attention'");
  one->setName("one");
  EXPECT_FALSE(
      a.records.replaceOutputsUsesWith(*a.record, std::vector<Value*>{one, a.find("heads")}, diagnostics).ok());
  EXPECT_EQ(diagnostics.list().back().message, "%heads is int, but output 1 of 'gpt_attention' is Tensor");
  EXPECT_EQ(a.find("out")->useCount(), 2u);
  EXPECT_EQ(a.record->outputs()[0], a.find("out"));
}

TEST(CallRecords, GoWithTheLastOfTheirNodes) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  CallRecords records(log);
  Node *relu = graph->find("qkv")->node(), *exp = graph->find("next")->node();
  CallRecord* r = records.add("both", {{"x", graph->find("x")}}, {graph->find("next")}, {relu, exp});
  size_t before = log.position();
  exp->output()->replaceAllUsesWith(graph->find("x"));
  exp->destroy();
  EXPECT_TRUE(r->isAlive());
  EXPECT_EQ(records.find(exp), nullptr);
  EXPECT_EQ(records.find(relu), r);
  EXPECT_EQ(r->nodes(), std::vector<Node*>{relu});
  relu->output()->replaceAllUsesWith(graph->find("x"));
  relu->destroy();
  EXPECT_FALSE(r->isAlive());
  EXPECT_TRUE(records.ofKind("both").empty());
  log.moveTo(before);
  EXPECT_TRUE(r->isAlive());
  EXPECT_EQ(records.find(exp), r);
  EXPECT_EQ(r->nodes().size(), 2u);
}

TEST(CallRecords, NestInsideEachOther) {
  auto graph = parsed(kText);
  EditLog log(*graph);
  CallRecords records(log);
  Node *call = graph->find("qkv")->node(), *exp = graph->find("next")->node();
  CallRecord* outer = records.add("outer", {}, {graph->find("next")}, {call, exp});
  Value* made = Builder(*graph, call).insert(Symbol::of("aten::tanh"), {graph->find("x")})->output();
  call->output()->replaceAllUsesWith(made);
  size_t before = log.position();
  CallRecord* inner = records.add("inner", {{"x", graph->find("x")}}, {made}, {made->node()}, call);
  call->destroy();
  EXPECT_EQ(records.find(made->node()), inner);
  EXPECT_EQ(records.findAll(made->node()), (std::vector<CallRecord*>{inner, outer}));
  EXPECT_EQ(outer->nodes(), (std::vector<Node*>{exp, made->node()}));
  EXPECT_EQ(records.size(), 2u);
  log.moveTo(before);
  EXPECT_EQ(records.findAll(call), std::vector<CallRecord*>{outer});
  EXPECT_EQ(records.find(made->node()), nullptr);
  EXPECT_EQ(outer->nodes(), (std::vector<Node*>{call, exp}));
  EXPECT_EQ(records.size(), 1u);
}

TEST(CallRecords, TakeBackWhatTheLogTakesBack) {
  Attention a;
  size_t start = a.log.position();
  Value* tanh = a.insert("aten::tanh", a.find("x"), a.node);
  a.find("qkv")->replaceAllUsesWith(tanh);
  a.records.replaceInputWith(*a.record, a.find("b"), tanh);
  size_t middle = a.log.position();
  a.find("past")->replaceAllUsesWith(tanh);
  a.log.moveTo(middle);
  EXPECT_EQ(a.record->outputs()[1], a.find("past"));
  EXPECT_EQ(a.record->input("qkv"), tanh);
  EXPECT_EQ(a.nested(0), tanh);
  a.log.moveTo(start);
  EXPECT_EQ(a.record->input("qkv"), a.find("qkv"));
  EXPECT_EQ(a.nested(0), a.find("b"));
  EXPECT_EQ(a.records.find(a.node), a.record);
  // Made again, replacements are followed again.
  a.log.moveTo(a.log.size());
  EXPECT_EQ(a.record->input("qkv"), tanh);
  a.log.moveTo(0);
  EXPECT_EQ(a.records.size(), 0u);
  EXPECT_EQ(a.records.find(a.node), nullptr);
}

TEST(CallRecords, ForgottenNodesAndValuesAreNotMetAgain) {
  Attention a;
  a.find("next")->replaceAllUsesWith(a.find("x"));
  a.find("next")->node()->destroy();
  Value* tanh = a.insert("aten::tanh", a.find("x"), a.node);
  a.node->replaceInput(0, a.find("x"));
  a.node->output(0)->replaceAllUsesWith(tanh);
  a.node->output(1)->replaceAllUsesWith(tanh);
  a.node->destroy();
  Node* gone = a.node;
  a.log.clear();
  // New nodes take the memory of those that are gone.
  for (int i = 0; i < 50; ++i)
    EXPECT_EQ(a.records.find(a.insert("aten::sin", a.find("x"), a.graph->returnNode())->node()), nullptr);
  EXPECT_FALSE(a.record->isAlive());
  EXPECT_EQ(a.records.find(gone), nullptr);
}

}  // namespace tscompile::test
