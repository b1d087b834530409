// scaled_dot_product_attention(q, k, v, mask, dropout, causal, scale, grouped) without dropout and groups:
//   softmax(q * scale @ k^T, masked) @ v
#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"
#include "passes/rewrite/rewrite.h"

#include <cmath>
#include <limits>

namespace tscompile {
namespace {

// scale, or 1 / sqrt(features).
Value* scaleOf(Node* n, Formula& f, RewriteContext& c) {
  Value* query = n->input(0);
  if (n->inputCount() > 6 && !GraphFacts::isNone(n->input(6))) return n->input(6);
  const TensorFacts& t = c.facts.tensor(query);
  if (t.hasRank && !t.sizes.empty() && t.sizes.back() >= 0)
    return f.number(1 / std::sqrt(static_cast<double>(t.sizes.back())));
  Value* root = f.op(aten::sqrt, {f.op(aten::size, {query, f.integer(-1)})});
  return f.op(aten::div, {f.integer(1), root});
}

// True where a key comes after the query.
Value* future(Node* n, Formula& f) {
  Value* rows = f.op(aten::size, {n->input(0), f.integer(-2)});
  Value* columns = f.op(aten::size, {n->input(1), f.integer(-2)});
  Value* ones = f.op(aten::ones, {f.listOf({rows, columns}), f.dtype(DType::Bool), f.none(), f.none(), f.none()});
  return f.op(aten::triu, {ones, f.integer(1)});
}

bool isPlain(Node* n, RewriteContext& c) {
  if (n->inputCount() < 6 || n->inputCount() > 8 || n->outputCount() != 1 || !c.facts.isUndisturbed(n)) return false;
  if (!areFloats({n->input(0), n->input(1), n->input(2)}, c) || c.facts.number(n->input(4)) != 0.0) return false;
  if (!c.facts.boolean(n->input(5))) return false;
  if (n->inputCount() > 6 && !n->input(6)->type()->is(TypeKind::Float) && !GraphFacts::isNone(n->input(6)))
    return false;
  return n->inputCount() < 8 || c.facts.boolean(n->input(7)) == false;
}

Replacement replaceAttention(Node* n, RewriteContext& c) {
  if (!isPlain(n, c)) return {};
  Value* mask = GraphFacts::isNone(n->input(3)) ? nullptr : n->input(3);
  bool causal = *c.facts.boolean(n->input(5));
  bool isBoolMask = mask && mask->type()->isTensor() && c.facts.dtype(mask) == DType::Bool;
  if (mask && (causal || (!isBoolMask && !areFloats({n->input(0), mask}, c)))) return {};
  Formula f(n, c);
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  Value* keys = f.op(aten::transpose, {n->input(1), f.integer(-2), f.integer(-1)});
  Value* scores = f.op(aten::matmul, {f.mul(n->input(0), scaleOf(n, f, c)), keys});
  if (isBoolMask)
    scores = f.op(aten::masked_fill, {scores, f.op(aten::logical_not, {mask}), f.number(kNever)});
  else if (mask)
    scores = f.add(scores, mask);
  if (causal) scores = f.op(aten::masked_fill, {scores, future(n, f), f.number(kNever)});
  Value* weights = f.op(aten::softmax, {scores, f.integer(-1), f.none()});
  // With dropout it draws random numbers; here it goes for good.
  return Replacement::of({{n->output(), f.op(aten::matmul, {weights, n->input(2)})}}, {n});
}

}  // namespace

NodeRewrite unpackAttention() { return {"unpack_attention", {aten::scaled_dot_product_attention}, replaceAttention}; }

}  // namespace tscompile
