// A factor in front of views of queries or keys comes after them, where attention takes it for its scale:
//   reshape(mul(x, 0.5), [..])  ->  mul(reshape(x, [..]), 0.5)
#include "ir/values/aten.h"
#include "passes/serving/serving_passes.h"
#include "passes/serving/small_instance.h"

namespace tscompile {
namespace {

class FactorSinker {
 public:
  FactorSinker(RewriteContext& context, const Value* positions) : context_(context), small_(context, 2, 5, positions) {}

  bool run() {
    if (!small_.fits()) return false;
    std::vector<Node*> views;
    for (Node* n : context_.graph.block()->nodes())
      if (context_.facts.movesElements(n) && n->inputCount() > 0 && n->outputCount() == 1) views.push_back(n);
    bool changed = false;
    for (Node* view : views) changed |= sink(view);
    return changed;
  }

 private:
  bool isFactor(const Value* v) const { return !v->type()->isTensor() || small_.sizes(v) == Dims{}; }

  bool keepsType(const Value* before, const Value* after) const {
    return small_.dtype(before) != DType::Undefined && small_.dtype(before) == small_.dtype(after);
  }

  // Of a product or quotient that a view alone reads: which of its operands is no factor.
  std::optional<size_t> slotBesideFactor(const Node* n) const {
    if (!n || n->inputCount() != 2 || n->output()->useCount() != 1) return std::nullopt;
    const bool isProduct = n->kind() == aten::mul;
    if (!isProduct && n->kind() != aten::div) return std::nullopt;
    if (isFactor(n->input(1))) return 0;
    return isProduct && isFactor(n->input(0)) ? std::optional<size_t>(1) : std::nullopt;
  }

  bool sink(Node* view) {
    Node* product = quietNode(view->input(0), context_);
    const std::optional<size_t> slot = slotBesideFactor(product);
    if (!slot || !quietNode(view->output(), context_)) return false;
    Value* x = product->input(*slot);
    if (isFactor(x) || !keepsType(x, product->output())) return false;
    view->replaceInput(0, x);
    product->output()->setType(view->output()->type());
    view->output()->replaceAllUsesWith(product->output());
    product->replaceInput(*slot, view->output());
    product->moveAfter(view);
    return true;
  }

  RewriteContext& context_;
  SmallInstance small_;
};

}  // namespace

bool sinkFactors(RewriteContext& context, const Value* positions) { return FactorSinker(context, positions).run(); }

}  // namespace tscompile
