// matmul(softmax(w, -1), v) * unsqueeze(sigmoid(logsumexp(w, [-1]) - sinks), -1)
//   -> matmul(softmax(cat([w, sinks], -1), -1)[.., :-1], v)
// since sum(exp(w)) / (sum(exp(w)) + exp(sink)) is that factor.
#include "passes/serving/gated_sinks.h"

#include "ir/values/aten.h"
#include "passes/rewrite/formula.h"

namespace tscompile {
namespace {

const Symbol kLogSumExp = Symbol::of("aten::logsumexp"), kSigmoid = Symbol::of("aten::sigmoid");

class GatedSinks {
 public:
  GatedSinks(Node* product, RewriteContext& context) : product_(product), context_(context) {}

  Value* join() {
    if (product_->inputCount() != 2) return nullptr;
    for (size_t side : {0, 1})
      if (findGate(product_->input(side)) && findSoftmax(product_->input(1 - side))) return joined(1 - side);
    return nullptr;
  }

 private:
  // The node of this kind whose result only goes on to `v`, maybe in other precision or another form.
  Node* behind(Value* v, Symbol kind, bool moves) const {
    while (Node* n = v->node()) {
      if (v->useCount() != 1 || !context_.facts.isUndisturbed(n)) return nullptr;
      if (n->kind() == kind) return n;
      const bool isDropped = n->kind() == aten::dropout && context_.facts.boolean(n->input(2)) == false;
      if (!isDropped && !context_.facts.keepsElements(n) && !(moves && context_.facts.movesElements(n))) return nullptr;
      v = n->input(0);
    }
    return nullptr;
  }

  bool isLast(const Value* dims) const { return context_.facts.integers(dims) == Dims{-1}; }

  // What `v` is the logarithm of the sum of exponentials of.
  Value* summed(Value* v) const {
    Node* n = v->node();
    if (!n) return nullptr;
    if (n->kind() == kLogSumExp)
      return isLast(n->input(1)) && context_.facts.boolean(n->input(2)) == false ? n->input(0) : nullptr;
    // log(sum(exp(w - m), [-1])) + squeeze(m, [-1])
    Node* log = n->kind() == aten::add ? n->input(0)->node() : nullptr;
    Node* most = log ? n->input(1)->node() : nullptr;
    Node* sum = log && log->kind() == aten::log ? log->input(0)->node() : nullptr;
    Node* exp = sum && sum->kind() == aten::sum && sum->inputCount() == 4 ? sum->input(0)->node() : nullptr;
    Node* less = exp && exp->kind() == aten::exp ? exp->input(0)->node() : nullptr;
    if (!less || less->kind() != aten::sub || !most || most->kind() != aten::squeeze || most->inputCount() != 2)
      return nullptr;
    const bool isSame = less->input(1) == most->input(0) && context_.facts.number(less->input(2)) == 1.0 &&
                        context_.facts.number(n->input(2)) == 1.0;
    return isSame && isLast(sum->input(1)) && isLast(most->input(1)) ? less->input(0) : nullptr;
  }

  bool findGate(Value* factor) {
    Node* row = behind(factor, aten::unsqueeze, false);
    const bool isRow = row && context_.facts.integer(row->input(1)) == -1;
    Node* gate = isRow ? behind(row->input(0), kSigmoid, false) : nullptr;
    Node* less = gate ? behind(gate->input(0), aten::sub, false) : nullptr;
    if (!less || less->inputCount() != 3 || context_.facts.number(less->input(2)) != 1.0) return false;
    scores_ = summed(less->input(0));
    sinks_ = less->input(1);
    return scores_ && context_.facts.rank(sinks_) == 3;
  }

  bool findSoftmax(Value* result) {
    Node* n = behind(result, aten::matmul, true);
    if (!n) n = behind(result, aten::bmm, true);
    softmax_ = n ? behind(n->input(0), aten::softmax, true) : nullptr;
    return softmax_ && softmax_->input(0) == scores_ && context_.facts.integer(softmax_->input(1)) == -1;
  }

  Value* joined(size_t result) {
    Formula f(softmax_, context_);
    auto size = [&](int64_t dim) { return f.builder().call(aten::size, {scores_, f.integer(dim)}, types().integer); };
    Value* sizes = f.listOf({size(0), f.integer(-1), size(2), f.integer(1)});
    Value* column = f.op(aten::expand, {f.op(aten::unsqueeze, {sinks_, f.integer(-1)}), sizes, f.flag(false)});
    Value* all = f.op(
        aten::cat, {f.builder().list(std::initializer_list<Value*>{scores_, column}, types().tensor), f.integer(-1)});
    Value* weights = f.op(aten::softmax, {all, f.integer(-1), softmax_->input(2)});
    Value* kept = f.op(aten::slice, {weights, f.integer(-1), f.integer(0), f.integer(-1), f.integer(1)});
    softmax_->output()->replaceAllUsesWith(kept);
    return product_->input(result);
  }

  Node* product_;
  RewriteContext& context_;
  Value *scores_ = nullptr, *sinks_ = nullptr;
  Node* softmax_ = nullptr;
};

}  // namespace

Value* joinGatedSinks(Node* product, RewriteContext& context) { return GatedSinks(product, context).join(); }

}  // namespace tscompile
