#include "api/support/training.h"

#include "ir/graph/node_text.h"
#include "ir/support/text.h"

#include <fmt/core.h>

namespace tscompile {
namespace {

bool isTrue(const Value* v) {
  const Node* n = v->node();
  const IValue* value = n && n->kind() == sym::Constant ? n->attributeValue(sym::value) : nullptr;
  return value && value->isBool() && value->toBool();
}

// What training does there; empty: nothing.
std::string_view trainingOf(const Node& n, const Operator& op) {
  auto input = [&](std::string_view name) -> const Value* {
    const std::optional<size_t> i = op.schema().argumentIndex(name);
    return i && *i < n.inputCount() ? n.input(*i) : nullptr;
  };
  const Value* on = input("training");
  if (!on) on = input("train");
  if (!on || !isTrue(on)) return "";
  const Value* statistics = input("running_mean");
  if (statistics) return statistics->type()->is(TypeKind::None) ? "" : "normalizes by each batch alone";
  return op.drawsRandom(n) ? "drops values at random" : "";
}

}  // namespace

void warnOfTraining(const Graph& graph, const OpRegistry& registry, Diagnostics& diagnostics) {
  const Node* first = nullptr;
  std::string_view what;
  size_t others = 0;
  forEachNode(graph, [&](const Node* n) {
    const Operator* op = registry.resolve(*n);
    const std::string_view found = op ? trainingOf(*n, *op) : "";
    if (found.empty()) return;
    if (first)
      ++others;
    else
      first = n, what = found;
  });
  if (!first) return;
  diagnostics
      .warning(first->range, fmt::format("the model is in training: {} {}{}", first->kind().text(), what,
                                         others ? fmt::format(" (and {} more)", counted(others, "node")) : ""))
      .note("model.eval() before the model is traced, scripted or exported leaves training");
}

}  // namespace tscompile
