// Rewrites of whole functions through their call records, as TensorRT-LLM's: a bias goes into the attention, padding is
// removed with arguments that are handed over.
#include "ir/support/diagnostic_printer.h"
#include "passes/rewrite/call_records.h"
#include "passes/rewrite/managers.h"
#include "runtime/registry.h"
#include "tests/support/rewriting.h"

#include <gtest/gtest.h>

namespace tscompile::test {
namespace {

const Symbol kAttention = Symbol::of("test::GPTAttention");

// The signature that matters here; the plugin has many more inputs.
const OpRegistry& attentionOps() {
  static const OpRegistry* kOps = [] {
    auto* ops = new OpRegistry(&testOps());
    ops->add({.schema = "test::GPTAttention(Tensor qkv, Tensor? qkv_bias, Tensor past) -> (Tensor, Tensor)"});
    return ops;
  }();
  return *kOps;
}

// Whether a value depends on constants alone, looked at to a depth.
bool isFoldable(const Value* v, int depth = 10) {
  const Node* n = v->node();
  if (!n || depth == 0) return false;
  if (n->kind() == sym::Constant) return true;
  return n->inputCount() && std::all_of(n->inputs().begin(), n->inputs().end(),
                                        [&](const Use& u) { return isFoldable(u.value, depth - 1); });
}

Replacement fuseBias(Node* n, RewriteContext& c) {
  CallRecord* record = c.records ? c.records->find(n) : nullptr;
  if (!record || record->kind() != "gpt_attention") return {};
  const CallArgument* bias = record->argument("qkv_bias");
  Value* qkv = record->input("qkv");
  if (!bias || (bias->value() && !GraphFacts::isNone(bias->value())) || !qkv || !qkv->node()) return {};
  Node* sum = qkv->node();
  if (sum->kind() != Symbol::of("aten::add") || qkv->useCount() != 1 || c.facts.number(sum->input(2)) != 1.0) return {};
  bool left = isFoldable(sum->input(0)), right = isFoldable(sum->input(1));
  if (left == right) return {};
  Value *constant = sum->input(left ? 0 : 1), *rest = sum->input(left ? 1 : 0);
  Node* made = c.before(n).insert(kAttention, {rest, constant, n->input(2)}, 2);
  return std::vector<Value*>(made->outputs().begin(), made->outputs().end());
}

class Attention : public testing::Test {
 protected:
  std::unique_ptr<Graph> read(std::string_view text) {
    std::unique_ptr<Graph> g = graphOf(text);
    return g;
  }
  // Every attention of the graph gets a record with its inputs by name.
  void record(Graph& g, CallRecords& records) {
    forEachNode(g, [&](Node* n) {
      if (n->kind() != kAttention) return;
      records.add("gpt_attention", {{"qkv", n->input(0)}, {"qkv_bias", n->input(1)}, {"past", n->input(2)}},
                  {n->output(0), n->output(1)}, {n});
    });
  }
  size_t fuse(Graph& g) {
    EditLog log(g);
    CallRecords records(log);
    record(g, records);
    RewriteContext context(g, attentionOps(), diagnostics);
    context.records = &records;
    RewritePatternManager manager;
    EXPECT_TRUE(
        manager.add("fuse_attention_with_bias", {.kinds = {kAttention}, .matchAndRewrite = fuseBias}, 0, diagnostics));
    return manager.rewrite(context).applied;
  }
  Diagnostics diagnostics;
};

constexpr const char* kGraph = R"(graph(%x : Tensor, %w : Tensor, %past : Tensor):
  %1 : int = prim::Constant[value=1]()
  %none : NoneType = prim::Constant()
  %bias : Float(2) = prim::Constant[value= 1  2 [ CPUFloatType{2} ]]()
  %qkv : Tensor = aten::matmul(%x, %w)
  %sum : Tensor = aten::add(%qkv, %bias, %1)
  %o : Tensor, %kv : Tensor = test::GPTAttention(%sum, %none, %past)
  %r : Tensor = aten::relu(%o)
  return (%r, %kv)
)";

std::string replaced(std::string text, std::string_view from, std::string_view to) {
  text.replace(text.find(from), from.size(), to);
  return text;
}

TEST_F(Attention, TakesItsBias) {
  std::unique_ptr<Graph> g = read(kGraph);
  EXPECT_EQ(fuse(*g), 1u) << renderDiagnostics(diagnostics, "t");
  EXPECT_EQ(shortText(*g), "relu(GPTAttention(matmul(x, w), None, past).0), GPTAttention(matmul(x, w), None, past).1");
  Node* attention = g->output(1)->node();
  EXPECT_EQ(attention->input(1)->name(), "bias");
  EXPECT_EQ(g->output(1)->name(), "kv");
  EXPECT_EQ(fuse(*g), 0u);
}

TEST_F(Attention, KeepsASumThatIsNoBias) {
  // Used elsewhere; of two computed values; of two constants; a bias that is there already.
  for (const std::string& text :
       {replaced(kGraph, "return (%r, %kv)", "return (%r, %kv, %sum)"),
        replaced(kGraph, "%qkv, %bias, %1", "%qkv, %x, %1"), replaced(kGraph, "%qkv, %bias, %1", "%bias, %bias, %1"),
        replaced(kGraph, "%sum, %none", "%sum, %bias")}) {
    std::unique_ptr<Graph> g = read(text);
    EXPECT_EQ(fuse(*g), 0u) << text;
  }
}

TEST_F(Attention, RecordsFollowTheirInputs) {
  std::unique_ptr<Graph> g = read(kGraph);
  EditLog log(*g);
  CallRecords records(log);
  record(*g, records);
  Node* attention = g->output(1)->node();
  CallRecord* r = records.find(attention);
  ASSERT_NE(r, nullptr);
  g->find("sum")->replaceAllUsesWith(g->find("qkv"));
  EXPECT_EQ(r->input("qkv"), g->find("qkv"));
}

TEST_F(Attention, RemovesPaddingWithArguments) {
  std::unique_ptr<Graph> g = read(
      "graph(%qkv : Float(4, 7, 16), %past : Tensor):\n  %none : NoneType = prim::Constant()\n"
      "  %o : Tensor, %kv : Tensor = test::GPTAttention(%qkv, %none, %past)\n  return (%o, %kv)\n");
  EditLog log(*g);
  CallRecords records(log);
  record(*g, records);
  RewriteContext context(*g, attentionOps(), diagnostics);
  context.records = &records;
  RewritePatternManager manager;
  auto removePadding = [](Node* n, RewriteContext& c) -> Replacement {
    CallRecord* record = c.records->find(n);
    if (!record) return {};
    Value* qkv = record->input("qkv");
    std::optional<Dims> sizes = c.facts.sizes(qkv);
    if (!sizes || (*sizes)[0] == 1) return {};
    auto given = [&](const char* name) { return c.arguments.at(name).toInt(); };
    Builder b = c.before(n);
    Value* shape = b.constant(intList(Dims{1, given("batch_size") * given("in_len"), given("hidden_size")}));
    Value* packed = b.call(Symbol::of("aten::reshape"), {qkv, shape}, types().tensor);
    Node* made = b.insert(kAttention, {packed, n->input(1), n->input(2)}, 2);
    return std::vector<Value*>(made->outputs().begin(), made->outputs().end());
  };
  ASSERT_TRUE(manager.add("remove_padding", {.kinds = {kAttention}, .matchAndRewrite = removePadding}, 0, diagnostics));
  RewriteArguments arguments{{"batch_size", IValue(4)}, {"in_len", IValue(7)}, {"hidden_size", IValue(16)}};
  EXPECT_EQ(manager.rewrite(context, arguments).applied, 1u);
  Node* attention = g->output(0)->node();
  EXPECT_EQ(context.facts.sizes(attention->input(0)), (Dims{1, 28, 16}));
  EXPECT_EQ(manager.rewrite(context, arguments).applied, 0u);
}

}  // namespace
}  // namespace tscompile::test
