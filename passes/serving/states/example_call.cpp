#include "passes/serving/states/example_call.h"

#include "passes/serving/input_roles.h"

#include <optional>

namespace tscompile {

Dims sizesOfInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before) {
  const std::optional<ServingInput> role = roleByName(input);
  if (isFirstPlace(input)) return {};
  CallForm form = forms.ids;
  if (role == ServingInput::Positions) form = forms.positions;
  if (role == ServingInput::Mask) form = forms.mask;
  Dims own;
  for (CallPart part : form)
    own.push_back(part == CallPart::Text            ? texts
                  : part == CallPart::Token         ? tokens
                  : part == CallPart::Place         ? forms.places
                  : part == CallPart::TokenOrBefore ? (before == kUnknownSize ? kUnknownSize : tokens + before)
                                                    : 1);
  return own;
}

Tensor exampleInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before) {
  Tensor t = Tensor::zeros(DType::Int64, sizesOfInput(input, forms, texts, tokens, before));
  const std::optional<ServingInput> role = roleByName(input);
  const bool isPlaces = role == ServingInput::Positions && t.rank() > 0 && t.sizes().back() == tokens;
  for (int64_t i = 0; i < t.numel(); ++i)
    if (role == ServingInput::Mask)
      t.data<int64_t>()[i] = 1;
    else if (role == ServingInput::Positions || isFirstPlace(input))
      t.data<int64_t>()[i] = before + (isPlaces ? i % tokens : 0);
  return t;
}

ShapeOptions knownOfCall(const Graph& graph, const CallForms& forms, int64_t texts, int64_t tokens) {
  ShapeOptions options;
  for (const Value* v : graph.inputs()) {
    std::optional<SymbolicValue>& known = options.inputs.emplace_back();
    if (v->type()->isTensor())
      known = symbolicTensor(DType::Int64, sizesOfInput(v, forms, texts, tokens, kUnknownSize));
  }
  options.known = [](const Value* v) -> std::optional<SymbolicValue> {
    const bool isAttribute = v->node() && v->node()->kind() == sym::GetAttr && v->type()->isTensor();
    if (!isAttribute || !v->type()->tensor().hasRank) return std::nullopt;
    return symbolicTensor(v->type()->tensor().dtype, v->type()->tensor().sizes);
  };
  return options;
}

}  // namespace tscompile
