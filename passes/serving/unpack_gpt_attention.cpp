// tensorrt_llm::GPTAttention without a cache, causal, with positions of its model or rotary ones, in operators of ATen:
//   softmax(q @ k.t * scale, masked) @ v
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/attention_node.h"

#include <cmath>
#include <limits>
#include <set>

namespace tscompile {
namespace {

bool hasKnownPositions(const AttentionNode& a) {
  std::string type = a.text("position_embedding_type", "");
  if (type == "learned_absolute") return true;
  std::string scaling = a.text("rotary_embedding_scale_type", "none");
  int64_t dim = a.integer("rotary_embedding_dim", 0);
  return (type == "rope_gptj" || type == "rope_gpt_neox") && (scaling == "none" || scaling == "linear") && dim >= 2 &&
         dim % 2 == 0 && dim <= a.headSize() && a.number("rotary_embedding_base", 10000) > 0 &&
         a.number("rotary_embedding_scale", 1) > 0;
}

// Whether the node has only what is computed here.
bool isPlain(const AttentionNode& a) {
  static const std::set<std::string, std::less<>> kInputs{"qkv", "k", "v", "qkv_bias"};
  static const std::set<std::string, std::less<>> kFields{"layer_idx",
                                                          "num_heads",
                                                          "num_kv_heads",
                                                          "head_size",
                                                          "q_scaling",
                                                          "attn_logit_softcapping_scale",
                                                          "attention_window",
                                                          "mask_type",
                                                          "position_embedding_type",
                                                          "rotary_embedding_dim",
                                                          "rotary_embedding_base",
                                                          "rotary_embedding_scale_type",
                                                          "rotary_embedding_scale",
                                                          "unfuse_qkv_gemm",
                                                          "qkv_bias_enabled",
                                                          "inputs"};
  if (!a.isWellFormed() || !a.input("qkv") || a.node()->outputCount() != 1) return false;
  for (const std::string& name : a.inputNames())
    if (!kInputs.count(name)) return false;
  for (const Attribute& field : a.node()->attributes())
    if (!kFields.count(field.name.text())) return false;
  if (a.text("mask_type", "") != "causal" || !hasKnownPositions(a)) return false;
  if (bool(a.integer("unfuse_qkv_gemm", 0)) != bool(a.input("k")) || !a.input("k") != !a.input("v")) return false;
  if (bool(a.integer("qkv_bias_enabled", 0)) != bool(a.input("qkv_bias"))) return false;
  return a.heads() > 0 && a.kvHeads() > 0 && a.heads() % a.kvHeads() == 0 && a.headSize() > 0 &&
         a.number("q_scaling", 1) > 0;
}

class Unpacking {
 public:
  Unpacking(const AttentionNode& a, RewriteContext& c)
      : a_(a), f_(a.node(), c), h_(a.heads()), kv_(a.kvHeads()), d_(a.headSize()) {
    batch_ = f_.op(aten::size, {a.input("qkv"), f_.integer(0)});
    tokens_ = f_.op(aten::size, {a.input("qkv"), f_.integer(1)});
  }

  Value* result() {
    if (a_.text("position_embedding_type", "") != "learned_absolute") prepareTurn();
    Value* q = turned(part("qkv", 0, h_));
    Value* k = repeated(turned(part("k", h_, kv_)));
    Value* v = repeated(part("v", h_ + kv_, kv_));
    double scale = 1 / (a_.number("q_scaling", 1) * std::sqrt(static_cast<double>(d_)));
    Value* scores = f_.op(aten::matmul, {q, f_.op(aten::transpose, {k, f_.integer(2), f_.integer(3)})});
    scores = f_.mul(scores, f_.number(scale));
    if (double cap = a_.number("attn_logit_softcapping_scale", 0); cap > 0)
      scores = f_.mul(f_.op(aten::tanh, {f_.div(scores, f_.number(cap))}), f_.number(cap));
    constexpr double kNever = -std::numeric_limits<double>::infinity();
    scores = f_.op(aten::masked_fill, {scores, later(), f_.number(kNever)});
    Value* weights = f_.op(aten::softmax, {scores, f_.integer(-1), f_.none()});
    Value* heads = f_.op(aten::transpose, {f_.op(aten::matmul, {weights, v}), f_.integer(1), f_.integer(2)});
    return f_.op(aten::flatten, {heads, f_.integer(2), f_.integer(3)});
  }

