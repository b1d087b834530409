// softmax(q @ k.t * scale, causal) @ v, and scaled_dot_product_attention, become tensorrt_llm::GPTAttention of the rows
// that q, k and v are views of: of one matrix where they lie in it side by side.
#include "passes/edits.h"
#include "passes/formula.h"
#include "passes/rewrite/call_records.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

bool liesInOne(const AttentionMatch& m) {
  auto at = [&](const HeadSource& s, int64_t heads) {
    return s.form == HeadSource::Form::Rows && s.value == m.q.value && s.first == heads * m.q.size &&
           s.columns == (m.q.heads + 2 * m.k.heads) * m.q.size;
  };
  return at(m.q, 0) && at(m.k, m.q.heads) && at(m.v, m.q.heads + m.k.heads);
}

// [batch, tokens, heads * size]
Value* rowsOf(const HeadSource& s, Formula& f) {
  int64_t columns = s.heads * s.size;
  switch (s.form) {
    case HeadSource::Form::Rows:
      if (s.columns == columns) return s.value;
      return f.op("aten::slice",
                  {s.value, f.integer(2), f.integer(s.first), f.integer(s.first + columns), f.integer(1)});
    case HeadSource::Form::HeadsInside:
      return f.op("aten::flatten", {s.value, f.integer(2), f.integer(3)});
    case HeadSource::Form::HeadsOutside:
      return f.op("aten::flatten",
                  {f.op("aten::transpose", {s.value, f.integer(1), f.integer(2)}), f.integer(2), f.integer(3)});
  }
  return nullptr;
}

// Back to [batch, heads, tokens, size].
Value* headsOf(Value* rows, const HeadSource& q, Formula& f) {
  Value* batch = f.op("aten::size", {rows, f.integer(0)});
  Value* tokens = f.op("aten::size", {rows, f.integer(1)});
  Value* split = f.op("aten::reshape", {rows, f.listOf({batch, tokens, f.integer(q.heads), f.integer(q.size)})});
  return f.op("aten::transpose", {split, f.integer(1), f.integer(2)});
}

void setFields(AttentionNode& node, const AttentionMatch& m, int64_t layer) {
  node.set("layer_idx", layer);
  node.set("num_heads", m.q.heads);
  node.set("num_kv_heads", m.k.heads);
  node.set("head_size", m.q.size);
  double scaling = 1 / (m.scale * std::sqrt(static_cast<double>(m.q.size)));
  // Models round the square root in one way or another.
  node.set("q_scaling", std::abs(scaling - 1) < 1e-6 ? 1.0 : scaling);
  if (m.softcap != 0) node.set("attn_logit_softcapping_scale", m.softcap);
  node.set("position_embedding_type", "learned_absolute");
  node.set("mask_type", "causal");
}

bool isUnused(const Node* n) {
  return std::none_of(n->outputs().begin(), n->outputs().end(), [](const Value* v) { return v->hasUses(); });
}

void replace(const AttentionMatch& m, Value* resultInRows, int64_t layer, RewriteContext& c) {
  Node* old = m.result->node();
  Formula f(old, c);
  std::vector<std::pair<std::string, Value*>> inputs;
  bool fused = liesInOne(m);
  if (fused)
    inputs = {{"qkv", m.q.value}};
  else
    inputs = {{"qkv", rowsOf(m.q, f)}, {"k", rowsOf(m.k, f)}, {"v", rowsOf(m.v, f)}};
  AttentionNode made = AttentionNode::make(f.builder());
  setFields(made, m, layer);
  if (!fused) made.set("unfuse_qkv_gemm", int64_t{1});
  for (const auto& [name, value] : inputs) made.setInput(name, value);
  Value* context = made.node()->output();
  if (c.records && c.records->requestFor(sym::GptAttention.text())) {
    CallArguments arguments;
    for (auto& [name, value] : inputs) arguments.emplace_back(name, value);
    c.records->add(std::string(sym::GptAttention.text()), std::move(arguments), {context}, {made.node()}, old);
  }
  if (resultInRows) replaceValue(resultInRows, context);
  if (!resultInRows || m.result->useCount() > 1) replaceValue(m.result, headsOf(context, m.q, f));
  // An operator that may drop out does not go by itself.
  for (Node *n = (resultInRows ? resultInRows : m.result)->node(), *next = nullptr; n && isUnused(n); n = next) {
    next = n == old ? nullptr : n->input(0)->node();
    n->destroy();
  }
}

}  // namespace

bool makeAttention(Graph& graph, RewriteContext& context, std::vector<AttentionMatcher::Miss>* misses) {
  AttentionMatcher matcher(context);
  if (!matcher.works()) return false;
  std::vector<std::pair<AttentionMatch, Value*>> found;
  for (Node* n : graph.block()->nodes())
    if (std::optional<AttentionMatch> m = matcher.match(n)) found.emplace_back(*m, matcher.resultInRows(*m));
  if (misses) *misses = matcher.misses();
  int64_t layer = static_cast<int64_t>(AttentionNode::all(graph).size());
  for (const auto& [match, rows] : found) replace(match, rows, layer++, context);
  return !found.empty();
}

bool makeAttention(Graph& graph, RewriteContext& context) { return makeAttention(graph, context, nullptr); }

}  // namespace tscompile
