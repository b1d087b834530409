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
  Value* row = b.call(aten::slice,
                      {logits, b.constant(IValue(0)), b.constant(IValue(place)), b.constant(IValue(place + 1)),
                       b.constant(IValue(1))},
                      tensorType(one));
  logits->replaceAllUsesWith(row);
  row->node()->replaceInput(0, logits);
  return true;
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

}  // namespace tscompile
