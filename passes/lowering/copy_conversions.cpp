// Conversions whose results are written give tensors of their own, so that functionalise() can take the writes away.
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {

// A conversion gives its tensor itself where there is nothing to convert. Where there is, and the result is written, it
// is said as what always gives a new one:
//   %h = aten::to(%x, %half, %no, %no, %none)   ->   %h = aten::_to_copy(%x, %half, %none, %none, %none, %no, %none)
bool copyConversions(Graph& graph, RewriteContext& context) {
  GraphFacts& facts = context.facts;
  auto isWritten = [&](const Use& u) {
    const Operator* op = u.user->hasBlocks() || u.user->isReturn() ? nullptr : facts.resolve(u.user);
    return op && u.index() < op->schema().arguments.size() && op->schema().arguments[u.index()].isWritten();
  };
  bool changed = false;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() != aten::to || n->inputCount() != 5) return;
    bool isTarget = false;
    for (const Use& u : n->output()->uses()) isTarget |= isWritten(u);
    if (!isTarget) return;
    const Operator* op = facts.resolve(n);
    const DType from = facts.dtype(n->input(0)), to = facts.dtype(n->output());
    if (!op || op->overload() != "dtype" || from == DType::Undefined || to == DType::Undefined || from == to) return;
    const std::vector<Value*> given{n->input(0), n->input(1), n->input(2), n->input(4)};
    Value* none = context.before(n).constant(IValue(), types().none);
    n->removeAllInputs();
    n->setKind(Symbol::of("aten::_to_copy"));
    for (Value* v : {given[0], given[1], none, none, none, given[2], given[3]}) n->addInput(v);
    changed = true;
  });
  return changed;
}

}  // namespace tscompile
