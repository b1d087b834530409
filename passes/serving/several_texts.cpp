#include "passes/serving/several_texts.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

// Inputs of ids, or whose names say what they are, with a row for each text.
std::vector<Value*> inputsOfTexts(const Graph& graph, int64_t texts) {
  std::vector<Value*> out;
  bool hasIds = false;
  for (Value* v : graph.inputs()) {
    if (!v->type()->isTensor()) continue;
    const TensorFacts& f = v->type()->tensor();
    const std::optional<ServingInput> role = roleByName(v);
    if (!role && hasIds) continue;
    hasIds = hasIds || !role || role == ServingInput::Ids;
    if (f.hasRank && !f.sizes.empty() && f.sizes[0] == texts) out.push_back(v);
  }
  return out;
}

// In all rows of an input.
Value* repeated(Value* row, Builder& b, int64_t texts) {
  TensorFacts all = row->type()->tensor();
  std::vector<Value*> sizes(all.sizes.size(), b.constant(IValue(int64_t{-1})));
  all.sizes[0] = texts, all.strides = {};
  sizes[0] = b.constant(IValue(texts));
  return b.call(aten::expand, {row, b.list(sizes, types().integer), b.constant(IValue(false))}, tensorType(all));
}

// In the last row, behind zeros.
Value* lastOf(Value* row, Builder& b, int64_t texts) {
  TensorFacts all = row->type()->tensor();
  all.sizes[0] = texts, all.strides = {};
  Value* none = b.constant(IValue());
  Value* zeros = b.call(aten::zeros_like, {row, none, none, none, none, none}, row->type());
  Value* parts[] = {repeated(zeros, b, texts - 1), row};
  return b.call(aten::cat, {b.list(parts, types().tensor), b.constant(IValue(0))}, tensorType(all));
}

bool serveOneText(Graph& graph, bool isLast) {
  const int64_t texts = fixedTexts(graph);
  Value* logits = logitsOf(graph);
  const TensorFacts* made = logits && logits->node() ? &logits->type()->tensor() : nullptr;
  if (texts == 0 || !made || !made->hasRank || made->sizes.size() < 2 || made->sizes[0] != texts) return false;
  Builder b(graph, graph.block()->first());
  for (Value* v : inputsOfTexts(graph, texts)) {
    const bool isBeside = isLast && roleByName(v).value_or(ServingInput::Ids) == ServingInput::Ids;
    TensorFacts one = v->type()->tensor();
    one.sizes[0] = 1, one.strides = {};
    Value* row = graph.addInput(tensorType(one));
    v->replaceAllUsesWith(isBeside ? lastOf(row, b, texts) : repeated(row, b, texts));
    row->replaceAllUsesWith(v);
    v->setType(row->type());
    graph.block()->removeParameter(graph.inputs().size() - 1);
  }
  b.setPointAfter(logits->node());
  TensorFacts one = *made;
  one.sizes[0] = 1, one.strides = {};
  const int64_t place = isLast ? texts - 1 : 0;
  Value* row = b.call(
      aten::slice,
      {logits, b.constant(IValue(0)), b.constant(IValue(place)), b.constant(IValue(place + 1)), b.constant(IValue(1))},
      tensorType(one));
  logits->replaceAllUsesWith(row);
  row->node()->replaceInput(0, logits);
  return true;
}

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

int64_t fixedTexts(const Graph& graph) {
  for (const Value* v : graph.inputs()) {
    const std::optional<ServingInput> role = roleByName(v);
    if (!v->type()->isTensor() || (role && role != ServingInput::Ids)) continue;
    const TensorFacts& f = v->type()->tensor();
    const bool isOpen = f.hasRank && f.sizes.size() == 2 && (f.sizes[1] < 0 || f.sizes[1] == 1);
    return isOpen && f.sizes[0] > 1 ? f.sizes[0] : 0;
  }
  return 0;
}

bool repeatText(Graph& graph) { return serveOneText(graph, false); }
bool putTextLast(Graph& graph) { return serveOneText(graph, true); }

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
