#include "passes/serving/forms/text_calls.h"

#include "ir/analysis/shape_propagation.h"
#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "ir/values/kind_set.h"
#include "passes/lowering/clean_up.h"
#include "passes/rewrite/facts.h"
#include "passes/serving/forms/example_sizes.h"
#include "passes/serving/forms/returned_logits.h"
#include "passes/serving/input_roles.h"

#include <vector>

namespace tscompile {
namespace {

bool isLoss(const ShapePropagation& shapes, const Value* v) {
  const TensorFacts& f = shapes.tensor(v);
  return v->node() && f.hasRank && f.sizes.empty() && (f.dtype == DType::Undefined || isFloating(f.dtype));
}

// By itself, or in a tuple.
bool isOnlyReturned(const Value* v, bool mayBeInTuple) {
  for (const Use& u : v->uses()) {
    const bool isInTuple = mayBeInTuple && u.user->kind() == sym::TupleConstruct;
    if (!u.user->isReturn() && !(isInTuple && isOnlyReturned(u.user->output(), false))) return false;
  }
  return true;
}

}  // namespace

bool dropTargets(Graph& graph, const OpRegistry& registry) {
  Value* logits = logitsOf(graph);
  const ShapePropagation shapes(graph, registry);
  std::vector<Value*> losses;
  for (const ReturnedTensor& r : returnedTensors(graph))
    if (r.value != logits && isLoss(shapes, r.value)) losses.push_back(r.value);
  if (!logits || losses.empty()) return false;
  for (const Value* loss : losses) replaceReturned(graph, loss, logits);
  Diagnostics ignored;
  RewriteContext context(graph, registry, ignored);
  removeDeadCode(graph, context);
  for (size_t i = graph.inputs().size(); i-- > 0;)
    if (graph.input(i)->type()->isTensor() && !graph.input(i)->hasUses()) graph.block()->removeParameter(i);
  return true;
}

bool dropHandedOn(Graph& graph, const OpRegistry&) {
  const Value *ids = idsOf(graph), *logits = logitsOf(graph);
  bool isAny = false;
  for (size_t i = graph.inputs().size(); i-- > 0;) {
    Value* v = graph.input(i);
    if (!v->type()->isTensor() || !v->hasUses() || v == ids || v == logits || roleByName(v)) continue;
    if (!isOnlyReturned(v, true)) continue;
    while (v->hasUses()) {
      const Use& u = *v->firstUse();
      Node* n = u.user;
      n->removeInput(u.index());
      if (n->isReturn()) continue;
      std::vector<Value*> left;
      for (const Use& item : n->inputs()) left.push_back(item.value);
      n->output()->replaceAllUsesWith(Builder(graph, n).tuple(left));
      n->destroy();
    }
    graph.block()->removeParameter(i);
    isAny = true;
  }
  return isAny;
}

bool takeOneAxis(Graph& graph, const OpRegistry&) {
  constexpr int64_t kUsualAxes = 3;
  bool isAny = false;
  for (Value* v : graph.inputs()) {
    if (!v->type()->isTensor() || roleByName(v) != ServingInput::Positions) continue;
    const TypePtr own = v->type();
    TensorFacts row = own->tensor();
    if (row.hasRank && row.sizes.size() != 3) continue;
    const int64_t axes = row.hasRank && row.sizes[0] > 0 ? row.sizes[0] : kUsualAxes;
    row.sizes = row.hasRank ? Dims{row.sizes[1], row.sizes[2]} : Dims{kUnknownSize, kUnknownSize};
    row.hasRank = true, row.strides = {};
    v->setType(tensorType(row));
    Builder b(graph, graph.block()->first());
    auto number = [&](int64_t n) { return b.constant(IValue(n)); };
    Value* one = b.call(aten::unsqueeze, {v, number(0)});
    Value* all = b.call(aten::expand, {one, b.constant(intList({axes, -1, -1})), b.constant(IValue(false))}, own);
    v->replaceAllUsesWith(all);
    one->node()->replaceInput(0, v);
    isAny = true;
  }
  return isAny;
}

bool putAnySizes(Graph& graph, const OpRegistry& registry) {
  static const KindSet kPuts{"aten::index_put", "aten::index_put_"};
  const Value* ids = idsOf(graph);
  ShapeOptions known;  // of ranks, which heads have whatever those of positions are
  for (const Value* v : graph.inputs()) {
    std::optional<SymbolicValue>& told = known.inputs.emplace_back();
    if (!v->type()->isTensor() || v->type()->tensor().hasRank) continue;
    if (v == ids) told = symbolicTensor(DType::Int64, Dims{kUnknownSize, kUnknownSize});
    if (roleByName(v) == ServingInput::Positions) told = symbolicTensor(DType::Int64, Dims{kUnknownSize});
  }
  known.known = sizesOfAttribute;
  const ShapePropagation shapes(graph, registry, known);
  std::vector<Node*> views;
  forEachNode(graph, [&](Node* n) {
    Node* view = kPuts.contains(n->kind()) ? n->input(2)->node() : nullptr;
    const IValue* sizes = view && view->kind() == aten::view ? GraphFacts::constant(view->input(1)) : nullptr;
    if (!sizes || !sizes->isList() || view->output()->useCount() != 1) return;
    const TensorFacts& whole = shapes.tensor(view->input(0));
    if (whole.hasRank && whole.sizes.size() > sizes->toList().items.size()) views.push_back(view);
  });
  for (Node* view : views) {
    const auto rank = static_cast<int64_t>(GraphFacts::constant(view->input(1))->toList().items.size());
    Builder b(graph, view);
    std::vector<Value*> sizes;
    for (int64_t d = -rank; d < 0; ++d)
      sizes.push_back(b.call(aten::size, {view->input(0), b.constant(IValue(d))}, types().integer));
    view->replaceInput(1, b.list(sizes, types().integer));
  }
  return !views.empty();
}

}  // namespace tscompile
