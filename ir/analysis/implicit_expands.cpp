#include "ir/analysis/implicit_expands.h"

#include "ir/graph/text_graphs.h"

namespace tscompile {
namespace {

const Symbol kExpand = Symbol::of("aten::expand");

bool isImplicit(const Node& n) {
  if (n.kind() != kExpand || n.inputCount() != 3 || n.outputCount() != 1) return false;
  const Node* mark = n.input(2)->node();
  const IValue* known = mark && mark->kind() == sym::Constant ? mark->attributeValue(sym::value) : nullptr;
  return known && known->isBool() && known->toBool();
}

}  // namespace

void dropImplicitExpands(const ParsedText& text) {
  std::vector<Node*> found;
  forEachGraph(topGraphs(text), [&](const Graph& g) {
    if (g.kinds().count(kExpand) == 0) return;
    forEachNode(g, [&](Node* n) {
      if (isImplicit(*n)) found.push_back(n);
    });
  });
  for (Node* n : found) {
    n->output()->replaceAllUsesWith(n->input(0));
    n->destroy();
  }
}

}  // namespace tscompile