 private:
  // Cosine and sine [tokens, dim / 2] of the angles of tokens that are counted from 0.
  void prepareTurn() {
    dim_ = a_.integer("rotary_embedding_dim", 0);
    std::vector<float> frequencies;
    double scale =
        a_.text("rotary_embedding_scale_type", "none") == "linear" ? a_.number("rotary_embedding_scale", 1) : 1;
    for (int64_t i = 0; i < dim_ / 2; ++i)
      frequencies.push_back(static_cast<float>(std::pow(a_.number("rotary_embedding_base", 10000),
                                                        -2.0 * static_cast<double>(i) / static_cast<double>(dim_)) /
                                               scale));
    Value* each = f_.builder().constant(IValue(Tensor::of<float>(Dims{dim_ / 2}, frequencies)));
    Value* places = f_.op(aten::arange, {tokens_, f_.dtype(DType::Float32), f_.none(), f_.none(), f_.none()});
    Value* angles = f_.mul(f_.op(aten::unsqueeze, {places, f_.integer(1)}), each);
    cos_ = f_.op(aten::cos, {angles});
    sin_ = f_.op(aten::sin, {angles});
  }
  Value* turned(Value* x) {
    if (!cos_) return x;
    bool interleaved = a_.text("position_embedding_type", "") == "rope_gptj";
    int64_t half = dim_ / 2;
    Value* first = interleaved ? between(x, 0, dim_, 2) : between(x, 0, half, 1);
    Value* second = interleaved ? between(x, 1, dim_, 2) : between(x, half, dim_, 1);
    Value* a = f_.sub(f_.mul(first, cos_), f_.mul(second, sin_));
    Value* b = f_.add(f_.mul(second, cos_), f_.mul(first, sin_));
    Value* both[] = {a, b};
    Value* pairs = f_.builder().list(both, types().tensor);
    Value* all = interleaved ? f_.op(aten::flatten,
                                     {f_.op(aten::stack, {pairs, f_.integer(-1)}), f_.integer(-2), f_.integer(-1)})
                             : f_.op(aten::cat, {pairs, f_.integer(-1)});
    if (dim_ == d_) return all;
    Value* withRest[] = {all, between(x, dim_, d_, 1)};
    return f_.op(aten::cat, {f_.builder().list(withRest, types().tensor), f_.integer(-1)});
  }
  Value* between(Value* x, int64_t from, int64_t to, int64_t step) {
    return f_.op(aten::slice, {x, f_.integer(-1), f_.integer(from), f_.integer(to), f_.integer(step)});
  }
  // [batch, heads, tokens, size] of the rows that have them, or of their columns from head `first` on.
  Value* part(const char* name, int64_t first, int64_t heads) {
    bool isAlone = a_.input("k") != nullptr;
    Value* rows = isAlone ? a_.input(name) : columns(a_.input("qkv"), 2, first, heads);
    if (Value* bias = a_.input("qkv_bias")) rows = f_.add(rows, columns(bias, 0, first, heads));
    Value* sizes = f_.listOf({batch_, tokens_, f_.integer(heads), f_.integer(d_)});
    return f_.op(aten::transpose, {f_.op(aten::reshape, {rows, sizes}), f_.integer(1), f_.integer(2)});
  }
  Value* columns(Value* of, int64_t dim, int64_t first, int64_t heads) {
    return f_.op(aten::slice,
                 {of, f_.integer(dim), f_.integer(first * d_), f_.integer((first + heads) * d_), f_.integer(1)});
  }
  Value* repeated(Value* x) {
    if (h_ == kv_) return x;
    Value* wide = f_.listOf({batch_, f_.integer(kv_), f_.integer(h_ / kv_), tokens_, f_.integer(d_)});
    Value* groups = f_.op(aten::expand, {f_.op(aten::unsqueeze, {x, f_.integer(2)}), wide, f_.flag(false)});
    return f_.op(aten::reshape, {groups, f_.listOf({batch_, f_.integer(h_), tokens_, f_.integer(d_)})});
  }
  // True where a key comes after the query, or before its window.
  Value* later() {
    Value* square = f_.listOf({tokens_, tokens_});
    Value* ones = f_.op(aten::ones, {square, f_.dtype(DType::Bool), f_.none(), f_.none(), f_.none()});
    Value* after = f_.op(aten::triu, {ones, f_.integer(1)});
    int64_t window = a_.integer("attention_window", 0);
    if (window == 0) return after;
    return f_.op(Symbol::of("aten::logical_or"), {after, f_.op(Symbol::of("aten::tril"), {ones, f_.integer(-window)})});
  }

  const AttentionNode& a_;
  Formula f_;
  int64_t h_, kv_, d_, dim_ = 0;
  Value *batch_ = nullptr, *tokens_ = nullptr, *cos_ = nullptr, *sin_ = nullptr;
};

Replacement unpack(Node* n, RewriteContext& c) {
  AttentionNode a(n);
  if (!isPlain(a)) return {};
  return Replacement::of({{n->output(), Unpacking(a, c).result()}}, {n});
}

}  // namespace

NodeRewrite unpackGptAttention() { return {"unpack_gpt_attention", {sym::GptAttention}, unpack}; }

}  // namespace tscompile
