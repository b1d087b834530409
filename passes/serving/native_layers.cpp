#include "passes/serving/native_layers.h"

#include "passes/rewrite/formula.h"

namespace tscompile {
namespace {

class Layer {
 public:
  Layer(Node* n, RewriteContext& c) : n_(n), c_(c), f_(n, c) {}

  // (query, key, value, embed_dim, num_head, qkv_weight, qkv_bias, proj_weight, proj_bias, mask, need_weights,
  // average_attn_weights, mask_type)
  Value* attention() {
    if (n_->inputCount() != 13 || n_->input(0) != n_->input(1) || n_->input(0) != n_->input(2)) return nullptr;
    if (n_->output(1)->hasUses()) return nullptr;
    return attend(n_->input(0), 3, 4, 5, 9, 12);
  }

  // (src, embed_dim, num_heads, qkv_weight, qkv_bias, proj_weight, proj_bias, use_gelu, norm_first, eps, norm_weight_1,
  // norm_bias_1, norm_weight_2, norm_bias_2, ffn_weight_1, ffn_bias_1, ffn_weight_2, ffn_bias_2, mask, mask_type)
  Value* encoder() {
    if (n_->inputCount() != 20) return nullptr;
    std::optional<bool> usesGelu = c_.facts.boolean(n_->input(7)), normsFirst = c_.facts.boolean(n_->input(8));
    if (!usesGelu || !normsFirst || !c_.facts.integer(n_->input(1))) return nullptr;
    Value* x = n_->input(0);
    Value* attended = attend(*normsFirst ? norm(x, 10) : x, 1, 2, 3, 18, 19);
    if (!attended) return nullptr;
    x = f_.add(x, attended);
    if (!*normsFirst) x = norm(x, 10);
    Value* inner = linear(*normsFirst ? norm(x, 12) : x, 14);
    inner = *usesGelu ? f_.op(Symbol::of("aten::gelu"), {inner, f_.builder().constant(IValue(std::string("none")))})
                      : f_.op(Symbol::of("aten::relu"), {inner});
    x = f_.add(x, linear(inner, 16));
    return *normsFirst ? x : norm(x, 12);
  }

 private:
  Value* linear(Value* x, size_t weight) { return f_.op(aten::linear, {x, n_->input(weight), n_->input(weight + 1)}); }
  Value* norm(Value* x, size_t weight) {
    Dims features{c_.facts.integer(n_->input(1)).value_or(0)};
    return f_.op(aten::layer_norm,
                 {x, f_.integers(features), n_->input(weight), n_->input(weight + 1), n_->input(9), f_.flag(true)});
  }

  // Of rows [batch, tokens, features]; the places of the numbers of features and heads, of four weights in a row, of
  // the mask, true where a key is not seen, and its type: one of keys alone has another form.
  Value* attend(Value* x, size_t features, size_t heads, size_t weights, size_t mask, size_t type) {
    std::optional<int64_t> width = c_.facts.integer(n_->input(features)), count = c_.facts.integer(n_->input(heads));
    if (!width || !count || *count <= 0 || *width % *count) return nullptr;
    bool isMasked = !GraphFacts::isNone(n_->input(mask));
    if (isMasked && c_.facts.integer(n_->input(type)).value_or(1) == 1) return nullptr;
    Value *batch = f_.op(aten::size, {x, f_.integer(0)}), *tokens = f_.op(aten::size, {x, f_.integer(1)});
    Value* sizes = f_.listOf({batch, tokens, f_.integer(3), f_.integer(*count), f_.integer(*width / *count)});
    Value* parts =
        f_.op(aten::permute, {f_.op(aten::reshape, {linear(x, weights), sizes}), f_.integers(Dims{2, 0, 3, 1, 4})});
    auto part = [&](int64_t i) { return f_.op(aten::select, {parts, f_.integer(0), f_.integer(i)}); };
    Value *q = part(0), *k = part(1), *v = part(2);
    Value* seen = isMasked ? f_.op(aten::logical_not, {n_->input(mask)}) : f_.none();
    Value* out = f_.op(aten::scaled_dot_product_attention, {q, k, v, seen, f_.number(0), f_.flag(false)});
    Value* rows = f_.op(aten::flatten,
                        {f_.op(aten::transpose, {out, f_.integer(1), f_.integer(2)}), f_.integer(2), f_.integer(3)});
    return linear(rows, weights + 2);
  }

  Node* n_;
  RewriteContext& c_;
  Formula f_;
};

}  // namespace

Value* unpackNativeLayer(Node* node, RewriteContext& context) {
  if (node->kind() == aten::_native_multi_head_attention) return Layer(node, context).attention();
  if (node->kind() == aten::_transformer_encoder_layer_fwd) return Layer(node, context).encoder();
  return nullptr;
}

}  // namespace tscompile
