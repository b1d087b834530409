// Removes what profiling leaves in a graph: nodes that hand on their inputs.
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

namespace tscompile {
namespace {

const Symbol kGuard = Symbol::of("prim::Guard");
const Symbol kProfile = Symbol::of("prim::profile");
const Symbol kProfileValue = Symbol::of("prim::profile_ivalue");
const Symbol kTypeCheck = Symbol::of("prim::TypeCheck");
const Symbol kGradCheck = Symbol::of("prim::RequiresGradCheck");
const Symbol kUncheckedUnwrap = Symbol::of("prim::unchecked_unwrap_optional");

// How many outputs are the inputs of the same position; the others must have no uses. Nothing: the node stays.
std::optional<size_t> handedOn(const Node* n) {
  if (n->kind() == kGuard || n->kind() == kProfile || n->kind() == kProfileValue) {
    if (n->outputCount() > n->inputCount() || n->hasBlocks()) return std::nullopt;
    return n->outputCount();
  }
  // The last output says whether the types are as expected.
  if (n->kind() == kTypeCheck || n->kind() == kGradCheck) {
    if (n->outputCount() != n->inputCount() + 1 || n->outputs().back()->hasUses()) return std::nullopt;
    return n->inputCount();
  }
  if (n->kind() == sym::unchecked_cast || n->kind() == kUncheckedUnwrap) {
    if (n->inputCount() != 1 || n->outputCount() != 1) return std::nullopt;
    if (!isSubtype(n->input(0)->type(), withoutRefinement(n->output()->type()))) return std::nullopt;
    return 1;
  }
  return std::nullopt;
}

}  // namespace

bool removeGuards(Graph& graph, RewriteContext& context) {
  std::vector<Node*> gone;
  forEachNode(graph, [&](Node* n) {
    std::optional<size_t> count = handedOn(n);
    if (!count) return;
    for (size_t i = 0; i < *count; ++i) replaceValue(n->output(i), n->input(i));
    gone.push_back(n);
  });
  for (Node* n : gone) n->destroy();
  if (!gone.empty()) context.facts.refresh();
  return !gone.empty();
}

}  // namespace tscompile
