#include "ir/operators/private_writes.h"

#include "ir/graph/graph.h"

namespace tscompile {

bool writesPrivately(const Node& node, const Operator& op) {
  if (!op.isImplemented() || !op.def().hasSessionConverter()) return false;
  const std::vector<Argument>& arguments = op.schema().arguments;
  if (arguments.size() != node.inputCount()) return false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].isWritten()) continue;
    const Value* v = node.input(i);
    if (v->node() || v->block()->owner() || v->useCount() != 1) return false;
  }
  return true;
}

bool hasOnlyPrivateWrites(const Graph& graph, const OpRegistry& registry) {
  bool only = true;
  forEachNode(graph, [&](const Node* n) {
    if (!only || n->hasBlocks()) return;
    if (n->subgraph()) {
      only = false;
      return;
    }
    const Operator* op = registry.resolve(*n);
    if (op && op->schema().isMutable()) only = writesPrivately(*n, *op);
    if (op && op->trains(*n)) only = false;
  });
  return only;
}

}  // namespace tscompile
