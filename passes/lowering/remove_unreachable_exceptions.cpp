// Removes assertions that cannot fire: a prim::If whose condition is known, with a raise in the branch not taken.
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <unordered_set>

namespace tscompile {
namespace {

// From constants, types and shapes.
std::optional<bool> known(const Value* condition, GraphFacts& facts) {
  if (std::optional<bool> b = facts.boolean(condition)) return b;
  const SymbolicValue& s = facts.symbolic(condition);
  return s.constant && s.constant->isBool() ? std::optional(s.constant->toBool()) : std::nullopt;
}

bool removeOnce(Graph& graph, RewriteContext& context) {
  std::unordered_set<const Block*> raising;  // with a raise inside, at any depth
  std::vector<Node*> branches;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::RaiseException)
      for (const Block* b = n->block(); b && raising.insert(b).second;) b = b->parent();
    if (n->kind() == sym::If) branches.push_back(n);
  });
  // What is known holds for the graph as it is, so all questions come before the first edit.
  std::vector<std::pair<Node*, size_t>> proven;
  for (Node* n : branches) {
    if (!raising.contains(n->block(0)) && !raising.contains(n->block(1))) continue;
    std::optional<bool> condition = known(n->input(0), context.facts);
    if (!condition) continue;
    size_t taken = *condition ? 0 : 1;
    if (raising.contains(n->block(1 - taken))) proven.emplace_back(n, taken);
  }
  // Inner ones first: the outer ones may take them along.
  for (size_t i = proven.size(); i-- > 0;) inlineBranch(proven[i].first, proven[i].second);
  return !proven.empty();
}

}  // namespace

bool removeUnreachableExceptions(Graph& graph, RewriteContext& context) {
  bool changed = false;
  // Less branches, more known.
  while (removeOnce(graph, context)) {
    changed = true;
    context.facts.refresh();
  }
  return changed;
}

}  // namespace tscompile
