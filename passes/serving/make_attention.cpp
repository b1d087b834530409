// softmax(q @ k.t * scale, causal) @ v, and scaled_dot_product_attention, become tensorrt_llm::GPTAttention of the rows
// that q, k and v are views of: of one matrix where they lie in it side by side.
#include "ir/values/aten.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/call_records.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/attention_node.h"
#include "passes/serving/rotary.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <cmath>

namespace tscompile {
namespace {

// Of the heads of the plugin, where queries and values may differ: smaller ones get zeros.
int64_t headSizeOf(const AttentionMatch& m) { return std::max(m.q.size, m.v.size); }

bool liesInOne(const AttentionMatch& m) {
  if (m.q.size != m.v.size) return false;
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
      return f.op(aten::slice, {s.value, f.integer(2), f.integer(s.first), f.integer(s.first + columns), f.integer(1)});
    case HeadSource::Form::HeadsInside:
      return f.op(aten::flatten, {s.value, f.integer(2), f.integer(s.isGrouped ? 4 : 3)});
    case HeadSource::Form::HeadsOutside: {
      Value* heads = s.isGrouped ? f.op(aten::flatten, {s.value, f.integer(1), f.integer(2)}) : s.value;
      return f.op(aten::flatten,
                  {f.op(aten::transpose, {heads, f.integer(1), f.integer(2)}), f.integer(2), f.integer(3)});
    }
  }
  return nullptr;
}

// The same with zeros after each head up to `size`.
Value* widerRows(const HeadSource& s, int64_t size, Formula& f) {
  Value* rows = rowsOf(s, f);
  if (s.size == size) return rows;
  Value *batch = f.op(aten::size, {rows, f.integer(0)}), *tokens = f.op(aten::size, {rows, f.integer(1)});
  Value* heads = f.op(aten::reshape, {rows, f.listOf({batch, tokens, f.integer(s.heads), f.integer(s.size)})});
  Value* wide = f.op(aten::constant_pad_nd, {heads, f.integers(Dims{0, size - s.size}), f.number(0)});
  return f.op(aten::flatten, {wide, f.integer(2), f.integer(3)});
}

// Rows of heads that have `size` numbers, of which the first ones of each are wanted.
Value* narrowerRows(Value* rows, const AttentionMatch& m, int64_t size, Formula& f) {
  if (m.v.size == size) return rows;
  Value *batch = f.op(aten::size, {rows, f.integer(0)}), *tokens = f.op(aten::size, {rows, f.integer(1)});
  Value* heads = f.op(aten::reshape, {rows, f.listOf({batch, tokens, f.integer(m.q.heads), f.integer(size)})});
  Value* narrow = f.op(aten::slice, {heads, f.integer(3), f.integer(0), f.integer(m.v.size), f.integer(1)});
  return f.op(aten::flatten, {narrow, f.integer(2), f.integer(3)});
}

// Back to the form of the match's result.
Value* headsOf(Value* rows, const AttentionMatch& m, Formula& f) {
  Value* batch = f.op(aten::size, {rows, f.integer(0)});
  Value* tokens = f.op(aten::size, {rows, f.integer(1)});
  Value* split = f.op(aten::reshape, {rows, f.listOf({batch, tokens, f.integer(m.q.heads), f.integer(m.v.size)})});
  Value* heads = f.op(aten::transpose, {split, f.integer(1), f.integer(2)});
  if (m.sizes.size() == 4 && m.sizes[1].factor == m.q.heads && !m.sizes[1].ofTokens) return heads;
  if (m.sizes.size() == 3 && m.sizes[1].factor == 1) return f.op(aten::flatten, {heads, f.integer(0), f.integer(1)});
  std::vector<Value*> sizes;
  for (const NamedSize& s : m.sizes) {
    Value* size = s.ofBatch ? batch : s.ofTokens ? tokens : f.integer(s.factor);
    if (s.ofBatch && s.ofTokens) size = f.op(aten::mul, {size, tokens});
    if ((s.ofBatch || s.ofTokens) && s.factor != 1) size = f.op(aten::mul, {size, f.integer(s.factor)});
    sizes.push_back(size);
  }
  return f.op(aten::reshape, {heads, f.builder().list(sizes, types().integer)});
}

void setFields(AttentionNode& node, const AttentionMatch& m, int64_t layer) {
  node.set("layer_idx", layer);
  node.set("num_heads", m.q.heads);
  node.set("num_kv_heads", m.k.heads);
  node.set("head_size", headSizeOf(m));
  double scaling = 1 / (m.scale * std::sqrt(static_cast<double>(headSizeOf(m))));
  // Models round the square root in one way or another.
  node.set("q_scaling", std::abs(scaling - 1) < 1e-6 ? 1.0 : scaling);
  if (m.softcap != 0) node.set("attn_logit_softcapping_scale", m.softcap);
  if (m.rule.window != 0) node.set("attention_window", m.rule.window);
  node.set("position_embedding_type", m.rule.slopes.empty() ? "learned_absolute" : "alibi");
  node.set("mask_type", "causal");
}

bool isUnused(const Node* n) {
  return std::none_of(n->outputs().begin(), n->outputs().end(), [](const Value* v) { return v->hasUses(); });
}

void setRotary(AttentionNode& node, const Rotary& r) {
  node.set("position_embedding_type", r.interleaved ? "rope_gptj" : "rope_gpt_neox");
  node.set("rotary_embedding_dim", r.dim);
  node.set("rotary_embedding_base", r.base);
  if (r.scale == 1) return;
  node.set("rotary_embedding_scale_type", "linear");
  node.set("rotary_embedding_scale", r.scale);
}

struct Found {
  AttentionMatch match;
  Value* resultInRows;  // or null
  std::optional<Rotary> rotary;
  std::optional<DType> half;  // of its result, where attention is to be in float32
};

// Queries and keys before they were turned, if both are in the same way.
std::optional<Rotary> takeRotary(AttentionMatch& m, const AttentionChoices& choices, RewriteContext& c,
                                 const AttentionMatcher& matcher) {
  std::array<const SmallInstance*, 2> instances = matcher.instances();
  std::optional<Rotary> q = findRotary(m.q, choices, c, instances);
  std::optional<Rotary> k = q ? findRotary(m.k, choices, c, instances) : std::nullopt;
  if (!k || !q->sameTurn(*k)) return std::nullopt;
  m.q = q->source;
  m.k = k->source;
  return q;
}

Value* inDtype(Value* v, DType dtype, Formula& f) {
  return f.op(aten::to, {v, f.dtype(dtype), f.flag(false), f.flag(false), f.none()});
}

void replace(const Found& found, int64_t layer, RewriteContext& c) {
  const AttentionMatch& m = found.match;
  Value* resultInRows = found.resultInRows;
  Node* old = m.result->node();
  Formula f(old, c);
  std::vector<std::pair<std::string, Value*>> inputs;
  bool fused = liesInOne(m);
  int64_t size = headSizeOf(m);
  if (fused)
    inputs = {{"qkv", m.q.value}};
  else
    inputs = {{"qkv", widerRows(m.q, size, f)}, {"k", widerRows(m.k, size, f)}, {"v", widerRows(m.v, size, f)}};
  if (found.half)
    for (auto& [name, value] : inputs) value = inDtype(value, DType::Float32, f);
  AttentionNode made = AttentionNode::make(f.builder());
  setFields(made, m, layer);
  if (found.rotary) setRotary(made, *found.rotary);
  if (!fused) made.set("unfuse_qkv_gemm", int64_t{1});
  for (const auto& [name, value] : inputs) made.setInput(name, value);
  if (!m.rule.slopes.empty()) {
    std::vector<float> slopes(m.rule.slopes.begin(), m.rule.slopes.end());
    Dims sizes{static_cast<int64_t>(slopes.size())};
    made.setInput("alibi_slopes", f.builder().constant(IValue(Tensor::of<float>(sizes, slopes))));
  }
  if (!m.sinks.empty()) {
    std::vector<float> sinks(m.sinks.begin(), m.sinks.end());
    Dims sizes{static_cast<int64_t>(sinks.size())};
    made.setInput("attention_sinks", f.builder().constant(IValue(Tensor::of<float>(sizes, sinks))));
  }
  recordAttention(made, old, c);
  Value* made32 = made.node()->output();
  Value* context = narrowerRows(found.half ? inDtype(made32, *found.half, f) : made32, m, size, f);
  if (resultInRows) replaceValue(resultInRows, context);
  if (!resultInRows || m.result->useCount() > 1) replaceValue(m.result, headsOf(context, m, f));
  // An operator that may drop out does not go by itself.
  for (Node *n = (resultInRows ? resultInRows : m.result)->node(), *next = nullptr; n && isUnused(n); n = next) {
    next = n == old ? nullptr : n->input(0)->node();
    n->destroy();
  }
}

}  // namespace

