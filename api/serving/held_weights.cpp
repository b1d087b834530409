#include "api/serving/held_weights.h"

#include "ir/values/literal.h"
#include "ir/values/symbol.h"

namespace tscompile {

std::vector<Tensor> heldWeights(const Graph& graph) {
  std::vector<Tensor> weights;
  for (const Node* n : graph.block()->nodes()) {
    const IValue* value = n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
    if (value && value->isTensor() && value->toTensor().defined()) weights.push_back(value->toTensor());
  }
  return weights;
}

bool areHalf(std::span<const Tensor> weights) {
  int64_t half = 0, all = 0;
  for (const Tensor& t : weights) {
    if (t.rank() < 2 || !isFloating(t.dtype())) continue;
    all += t.numel();
    if (t.dtype() == DType::Float16 || t.dtype() == DType::BFloat16) half += t.numel();
  }
  return 2 * half > all;
}

}  // namespace tscompile
