// The bias of the linear layers in front of tensorrt_llm::GPTAttention becomes its input qkv_bias:
//   GPTAttention(linear(x, w, b)) -> GPTAttention(linear(x, w), qkv_bias=b)
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>

namespace tscompile {
namespace {

// The layer with a constant bias that makes these rows for nobody else.
Node* layerBehind(const Value* rows, RewriteContext& c) {
  Node* n = rows ? rows->node() : nullptr;
  if (!n || n->kind() != aten::linear || n->inputCount() != 3 || rows->useCount() != 1) return nullptr;
  if (!GraphFacts::constant(n->input(2)) || GraphFacts::isNone(n->input(2))) return nullptr;
  // What attention does to its rows is its own affair.
  bool written =
      std::any_of(n->inputs().begin(), n->inputs().end(), [&](const Use& u) { return c.facts.isWritten(u.value); });
  return c.facts.isPure(n) && !written ? n : nullptr;
}

Replacement fuse(Node* n, RewriteContext& c) {
  AttentionNode attention(n);
  if (!attention.isWellFormed() || attention.input("qkv_bias")) return {};
  std::vector<std::string_view> names{"qkv"};
  if (attention.integer("unfuse_qkv_gemm", 0)) names = {"qkv", "k", "v"};
  std::vector<Node*> layers;
  for (std::string_view name : names) {
    layers.push_back(layerBehind(attention.input(name), c));
    if (!layers.back()) return {};
  }
  Formula f(n, c);
  std::vector<Value*> biases;
  for (Node* layer : layers) biases.push_back(layer->input(2));
  Value* bias = biases[0];
  if (biases.size() > 1) bias = f.op(aten::cat, {f.builder().list(biases, types().tensor), f.integer(0)});
  for (size_t i = 0; i < layers.size(); ++i)
    attention.setInput(names[i], f.op(aten::linear, {layers[i]->input(0), layers[i]->input(1), f.none()}));
  attention.setInput("qkv_bias", bias);
  attention.set("qkv_bias_enabled", int64_t{1});
  return Replacement::done();
}

}  // namespace

NodeRewrite fuseQkvBias() { return {"fuse_qkv_bias", {sym::GptAttention}, fuse}; }

}  // namespace tscompile
