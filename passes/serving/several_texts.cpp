#include "passes/serving/several_texts.h"

#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/serving/entrance.h"
#include "passes/serving/input_roles.h"

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

bool repeatText(Graph& graph) {
  const int64_t texts = fixedTexts(graph);
  Value* logits = logitsOf(graph);
  const TensorFacts* made = logits && logits->node() ? &logits->type()->tensor() : nullptr;
  if (texts == 0 || !made || !made->hasRank || made->sizes.size() < 2 || made->sizes[0] != texts) return false;
  Builder b(graph, graph.block()->first());
  for (Value* v : inputsOfTexts(graph, texts)) {
    const TypePtr all = v->type();
    std::vector<Value*> sizes(all->tensor().sizes.size(), b.constant(IValue(int64_t{-1})));
    sizes[0] = b.constant(IValue(texts));
    Value *list = b.list(sizes, types().integer), *no = b.constant(IValue(false));
    Value* rows = b.call(aten::expand, {v, list, no}, all);
    v->replaceAllUsesWith(rows);
    rows->node()->replaceInput(0, v);
    TensorFacts one = all->tensor();
    one.sizes[0] = 1, one.strides = {};
    v->setType(tensorType(one));
  }
  b.setPointAfter(logits->node());
  TensorFacts one = *made;
  one.sizes[0] = 1, one.strides = {};
  Value *zero = b.constant(IValue(0)), *first = b.constant(IValue(1));
  Value* row = b.call(aten::slice, {logits, zero, zero, first, first}, tensorType(one));
  logits->replaceAllUsesWith(row);
  row->node()->replaceInput(0, logits);
  return true;
}

}  // namespace tscompile
