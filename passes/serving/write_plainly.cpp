// Products and joins in the operators that attention is looked for in:
//   baddbmm(x, a, b, beta, alpha)                       -> beta * x + alpha * bmm(a, b)
//   einsum("bqhd,bkhd->bhqk", [a, b])                   -> matmul of permuted operands
//   einsum("btkgd,bskd->bkgts", [a, b])                 -> the same, with a dimension of 1 in b for g
//   x / sum(x), x = exp(y - max(y))                     -> softmax(y)
//   matmul(softmax(w), v) * sigmoid(logsumexp(w) - s)    -> matmul(softmax(cat([w, s]))[.., :-1], v)
//   reshape(stack([a, b], -1), [h, t, d])               -> reshape(flatten(stack([a, b], -1), -2, -1), [h, t, d])
//   detach_(x)                                          -> x
//   matmul(q, permute(k, [1, 2, 3, 0]))                 -> matmul(q, transpose(permute(k, [1, 2, 0, 3]), -2, -1))
//   linear(transpose(x, 0, 1), w, b)                    -> transpose(linear(x, w, b), 0, 1)
//   y = empty; y[.., :n].copy_(a); y[.., n:].copy_(b)   -> cat([a, b], dim)
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/rewrite/formula.h"
#include "passes/serving/gated_sinks.h"
#include "passes/serving/lookups.h"
#include "passes/serving/native_layers.h"
#include "passes/serving/serving_passes.h"

#include <algorithm>
#include <string>

namespace tscompile {
namespace {

Value* plainBaddbmm(Node* n, RewriteContext& c) {
  if (n->inputCount() != 5) return nullptr;
  Formula f(n, c);
  Value* product = f.op(aten::bmm, {n->input(1), n->input(2)});
  if (c.facts.number(n->input(4)) != 1.0) product = f.mul(product, n->input(4));
  // What is multiplied by zero may hold anything.
  if (c.facts.number(n->input(3)) == 0.0) return product;
  return f.add(f.mul(n->input(0), n->input(3)), product);
}

// The letters of an equation of two operands: those of each, and of the result; nothing if it has other signs.
struct Equation {
  std::string a, b, out;
};
std::optional<Equation> equationOf(const Value* text) {
  const IValue* v = GraphFacts::constant(text);
  if (!v || !v->isString()) return std::nullopt;
  std::string s(v->toString());
  std::erase(s, ' ');
  size_t comma = s.find(','), arrow = s.find("->");
  if (comma == std::string::npos || arrow == std::string::npos || comma > arrow) return std::nullopt;
  Equation e{s.substr(0, comma), s.substr(comma + 1, arrow - comma - 1), s.substr(arrow + 2)};
  for (std::string part : {e.a, e.b, e.out}) {
    if (!std::all_of(part.begin(), part.end(), [](unsigned char ch) { return std::isalpha(ch); })) return std::nullopt;
    std::sort(part.begin(), part.end());
    if (std::adjacent_find(part.begin(), part.end()) != part.end()) return std::nullopt;
  }
  return e;
}

Value* permuted(Formula& f, Value* v, const std::string& from, const std::string& to) {
  if (from == to) return v;
  Dims order;
  for (char letter : to) order.push_back(static_cast<int64_t>(from.find(letter)));
  return f.op(aten::permute, {v, f.integers(order)});
}

bool has(const std::string& part, char letter) { return part.find(letter) != std::string::npos; }

// A product of matrices: `row` of a and `column` of b; what a has besides is a dimension of 1 in b.
struct LetterProduct {
  std::string both, more, row, summed, column;

