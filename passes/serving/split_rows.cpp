// Layers as torch.export decomposes them become layers of texts again: products of the tokens of all texts in one
// matrix, and of those of each text with a weight that is repeated for it.
#include "ir/values/aten.h"
#include "passes/serving/serving_passes.h"
#include "passes/serving/small_instance.h"

namespace tscompile {
namespace {

class RowSplitter {
 public:
  RowSplitter(RewriteContext& context, Value* ids, const Value* positions)
      : context_(context), ids_(ids), small_(context, 2, 5, positions), other_(context, 3, 7, positions) {}

  bool run() {
    if (!small_.fits() || !other_.fits()) return false;
    std::vector<Node*> products, repeated;
    for (Node* n : context_.graph.block()->nodes()) {
      if (isLayerOfRows(n)) products.push_back(n);
      if (n->kind() == aten::bmm) repeated.push_back(n);
    }
    for (Node* n : products) split(n);
    bool changed = !products.empty();
    for (Node* n : repeated) changed |= joinTexts(n);
    return dropExpansions() || changed;
  }

 private:
  // Expansions to the sizes that a tensor has hand it on.
  bool dropExpansions() {
    std::vector<Node*> idle;
    for (Node* n : context_.graph.block()->nodes())
      if (n->kind() == aten::expand && context_.facts.isUndisturbed(n) && keepsSizes(n, small_) &&
          keepsSizes(n, other_))
        idle.push_back(n);
    for (Node* n : idle) {
      n->output()->replaceAllUsesWith(n->input(0));
      n->destroy();
    }
    return !idle.empty();
  }

  static bool keepsSizes(const Node* n, const SmallInstance& in) {
    std::optional<Dims> sizes = in.sizes(n->input(0));
    return sizes && sizes == in.sizes(n->output());
  }

  bool hasBias(const Node* n) const { return n->kind() == aten::addmm; }

  bool isRows(const Value* v, const SmallInstance& in, int64_t width) const {
    return in.sizes(v) == Dims{in.batch * in.tokens, width};
  }

  bool isLayerOfRows(const Node* n) const {
    if (n->kind() != aten::mm && !hasBias(n)) return false;
    const size_t at = hasBias(n) ? 1 : 0;
    const IValue* weight = GraphFacts::constant(n->input(at + 1));
    if (!weight || !weight->isTensor() || weight->toTensor().rank() != 2) return false;
    if (hasBias(n) && !(context_.facts.number(n->input(3)) == 1.0 && context_.facts.number(n->input(4)) == 1.0 &&
                        isBias(n->input(0), weight->toTensor().size(1))))
      return false;
    const int64_t width = weight->toTensor().size(0);
    return isRows(n->input(at), small_, width) && isRows(n->input(at), other_, width);
  }

  bool isBias(const Value* v, int64_t width) const { return small_.sizes(v) == Dims{width}; }

  void split(Node* n) {
    const size_t at = hasBias(n) ? 1 : 0;
    Builder b(context_.graph, n);
    b.setPlaceOf(n);
    TypePtr tensor = types().tensor, integer = types().integer;
    Value *zero = b.constant(IValue(0)), *one = b.constant(IValue(1));
    const int64_t width = GraphFacts::constant(n->input(at + 1))->toTensor().size(0);
    Value* sizes = b.call(sym::ListConstruct,
                          {b.call(aten::size, {ids_, zero}, integer), b.call(aten::size, {ids_, one}, integer),
                           b.constant(IValue(width))},
                          listType(types().integer));
    Value* texts = b.call(aten::reshape, {n->input(at), sizes}, tensor);
    Value* weight = b.call(aten::transpose, {n->input(at + 1), zero, one}, tensor);
    Value* bias = hasBias(n) ? n->input(0) : b.constant(IValue());
    Value* layer = b.call(aten::linear, {texts, weight, bias}, tensor);
    n->output()->replaceAllUsesWith(b.call(aten::flatten, {layer, zero, one}, tensor));
    n->destroy();
  }

  // The constant matrix of which each text's matrix in `repeated` is a copy; else null.
  Value* matrixOfAll(Value* repeated) {
    Value* v = repeated;
    while (!isMatrix(v)) {
      Node* n = quietNode(v, context_);
      if (!n || !context_.facts.movesElements(n) || n->inputCount() == 0) return nullptr;
      v = n->input(0);
    }
    const Dims sizes = *small_.sizes(v);
    const std::optional<SmallInstance::Elements> places = small_.places(repeated, v);
    if (!places || places->sizes != Dims{small_.batch, sizes[0], sizes[1]}) return nullptr;
    const size_t count = static_cast<size_t>(sizes[0] * sizes[1]);
    for (size_t i = 0; i < places->values.size(); ++i)
      if (places->values[i] != static_cast<double>(i % count)) return nullptr;
    return v;
  }
  bool isMatrix(const Value* v) const {
    const IValue* constant = GraphFacts::constant(v);
    return constant && constant->isTensor() && constant->toTensor().rank() == 2 && small_.sizes(v);
  }

  bool joinTexts(Node* n) {
    Value* matrix = matrixOfAll(n->input(1));
    if (!matrix) return false;
    Builder b(context_.graph, n);
    b.setPlaceOf(n);
    TypePtr tensor = types().tensor;
    Value* weight = b.call(aten::transpose, {matrix, b.constant(IValue(0)), b.constant(IValue(1))}, tensor);
    n->output()->replaceAllUsesWith(b.call(aten::linear, {n->input(0), weight, b.constant(IValue())}, tensor));
    n->destroy();
    return true;
  }

  RewriteContext& context_;
  Value* ids_;
  SmallInstance small_, other_;
};

}  // namespace

bool splitRows(RewriteContext& context, Value* ids, const Value* positions) {
  return RowSplitter(context, ids, positions).run();
}

}  // namespace tscompile