void recordAttention(const AttentionNode& made, const Node* instead, RewriteContext& c) {
  const std::string kind(sym::GptAttention.text());
  if (!c.records || !c.records->requestFor(kind)) return;
  CallArguments arguments;
  std::vector<std::string> names = made.inputNames();
  for (size_t i = 0; i < names.size(); ++i) arguments.emplace_back(names[i], made.node()->input(i));
  std::vector<Value*> outputs(made.node()->outputs().begin(), made.node()->outputs().end());
  c.records->add(kind, std::move(arguments), std::move(outputs), {made.node()}, instead);
}

AttentionFindings makeAttention(RewriteContext& context, const AttentionChoices& choices) {
  AttentionFindings out;
  AttentionMatcher matcher(context, choices.positions, choices.longest);
  out.conflict = matcher.conflict();
  if (!matcher.works()) return out;
  std::vector<Found> all;
  for (Node* n : context.graph.block()->nodes())
    if (std::optional<AttentionMatch> m = matcher.match(n)) {
      Value* rows = matcher.resultInRows(*m);
      std::optional<Rotary> rotary;
      if (choices.positions && choices.fuseRotary && m->rule.slopes.empty())
        rotary = takeRotary(*m, choices, context, matcher);
      const DType dtype = matcher.instances()[0]->dtype(m->result);
      const bool isHalf = dtype == DType::Float16 || dtype == DType::BFloat16;
      all.push_back({*m, rows, rotary, choices.inFloat && isHalf ? std::optional(dtype) : std::nullopt});
    }
  int64_t layer = static_cast<int64_t>(AttentionNode::all(context.graph).size());
  for (const Found& found : all) replace(found, layer++, context);
  out.made = all.size();
  // What the plugin computes now holds on to rows that it should have for itself.
  context.facts.refresh();
  if (out.made) removeDeadCode(context.graph, context);
  out.misses = matcher.misses();
  return out;
}

bool makeAttention(Graph&, RewriteContext& context) { return makeAttention(context, {}).made != 0; }

bool makeRotaryAttention(Graph& graph, RewriteContext& context) {
  return makeAttention(context, {graph.find("position_ids")}).made != 0;
}

}  // namespace tscompile
