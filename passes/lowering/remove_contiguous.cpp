// Removes aten::contiguous where nobody can tell: no node asks later for the strides of the value or of something made
// from it, no memory is written that it may share or not, or something made from it, and the caller gets none of it.
#include "ir/values/aten.h"
#include "passes/rewrite/origins.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// Values whose memory the caller may get, as a result or in something that is written.
Origins memoryOfCallers(Graph& graph, GraphFacts& facts) {
  Origins origins(graph, facts, [](const Node* n, GraphFacts& f) { return f.isFresh(n); });
  origins.addInputs(graph.returnNode());
  forEachNode(graph, [&](Node* n) {
    if (!n->hasBlocks() && !facts.isPure(n)) origins.addInputs(n);
  });
  return origins;
}

// Values that are views or copies by how they lie, or from which such are made, which somebody writes to.
Origins sharedByOrder(Graph& graph, GraphFacts& facts) {
  Origins origins(graph, facts, [](const Node* n, GraphFacts& f) { return f.setsStrides(n); });
  forEachNode(graph, [&](Node* n) {
    if (isViewByOrder(n) && facts.isWritten(n->output())) origins.addInputs(n);
  });
  return origins;
}

// Whether PyTorch takes the memory format for certain: 0 and 1 fit all tensors, 2 and 3 those of 4 and 5 dimensions.
bool fits(const Node* n, GraphFacts& facts) {
  const std::optional<int64_t> format = facts.integer(n->input(1));
  if (format == 0 || format == 1) return true;
  const std::optional<size_t> rank = facts.rank(n->input(0));
  return (format == 2 && rank == 4) || (format == 3 && rank == 5);
}

}  // namespace

bool removeContiguous(Graph& graph, RewriteContext& context) {
  std::vector<Node*> found;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == aten::contiguous && n->inputCount() == 2 && n->outputCount() == 1) found.push_back(n);
  });
  if (found.empty()) return false;
  Origins strides = valuesThatAreSeen(graph, context.facts), returned = memoryOfCallers(graph, context.facts),
          shared = sharedByOrder(graph, context.facts);
  bool changed = false;
  for (Node* n : found) {
    Value *from = n->output(), *to = n->input(0);
    if (strides.contains(from) || returned.contains(from) || shared.contains(from)) continue;
    if (!fits(n, context.facts)) continue;
    if (context.facts.isWritten(from) || context.facts.isWritten(to)) continue;
    from->replaceAllUsesWith(to);
    n->destroy();
    changed = true;
  }
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
