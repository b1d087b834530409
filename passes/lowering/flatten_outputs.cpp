// A graph that returns one tuple or list of tensors returns the tensors instead. This changes what callers get, so it
// is for those who ask: engines have tensors for outputs, and no collections.
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {

bool flattenOutputs(Graph& graph, RewriteContext& context) {
  auto isCollection = [](const Node* n) {
    return n && (n->kind() == sym::TupleConstruct || n->kind() == sym::ListConstruct);
  };
  if (graph.outputs().size() != 1) return false;
  Node* n = graph.output(0)->node();
  if (!isCollection(n) || n->block() != graph.block() || context.facts.isWritten(n->output())) return false;
  std::vector<Value*> values;
  for (const Use& u : n->inputs()) values.push_back(u.value);
  if (!std::all_of(values.begin(), values.end(), [](const Value* v) { return v->type()->isTensor(); })) return false;
  graph.returnNode()->removeInput(0);
  for (Value* v : values) graph.addOutput(v);
  if (!n->output()->hasUses()) n->destroy();
  return true;
}

}  // namespace tscompile
