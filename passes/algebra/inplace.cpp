// Elementwise operators that write their result over an input which nobody reads any more.
#include "passes/algebra/node_rewriting.h"
#include "passes/rewrite/destroy_handler.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

// Whether the result of an elementwise node has the dtype and the sizes of its first input.
bool hasFormOfInput(const Node* n, GraphFacts& facts) {
  const Value *x = n->input(0), *y = n->output();
  if (facts.dtype(x) == DType::Undefined || facts.dtype(x) != facts.dtype(y)) return false;
  bool alone = std::none_of(n->inputs().begin() + 1, n->inputs().end(), [x](const Use& u) {
    return u.value != x && AliasAnalysis::canRefer(u.value->type()) && !GraphFacts::isNone(u.value);
  });
  return alone || (facts.sizes(x) && facts.sizes(x) == facts.sizes(y));
}

// The operator of the same name that writes over its first input, if the kernel reads each element before it writes it.
Symbol inPlaceKind(const Node* n, GraphFacts& facts) {
  const Operator* op = facts.resolve(n);
  if (!op || !op->isImplemented() || op->isInPlaceVariant() || op->def().inplace != InPlace::Direct) return Symbol();
  Symbol kind = Symbol::of(std::string(n->kind().text()) + "_");
  std::vector<TypePtr> types;
  for (const Use& u : n->inputs()) types.push_back(u.value->type());
  const Operator* variant = facts.registry().resolve(kind, types);
  return variant && variant->isInPlaceVariant() ? kind : Symbol();
}

Replacement overwrite(Node* n, RewriteContext& context) {
  GraphFacts& facts = context.facts;
  if (!isElementwise(n, facts)) return {};
  if (n->outputCount() != 1 || n->inputCount() == 0 || !n->input(0)->type()->isTensor() || !facts.isPure(n)) return {};
  // Of a part the result would have other strides than new memory.
  if (facts.isSeen(n->output()) || !facts.destroyHandler().isWhole(n->input(0)) || !hasFormOfInput(n, facts)) return {};
  Symbol kind = inPlaceKind(n, facts);
  if (kind.empty() || !facts.destroyHandler().schedule(n, 0, true)) return {};
  facts.destroyHandler().destroyed(n, 0);
  n->setKind(kind);
  return Replacement::done();
}

}  // namespace

NodeRewrite inplaceElementwise() {
  NodeRewrite rewrite;
  rewrite.name = "inplace_elementwise";
  rewrite.kinds = kElementwiseKinds;
  rewrite.apply = overwrite;
  return rewrite;
}

}  // namespace tscompile