  std::string ofA() const { return both + more + row + summed; }
  std::string out() const { return both + more + row + column; }
  // Operands and results whose dimensions are put in another order.
  int moves(const Equation& e) const { return (e.a != ofA()) + (e.out != out()); }
};

// Whether weights come of scores, with what only hands them on between.
bool isSoftmaxOf(const Value* v, RewriteContext& c) {
  for (int steps = 0; steps < 4; ++steps) {
    const Node* n = v->node();
    if (!n || n->inputCount() == 0) return false;
    if (n->kind() == aten::softmax) return true;
    if (n->kind() != aten::dropout && !c.facts.keepsElements(n) && !c.facts.movesElements(n)) return false;
    v = n->input(0);
  }
  return false;
}

// One dimension of b is its own, one is summed over, and the others are those of a and the result. Of several that are
// of a alone the rows are those that move least; else queries, which are the last before keys in scores and weights.
std::optional<LetterProduct> productOf(const Equation& e, bool isOfWeights) {
  LetterProduct p;
  std::string ofA;
  for (char letter : e.a) (!has(e.b, letter) ? ofA : has(e.out, letter) ? p.both : p.summed) += letter;
  for (char letter : e.b)
    if (!has(e.a, letter)) p.column += letter;
  const std::string all = p.both + ofA + p.column;
  if (p.summed.size() != 1 || ofA.empty() || p.column.size() != 1 || e.out.size() != all.size() ||
      !std::ranges::all_of(all, [&](char letter) { return has(e.out, letter); }))
    return std::nullopt;
  const std::string& order = isOfWeights ? e.a : e.out;
  std::ranges::sort(ofA, {}, [&](char letter) { return order.find(letter); });
  std::optional<LetterProduct> best;
  for (char row : ofA) {
    p.row = row;
    p.more = ofA;
    std::erase(p.more, row);
    if (!best || p.moves(e) <= best->moves(e)) best = p;
  }
  return best;
}

Value* plainEinsum(Node* n, RewriteContext& c) {
  const Node* list = n->inputCount() >= 2 ? n->input(1)->node() : nullptr;
  if (!list || list->kind() != sym::ListConstruct || list->inputCount() != 2) return nullptr;
  std::optional<Equation> e = equationOf(n->input(0));
  if (!e || e->out.empty()) return nullptr;
  // Columns of the result are those of the second operand.
  const bool isSwapped = !has(e->b, e->out.back());
  if (isSwapped) std::swap(e->a, e->b);
  Value *a = list->input(isSwapped ? 1 : 0), *b = list->input(isSwapped ? 0 : 1);
  std::optional<LetterProduct> p = productOf(*e, isSoftmaxOf(a, c));
  if (!p) return nullptr;
  Formula f(n, c);
  a = permuted(f, a, e->a, p->ofA());
  b = permuted(f, b, e->b, p->both + p->summed + p->column);
  for (size_t i = 0; i < p->more.size(); ++i)
    b = f.op(aten::unsqueeze, {b, f.integer(static_cast<int64_t>(p->both.size()))});
  return permuted(f, f.op(aten::matmul, {a, b}), p->out(), e->out);
}

// Rows are multiplied in any order: attention of torch.nn has tokens outside of texts, and heads are looked for in
// texts.
Value* plainLinear(Node* n, RewriteContext& c) {
  Node* order = n->inputCount() == 3 ? n->input(0)->node() : nullptr;
  if (!order || order->kind() != aten::transpose || order->inputCount() != 3 || !c.facts.isUndisturbed(order))
    return nullptr;
  std::optional<int64_t> a = c.facts.integer(order->input(1)), b = c.facts.integer(order->input(2));
  if (!a || !b || *a < 0 || *b < 0 || *a + *b != 1 || c.facts.rank(order->input(0)) != 3) return nullptr;
  Formula f(n, c);
  Value* product = f.op(aten::linear, {order->input(0), n->input(1), n->input(2)});
  return f.op(aten::transpose, {product, f.integer(0), f.integer(1)});
}

// Lowering joins keys [batch, heads, tokens, size], which are looked for, with the turn of the last two that follows.
Value* plainMatmul(Node* n, RewriteContext& c) {
  Node* order = n->input(1)->node();
  if (!order || order->kind() != aten::permute || !c.facts.isUndisturbed(order)) return nullptr;
  std::optional<Dims> dims = c.facts.integers(order->input(1));
  if (!dims || dims->size() < 4) return nullptr;
  std::swap(dims->end()[-1], dims->end()[-2]);
  Formula f(n, c);
  Value* keys = f.op(aten::permute, {order->input(0), f.integers(*dims)});
  return f.op(aten::matmul, {n->input(0), f.op(aten::transpose, {keys, f.integer(-2), f.integer(-1)})});
}

// Lowering joins heads that were turned in pairs, stack([..], -1) made flat, with the reshape that follows.
Value* plainReshape(Node* n, RewriteContext& c) {
  Node* pairs = n->input(0)->node();
  if (!pairs || pairs->kind() != aten::stack || c.facts.rank(n->input(0)) != 5) return nullptr;
  const std::optional<int64_t> dim = c.facts.integer(pairs->input(1));
  if ((dim != -1 && dim != 4) || c.facts.rank(n->output()) != 3) return nullptr;
  Formula f(n, c);
  return f.op(aten::reshape, {f.op(aten::flatten, {n->input(0), f.integer(-2), f.integer(-1)}), n->input(1)});
}

// div(exp(x), sum(exp(x), [-1], keepdim)): a number that a row has in common changes nothing.
Value* plainSoftmax(Node* n, RewriteContext& c) {
  Node *exp = n->input(0)->node(), *sum = n->inputCount() == 2 ? n->input(1)->node() : nullptr;
  if (!exp || !sum || exp->kind() != aten::exp || sum->kind() != aten::sum || sum->inputCount() != 4) return nullptr;
  std::optional<Dims> dims = c.facts.integers(sum->input(1));
  if (sum->input(0) != exp->output() || !dims || dims->size() != 1 || c.facts.boolean(sum->input(2)) != true)
    return nullptr;
  Value* x = exp->input(0);
  Node* less = x->node();
  Node* most = less && less->kind() == aten::sub ? less->input(1)->node() : nullptr;
  bool isMost = most && most->inputCount() == 3 && c.facts.boolean(most->input(2)) == true &&
                ((most->kind() == aten::amax && c.facts.integers(most->input(1)) == dims) ||
                 (most->kind() == kMax && c.facts.integer(most->input(1)) == (*dims)[0]));
  if (isMost && most->input(0) == less->input(0)) x = less->input(0);
  Formula f(n, c);
  return f.op(aten::softmax, {x, f.integer((*dims)[0]), f.none()});
}

// Of memory that is filled part by part along one dimension, what it holds then.
bool joinCopies(Node* n, RewriteContext& c) {
  std::vector<Node*> slices, copies, others;
  for (const Use& u : n->output()->uses()) {
    bool isPart = u.user->kind() == aten::slice && u.user->inputCount() == 5 && u.index() == 0 &&
                  u.user->output()->useCount() == 1 && (*u.user->output()->uses().begin()).user->kind() == aten::copy_;
    Node* copy = isPart ? (*u.user->output()->uses().begin()).user : nullptr;
    if (!copy || copy->output()->hasUses() || copy->input(0) != u.user->output()) {
      others.push_back(u.user);
      continue;
    }
    slices.push_back(u.user);
    copies.push_back(copy);
  }
  if (slices.size() < 2 || others.empty()) return false;
  std::vector<size_t> order(slices.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  auto bound = [&](size_t i, size_t slot, int64_t otherwise) {
    const Value* v = slices[i]->input(slot);
    return GraphFacts::isNone(v) ? otherwise : c.facts.integer(v).value_or(-1);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return bound(a, 2, 0) < bound(b, 2, 0); });
  std::optional<int64_t> dim = c.facts.integer(slices[0]->input(1));
  int64_t at = 0;
  for (size_t i : order) {
    if (!dim || c.facts.integer(slices[i]->input(1)) != dim || c.facts.integer(slices[i]->input(4)) != 1) return false;
    if (at < 0 || bound(i, 2, 0) != at || copies[i]->block() != n->block()) return false;
    at = bound(i, 3, INT64_MAX);
  }
  if (at != INT64_MAX) return false;
  Node* last = *std::max_element(copies.begin(), copies.end(), [](Node* a, Node* b) { return a->isBefore(b); });
  for (const Node* user : others)
    if (user->block() != n->block() || !last->isBefore(user)) return false;
  Formula f(last, c);
  f.builder().setPointAfter(last);
  std::vector<Value*> parts;
  for (size_t i : order) parts.push_back(copies[i]->input(1));
  Value* joined = f.op(aten::cat, {f.builder().list(parts, types().tensor), f.integer(*dim)});
  for (Node* copy : copies) copy->destroy();
  for (Node* slice : slices) slice->destroy();
  n->output()->replaceAllUsesWith(joined);
  n->destroy();
  return true;
}

}  // namespace

void writePlainly(Graph& graph, RewriteContext& context) {
  using Plain = Value* (*)(Node*, RewriteContext&);
  static const std::pair<Symbol, Plain> kPlain[] = {{aten::baddbmm, plainBaddbmm},
                                                    {kEinsum, plainEinsum},
                                                    {aten::linear, plainLinear},
                                                    {aten::matmul, plainMatmul},
                                                    {aten::reshape, plainReshape},
                                                    {aten::div, plainSoftmax},
                                                    {aten::mul, joinGatedSinks},
                                                    {aten::_native_multi_head_attention, unpackNativeLayer},
                                                    {aten::_transformer_encoder_layer_fwd, unpackNativeLayer}};
  auto plainOf = [](Symbol kind) -> Plain {
    for (const auto& [taken, plain] : kPlain)
      if (taken == kind) return plain;
    return nullptr;
  };
  auto isAnything = [&](const Node* n) {
    const Operator* op = context.facts.resolve(n);
    return op && op->has(Trait::Uninitialized);
  };
  std::vector<Node*> nodes;
  for (Node* n : graph.block()->nodes())
    if (plainOf(n->kind()) || isAnything(n)) nodes.push_back(n);
  bool changed = false;
  for (Node* n : nodes) {
    Plain plain = plainOf(n->kind());
    if (!plain) {
      changed |= joinCopies(n, context);
      continue;
    }
    Value* value = plain(n, context);
    if (!value) continue;
    n->output(0)->replaceAllUsesWith(value);
    n->destroy();
    changed = true;
  }
  if (changed) context.facts.refresh();
}

}  // namespace tscompile
