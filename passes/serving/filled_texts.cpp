#include "passes/serving/filled_texts.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

constexpr int64_t kFewTokens = 8;  // what is for fewer is for so many alone

// ids [batch, tokens], and masks and positions that have as many tokens; nothing if some have them elsewhere.
std::vector<Value*> inputsOfTokens(const Graph& graph) {
  std::vector<Value*> out;
  for (Value* v : graph.inputs()) {
    const bool isTensor = v->type()->isTensor() && v->type()->tensor().hasRank;
    const std::optional<ServingInput> role = isTensor ? roleByName(v) : std::nullopt;
    if (!isTensor || (!role && !out.empty())) continue;
    const Dims& sizes = v->type()->tensor().sizes;
    const bool isIds = role.value_or(ServingInput::Ids) == ServingInput::Ids;
    if (sizes.size() > 2 || sizes.empty() || (isIds && sizes.size() != 2) || sizes.back() < kFewTokens ||
        (!out.empty() && sizes.back() != out.front()->type()->tensor().sizes.back()))
      return {};
    isIds ? void(out.insert(out.begin(), v)) : out.push_back(v);
  }
  return out;
}

// cat([row, zeros[:, tokens:] + number], -1)
Value* filled(Value* row, Value* tokens, int64_t number, const TensorFacts& all, Builder& b) {
  const auto dim = static_cast<int64_t>(all.sizes.size()) - 1;
  Dims sizes = all.sizes;
  if (sizes.front() < 0) sizes.front() = 1;
  Value* zeros = b.constant(IValue(Tensor::zeros(all.dtype == DType::Undefined ? DType::Int64 : all.dtype, sizes)));
  Value *at = b.constant(IValue(dim)), *end = b.constant(IValue(INT64_MAX)), *one = b.constant(IValue(1));
  Value* rest = b.call(aten::slice, {zeros, at, tokens, end, one}, types().tensor);
  if (number != 0) rest = b.call(aten::add, {rest, b.constant(IValue(number)), one}, types().tensor);
  if (all.sizes.front() < 0 && dim > 0) {
    Value* sizesOfRow[] = {b.call(aten::size, {row, b.constant(IValue(0))}, types().integer), b.constant(IValue(-1))};
    rest = b.call(aten::expand, {rest, b.list(sizesOfRow, types().integer), b.constant(IValue(false))}, types().tensor);
  }
  Value* parts[] = {row, rest};
  return b.call(aten::cat, {b.list(parts, types().tensor), at}, tensorType(all));
}

}  // namespace

int64_t fillTexts(Graph& graph, int64_t id) {
  const std::vector<Value*> inputs = inputsOfTokens(graph);
  Value* logits = logitsOf(graph);
  if (inputs.empty() || !logits || !logits->node()) return 0;
  const int64_t most = inputs.front()->type()->tensor().sizes.back();
  const TensorFacts made = logits->type()->tensor();
  if (!made.hasRank || made.sizes.size() != 3 || made.sizes[1] != most) return 0;
  Builder b(graph, graph.block()->first());
  Value* tokens = nullptr;
  for (Value* v : inputs) {
    const TensorFacts all = v->type()->tensor();
    TensorFacts some = all;
    some.sizes.back() = kUnknownSize, some.strides = {};
    Value* row = graph.addInput(tensorType(some));
    if (!tokens) tokens = b.call(aten::size, {row, b.constant(IValue(1))}, types().integer);
    v->replaceAllUsesWith(filled(row, tokens, v == inputs.front() ? id : 0, all, b));
    row->replaceAllUsesWith(v);
    v->setType(row->type());
    graph.block()->removeParameter(graph.inputs().size() - 1);
  }
  b.setPointAfter(logits->node());
  TensorFacts some = made;
  some.sizes[1] = kUnknownSize, some.strides = {};
  Value *dim = b.constant(IValue(1)), *first = b.constant(IValue(0));
  Value* row = b.call(aten::slice, {logits, dim, first, tokens, dim}, tensorType(some));
  logits->replaceAllUsesWith(row);
  row->node()->replaceInput(0, logits);
  return most;
}

}  // namespace tscompile
