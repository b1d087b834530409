#include "passes/serving/forms/pair_mask.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/serving/input_roles.h"

#include <algorithm>
#include <limits>

namespace tscompile {

MaskedInputs maskedInputs(const Graph& graph) {
  MaskedInputs found;
  for (Value* v : graph.inputs()) {
    if (v->type()->is(TypeKind::Class)) continue;
    const std::optional<ServingInput> role = roleByName(v);
    Value*& place = role == ServingInput::Mask        ? found.mask
                    : role == ServingInput::Positions ? found.positions
                                                      : found.ids;
    if (place || !v->type()->isTensor()) return {};
    place = v;
  }
  return found.ids && found.mask ? found : MaskedInputs();
}

std::vector<PairMaskForm> pairMaskForms(const Value* mask) {
  using Kind = PairMaskForm::Kind;
  const TensorFacts& known = mask->type()->tensor();
  std::vector<std::pair<Kind, DType>> kinds;
  auto add = [&](DType dtype, std::initializer_list<Kind> some) {
    if (known.dtype == DType::Undefined || known.dtype == dtype)
      for (Kind kind : some) kinds.emplace_back(kind, dtype);
  };
  add(DType::Bool, {Kind::Shown, Kind::Hidden});
  add(DType::Float32, {Kind::Added});
  for (DType number : {DType::Int64, DType::Int32, DType::Float32}) add(number, {Kind::Shown, Kind::Hidden});
  std::vector<PairMaskForm> forms;
  for (size_t rank : {size_t{2}, size_t{4}, size_t{3}})
    for (bool tokensFirst : {false, true})
      for (auto [kind, dtype] : kinds)
        if (!known.hasRank || known.sizes.size() == rank) forms.push_back({kind, dtype, rank, tokensFirst});
  return forms;
}

void makePairMask(Graph& graph, const MaskedInputs& inputs, const PairMaskForm& form) {
  Builder b(graph, graph.block()->first() ? graph.block()->first() : graph.returnNode());
  auto number = [&](int64_t n) { return b.constant(IValue(n)); };
  auto dtypeOf = [&](DType dtype) { return number(static_cast<int64_t>(dtype)); };
  const TypePtr integer = types().integer;
  Value *no = b.constant(IValue(false)), *none = b.constant(IValue());
  Value* tokens = b.call(aten::size, {inputs.ids, number(form.tokensFirst ? 0 : 1)}, integer);
  Value* const both[] = {tokens, tokens};
  Value* sizes = b.list(both, integer);
  Value* all = b.call(aten::ones, {sizes, dtypeOf(DType::Bool), none, none, none});
  Value* mask = b.call(aten::triu, {all, number(1)});
  if (form.kind == PairMaskForm::Kind::Shown) mask = b.call(aten::logical_not, {mask});
  if (form.kind == PairMaskForm::Kind::Added) {
    Value* zeros = b.call(aten::zeros, {sizes, dtypeOf(form.dtype), none, none, none});
    mask = b.call(aten::masked_fill, {zeros, mask, b.constant(IValue(-std::numeric_limits<double>::infinity()))});
  } else if (form.dtype != DType::Bool) {
    mask = b.call(aten::to, {mask, dtypeOf(form.dtype), no, no, none});
  }
  for (size_t rank = 2; rank < form.rank; ++rank) mask = b.call(aten::unsqueeze, {mask, number(0)});
  inputs.mask->replaceAllUsesWith(mask);
  const std::span<Value* const> parameters = graph.inputs();
  graph.block()->removeParameter(static_cast<size_t>(std::ranges::find(parameters, inputs.mask) - parameters.begin()));
}

}  // namespace tscompile
