// Attention of a batch of `batch_size` rows of `in_len` tokens each, both arguments, sees one row with all tokens, and
// the lengths beside it:
//   GPTAttention(qkv) -> reshape(GPTAttention[remove_input_padding=1](reshape(qkv, [1, -1, columns]), context_lengths))
#include "ir/values/aten.h"
#include "passes/rewrite/call_records.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/serving_passes.h"

namespace tscompile {
namespace {

std::optional<int64_t> given(const char* name, RewriteContext& c) {
  auto at = c.arguments.find(name);
  if (at == c.arguments.end() || !at->second.isInt() || at->second.toInt() <= 0) return std::nullopt;
  return at->second.toInt();
}

// As the call had it, where calls are recorded; what the node itself reads otherwise.
Value* inputOf(const AttentionNode& a, std::string_view name, RewriteContext& c) {
  CallRecord* record = c.records ? c.records->find(a.node()) : nullptr;
  bool isOurs = record && record->kind() == sym::GptAttention.text();
  Value* recorded = isOurs ? record->input(name) : nullptr;
  return recorded ? recorded : a.input(name);
}

Replacement remove(Node* n, RewriteContext& c) {
  AttentionNode a(n);
  std::optional<int64_t> batch = given("batch_size", c), tokens = given("in_len", c);
  if (!batch || !tokens || !a.isWellFormed() || n->outputCount() != 1 || a.integer("remove_input_padding", 0))
    return {};
  if (a.input("context_lengths") || *batch > INT32_MAX / *tokens) return {};
  Formula f(n, c);
  std::vector<std::pair<std::string, Value*>> inputs;
  for (const std::string& name : a.inputNames()) {
    Value* v = inputOf(a, name, c);
    if (name == "qkv" || name == "k" || name == "v") {
      int64_t heads = name != "qkv"                          ? a.kvHeads()
                      : a.integer("unfuse_qkv_gemm", 0) != 0 ? a.heads()
                                                             : a.heads() + 2 * a.kvHeads();
      v = f.op(aten::reshape, {v, f.integers(Dims{1, *batch * *tokens, heads * a.headSize()})});
    }
    inputs.emplace_back(name, v);
  }
  Value* lengths = f.op(
      aten::full, {f.integers(Dims{*batch}), f.integer(*tokens), f.dtype(DType::Int32), f.none(), f.none(), f.none()});
  inputs.emplace_back("context_lengths", lengths);
  AttentionNode made = AttentionNode::make(f.builder());
  for (const Attribute& field : n->attributes())
    if (field.value() && field.name.text() != "inputs") made.set(field.name.text(), *field.value());
  made.set("remove_input_padding", int64_t{1});
  for (const auto& [name, value] : inputs) made.setInput(name, value);
  recordAttention(made, nullptr, c);  // the old one goes with its node
  Value* context = made.node()->output();
  Value* rows = f.op(aten::reshape, {context, f.integers(Dims{*batch, *tokens, a.heads() * a.headSize()})});
  return Replacement::of({{n->output(), rows}}, {n});
}

}  // namespace

NodeRewrite removePadding() { return {"remove_padding", {sym::GptAttention}, remove}; }

}  // namespace tscompile
