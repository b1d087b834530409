#include "passes/serving/forms/stacks.h"

#include "ir/analysis/alias.h"
#include "ir/graph/builder.h"
#include "ir/values/aten.h"
#include "passes/rewrite/facts.h"

#include <algorithm>
#include <map>
#include <optional>
#include <vector>

namespace tscompile {
namespace {

std::optional<int64_t> integerOf(const Value* v) {
  const IValue* known = GraphFacts::constant(v);
  return known && known->isInt() ? std::optional(known->toInt()) : std::nullopt;
}

const Node* nodeOf(const Value* v, Symbol kind) {
  const Node* n = v->node();
  return n && n->kind() == kind && n->inputCount() > 1 ? n : nullptr;
}

bool isView(const Node* n) { return n->kind() == aten::view || n->kind() == aten::reshape; }

// The dimension that a list of ones has -1 in.
std::optional<int64_t> countedDim(const Value* list) {
  const IValue* known = GraphFacts::constant(list);
  if (!known || !known->isList()) return std::nullopt;
  std::optional<int64_t> dim;
  const auto& items = known->toList().items;
  for (size_t i = 0; i < items.size(); ++i) {
    if (!items[i].isInt() || (items[i].toInt() != 1 && (items[i].toInt() != -1 || dim))) return std::nullopt;
    if (items[i].toInt() == -1) dim = static_cast<int64_t>(i);
  }
  return dim;
}

struct Put {
  Value *stack, *part;
  int64_t dim, place;
};

bool hasOneType(const Value* a, const Value* b) {
  const TensorFacts &f = a->type()->tensor(), &g = b->type()->tensor();
  return f.dtype != DType::Undefined && f.dtype == g.dtype && f.hasRank && g.hasRank;
}

std::optional<Put> putBy(const Node* where) {
  if (where->kind() != aten::where || where->inputCount() != 3) return std::nullopt;
  const Node *eq = nodeOf(where->input(0), aten::eq), *expand = nodeOf(where->input(1), aten::expand);
  const Node* view = eq ? eq->input(0)->node() : nullptr;
  const Node* lifted = expand ? nodeOf(expand->input(0), aten::unsqueeze) : nullptr;
  if (!view || !isView(view) || !lifted) return std::nullopt;
  const Node* count = nodeOf(view->input(0), aten::arange);
  const std::optional<int64_t> place = integerOf(eq->input(1)), dim = countedDim(view->input(1));
  constexpr size_t kWithStep = 7;  // arange(start, end, step, ..)
  const bool isCount =
      count && count->inputCount() == kWithStep && integerOf(count->input(0)) == 0 && integerOf(count->input(2)) == 1;
  if (!isCount || !place || *place < 0 || !dim || integerOf(lifted->input(1)) != dim) return std::nullopt;
  const Put put{where->input(2), lifted->input(0), *dim, *place};
  const TensorFacts &all = where->output()->type()->tensor(), &stack = put.stack->type()->tensor();
  const bool isWhole = all.hasRank && hasOneType(put.stack, put.part) && std::ranges::equal(all.sizes, stack.sizes) &&
                       stack.sizes.size() > static_cast<size_t>(*dim) &&
                       put.part->type()->tensor().sizes.size() + 1 == stack.sizes.size();
  return isWhole ? std::optional(put) : std::nullopt;
}

// An input, or an attribute, or a part of one.
bool isStack(const Value* v) {
  while (v->node() && v->node()->kind() == aten::select) v = v->node()->input(0);
  return !v->node() || v->node()->kind() == sym::GetAttr;
}

}  // namespace

void selectUnbound(Graph& graph) {
  std::vector<Node*> all;
  for (Node* n : graph.block()->nodes())
    if (n->kind() == sym::ListUnpack && n->input(0)->node() && n->input(0)->node()->kind() == aten::unbind)
      all.push_back(n);
  for (Node* n : all) {  // in their order: what is selected may be unbound again
    Node* list = n->input(0)->node();
    if (list->inputCount() != 2 || list->output()->useCount() != 1) continue;
    if (!integerOf(list->input(1)) || !isStack(list->input(0))) continue;
    Builder b(graph, n);
    for (size_t i = 0; i < n->outputCount(); ++i)
      n->output(i)->replaceAllUsesWith(
          b.call(aten::select, {list->input(0), list->input(1), b.constant(IValue(static_cast<int64_t>(i)))},
                 n->output(i)->type()));
    n->destroy();
    list->destroy();
  }
}

void takePartsAsPut(Graph& graph, const OpRegistry& registry) {
  const AliasAnalysis alias(graph, registry);
  std::map<const Value*, Put> puts;
  std::vector<Node*> taken;
  for (Node* n : graph.block()->nodes()) {
    if (!alias.writes(n).empty()) break;
    if (const std::optional<Put> put = putBy(n)) puts.emplace(n->output(), *put);
    if (n->kind() == aten::select && puts.contains(n->input(0))) taken.push_back(n);
  }
  for (Node* n : taken) {
    const std::optional<int64_t> dim = integerOf(n->input(1)), place = integerOf(n->input(2));
    Value* stack = n->input(0);
    Value* part = nullptr;
    for (auto put = puts.find(stack); !part && put != puts.end(); put = puts.find(stack)) {
      if (dim != put->second.dim || !place || *place < 0) break;
      if (put->second.place == *place)
        part = put->second.part;
      else
        stack = put->second.stack;
    }
    if (part) {
      n->output()->replaceAllUsesWith(part);
      n->destroy();
    } else {
      n->replaceInput(0, stack);
    }
  }
}

}  // namespace tscompile
