// Takes the sizes out of the types of all values. Traces write down those of their example; a graph that is to run with
// other ones must not be simplified by them.
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

// The same dtype and rank.
TypePtr withoutSizes(TypePtr type) {
  if (!type->isTensor() || !type->tensor().hasRank) return type;
  TensorFacts facts = type->tensor();
  for (int64_t& size : facts.sizes) size = kUnknownSize;
  facts.hasStrides = false;
  facts.strides = {};
  return tensorType(facts);
}

bool forget(Value* value) {
  // The sizes of a constant are what they are.
  if (value->node() && value->node()->kind() == sym::Constant) return false;
  TypePtr type = withoutSizes(value->type());
  if (type == value->type()) return false;
  value->setType(type);
  return true;
}

}  // namespace

bool forgetSizes(Graph& graph, RewriteContext&) {
  bool changed = false;
  for (Value* v : graph.inputs()) changed |= forget(v);
  forEachNode(graph, [&](Node* n) {
    for (Value* v : n->outputs()) changed |= forget(v);
    for (Block* b : n->blocks())
      for (Value* v : b->parameters()) changed |= forget(v);
  });
  return changed;
}

}  // namespace tscompile
