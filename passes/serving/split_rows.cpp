// Products of the tokens of all texts in one matrix, as torch.export decomposes layers, become layers of texts again.
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
    std::vector<Node*> products;
    for (Node* n : context_.graph.block()->nodes())
      if (isLayerOfRows(n)) products.push_back(n);
    for (Node* n : products) split(n);
    return dropExpansions() || !products.empty();
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

  RewriteContext& context_;
  Value* ids_;
  SmallInstance small_, other_;
};

}  // namespace

bool splitRows(RewriteContext& context, Value* ids, const Value* positions) {
  return RowSplitter(context, ids, positions).run();
}

}  // namespace tscompile
