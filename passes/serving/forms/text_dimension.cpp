#include "passes/serving/forms/text_dimension.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/serving/entrance.h"
#include "passes/serving/forms/returned_logits.h"
#include "passes/serving/input_roles.h"

#include <algorithm>
#include <vector>

namespace tscompile {
namespace {

// One input of ids, and others whose names say what they are; nothing if there are other ones.
std::vector<Value*> inputsOfTokens(const Graph& graph) {
  std::vector<Value*> out;
  size_t ids = 0;
  for (Value* v : graph.inputs()) {
    if (v->type()->is(TypeKind::Class)) continue;
    if (!v->type()->isTensor()) return {};
    ids += roleByName(v).value_or(ServingInput::Ids) == ServingInput::Ids;
    out.push_back(v);
  }
  return ids == 1 ? out : std::vector<Value*>();
}

bool isRow(const Value* v) {
  const TensorFacts& f = v->type()->tensor();
  return f.hasRank && f.sizes.size() == 1 && f.sizes[0] != 1;
}

}  // namespace

bool lacksTextDimension(const Graph& graph) {
  const std::vector<Value*> inputs = inputsOfTokens(graph);
  return !inputs.empty() && std::ranges::all_of(inputs, isRow);
}

bool addTextDimension(Graph& graph, const OpRegistry&) {
  const std::vector<Value*> inputs = inputsOfTokens(graph);
  Value* logits = logitsOf(graph);
  auto mayBeRow = [](const Value* v) { return isRow(v) || !v->type()->tensor().hasRank; };
  if (inputs.empty() || !std::ranges::all_of(inputs, mayBeRow) || !logits || !logits->node()) return false;
  Builder b(graph, graph.block()->first());
  Value* zero = b.constant(IValue(0));
  for (Value* v : inputs) {
    TensorFacts text = v->type()->tensor();
    text.sizes = Dims{1, text.hasRank ? text.sizes[0] : kUnknownSize};
    text.hasRank = true, text.strides = {};
    const TypePtr own = v->type();
    v->setType(tensorType(text));
    Value* row = b.call(aten::select, {v, zero, zero}, own);
    v->replaceAllUsesWith(row);
    row->node()->replaceInput(0, v);
  }
  b.setPointAfter(logits->node());
  TensorFacts texts = logits->type()->tensor();
  if (texts.hasRank) texts.sizes.insert(0, 1);
  texts.strides = {};
  Value* all = b.call(aten::unsqueeze, {logits, zero}, tensorType(texts));
  replaceReturned(graph, logits, all);
  return true;
}

}  // namespace tscompile
