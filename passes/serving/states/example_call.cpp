#include "passes/serving/states/example_call.h"

#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"
#include "passes/serving/states/state_trials.h"

#include <limits>
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

namespace {

// A row for each token shows what is up to it, one row all up to the last one.
Tensor exampleMask(const CallForms& forms, const Dims& sizes, int64_t tokens, int64_t before) {
  using Kind = MaskUse::Kind;
  Tensor t = Tensor::zeros(forms.use.dtype, sizes);
  const CallForm& form = forms.mask;
  const bool hasRows = form.size() > 1 && form[form.size() - 2] == CallPart::Token;
  const bool hidesLater = forms.areOfPlaces() || hasRows;
  constexpr float kFar = -std::numeric_limits<float>::infinity();
  for (int64_t i = 0, columns = sizes.empty() ? 1 : sizes.back(); i < t.numel(); ++i) {
    const int64_t own = before + (hasRows ? i / columns % tokens : tokens - 1);
    const bool isShown = !hidesLater || i % columns <= own;
    const float number =
        forms.use.kind == Kind::Added ? (isShown ? 0 : kFar) : isShown == (forms.use.kind == Kind::Shown);
    if (t.dtype() == DType::Float32)
      t.data<float>()[i] = number;
    else if (t.dtype() == DType::Bool)
      t.data<bool>()[i] = number != 0;
    else
      t.data<int64_t>()[i] = static_cast<int64_t>(number);
  }
  return t;
}

}  // namespace

Tensor exampleInput(const Value* input, const CallForms& forms, int64_t texts, int64_t tokens, int64_t before) {
  const std::optional<ServingInput> role = roleByName(input);
  const Dims sizes = sizesOfInput(input, forms, texts, tokens, before);
  if (role == ServingInput::Mask) return exampleMask(forms, sizes, tokens, before);
  Tensor t = Tensor::zeros(DType::Int64, sizes);
  const bool isPlaces = role == ServingInput::Positions && t.rank() > 0 && t.sizes().back() == tokens;
  for (int64_t i = 0; i < t.numel(); ++i)
    if (role == ServingInput::Positions || isFirstPlace(input))
      t.data<int64_t>()[i] = before + (isPlaces ? i % tokens : 0);
  return t;
}

std::optional<bool> takesRow(const Graph& graph, const RunExample& run, const Graph* changed, CallForms forms) {
  constexpr int64_t kTokens = 5, kWords = 3;
  auto logits = [&](const CallForm& positions, int64_t step, int64_t lastId = 0) {
    forms.positions = positions;
    std::vector<IValue> inputs;
    for (const Value* v : graph.inputs()) {
      if (!v->type()->isTensor()) continue;
      Tensor t = exampleInput(v, forms, 1, kTokens);
      const std::optional<ServingInput> role = roleByName(v);
      for (int64_t i = 0; i < t.numel(); ++i)
        if (role == ServingInput::Positions)
          t.data<int64_t>()[i] *= step;
        else if (!role || role == ServingInput::Ids)
          t.data<int64_t>()[i] = i + 1 < t.numel() ? i % kWords : lastId;
      inputs.emplace_back(std::move(t));
    }
    const Tensor out = logitsOf(run(inputs, changed));
    std::vector<double> all;
    for (int64_t i = 0; out.defined() && i < out.numel(); ++i) all.push_back(out.real(i));
    return all;
  };
  const CallForm row{CallPart::Token}, text{CallPart::Text, CallPart::Token};
  const std::vector<double> ofRow = logits(row, 1), ofText = logits(text, 1);
  if (ofRow.empty() || !areNear(ofText, ofText) || areNear(ofRow, ofText)) return false;  // NaN is near nothing
  const bool rowCounts = !areNear(ofRow, logits(row, 2)), textCounts = !areNear(ofText, logits(text, 2));
  if (!rowCounts || !textCounts) return rowCounts;
  // A decoder hides later tokens.
  auto hidesLater = [&](const CallForm& positions, std::vector<double> first) {
    std::vector<double> other = logits(positions, 1, 1);
    first.resize(first.size() / kTokens), other.resize(other.size() / kTokens);
    return areNear(first, other, kRounding);
  };
  const bool rowHides = hidesLater(row, ofRow);
  return rowHides == hidesLater(text, ofText) ? std::nullopt : std::optional(rowHides);
}

ShapeOptions knownOfCall(const Graph& graph, const CallForms& forms, int64_t texts, int64_t tokens) {
  ShapeOptions options;
  for (const Value* v : graph.inputs()) {
    std::optional<SymbolicValue>& known = options.inputs.emplace_back();
    if (v->type()->isTensor())
      known = symbolicTensor(roleByName(v) == ServingInput::Mask ? forms.use.dtype : DType::Int64,
                             sizesOfInput(v, forms, texts, tokens, kUnknownSize));
  }
  options.known = [](const Value* v) -> std::optional<SymbolicValue> {
    const bool isAttribute = v->node() && v->node()->kind() == sym::GetAttr && v->type()->isTensor();
    if (!isAttribute || !v->type()->tensor().hasRank) return std::nullopt;
    return symbolicTensor(v->type()->tensor().dtype, v->type()->tensor().sizes);
  };
  return options;
}

}  // namespace tscompile
