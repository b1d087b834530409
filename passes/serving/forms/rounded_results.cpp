#include "passes/serving/forms/rounded_results.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tscompile {
namespace {

// What a rounded number may be off by, of itself; sums of such numbers in another order are off by more.
double unitOf(DType dtype) {
  if (dtype == DType::BFloat16) return std::ldexp(1, -7);
  if (dtype == DType::Float16) return std::ldexp(1, -10);
  if (dtype == DType::Int8 || dtype == DType::Float8E4M3FN) return std::ldexp(1, -6);
  return std::ldexp(1, -20);
}

// That of the weights which a node reads; 0: it reads none.
double unitOfWeights(const Node* node) {
  double unit = 0;
  for (const Use& use : node->inputs()) {
    const Value* v = use.value;
    const IValue* value =
        v->node() && v->node()->kind() == sym::Constant ? v->node()->attributeValue(sym::value) : nullptr;
    if (!value || !value->isTensor() || !value->toTensor().defined()) continue;
    const Tensor& t = value->toTensor();
    if (t.rank() > 1 && isFloating(t.dtype())) unit = std::max(unit, unitOf(t.dtype()));
  }
  return unit;
}

// y  ->  y * (1 + unit * sin(frequency * random numbers of its sizes))
void changeResult(Graph& graph, Node* node, double unit, double frequency) {
  Builder b(graph);
  b.setPointAfter(node);
  b.setPlaceOf(node);
  Value *y = node->output(), *none = b.constant(IValue()), *one = b.constant(IValue(int64_t{1}));
  Value* random = b.call("aten::rand_like", {y, none, none, none, none, none});
  Value* waves = b.call(aten::sin, {b.call(aten::mul, {random, b.constant(IValue(frequency))})});
  Value* factors = b.call(aten::add, {b.call(aten::mul, {waves, b.constant(IValue(unit))}), one, one});
  Value* changed = b.call(aten::mul, {y, factors});
  y->replaceAllUsesWith(changed);
  random->node()->replaceInput(0, y);
  changed->node()->replaceInput(0, y);
}

}  // namespace

void roundOtherwise(Graph& graph, DType precision, int way) {
  constexpr double kFrequencies[kWaysToRound] = {37, 61, 89, 113, 151, 197};
  const double least = unitOf(precision);
  std::vector<Node*> nodes;
  for (Node* n : graph.block()->nodes())
    if (n->outputCount() == 1 && n->output()->type()->isTensor()) nodes.push_back(n);
  for (Node* n : nodes)
    if (const double unit = unitOfWeights(n); unit != 0)
      changeResult(graph, n, std::max(unit, least), kFrequencies[way]);
}

}  // namespace tscompile
