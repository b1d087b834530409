// Objects that a graph makes for itself are what is set in them:
//
//   %o : __torch__.Boxes = prim::CreateObject()
//    = prim::SetAttr[name="corners"](%o, %x)        →   %z : Tensor = aten::neg(%x)
//   %y : Tensor = prim::GetAttr[name="corners"](%o)
//   %z : Tensor = aten::neg(%y)
//
// where they are set in the block that makes them, and nobody else sees them.
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <map>
#include <vector>

namespace tscompile {
namespace {

// In the order in which they run: each with the node of the object's block that it is in.
using Accesses = std::vector<std::pair<Node*, Node*>>;

// Nothing if there is more to the object.
std::optional<Accesses> accessesOf(const Node* made) {
  Accesses accesses;
  for (const Use& u : made->output()->uses()) {
    Node* n = u.user;
    const IValue* name = n->attributeValue(sym::name);
    const bool sets = n->kind() == sym::SetAttr && n->inputCount() == 2 && n->block() == made->block();
    if (u.index() != 0 || !name || !name->isString() || (!sets && n->kind() != sym::GetAttr)) return std::nullopt;
    Node* around = n;
    while (around->block() != made->block()) around = around->block()->owner();
    accesses.emplace_back(around, n);
  }
  std::ranges::stable_sort(accesses, [](const auto& a, const auto& b) { return a.first->isBefore(b.first); });
  return accesses;
}

bool replaceByItsValues(Node* made) {
  const std::optional<Accesses> accesses = accessesOf(made);
  if (!accesses) return false;
  std::map<std::string, Value*, std::less<>> now;
  std::vector<std::pair<Value*, Value*>> read;
  for (const auto& [around, n] : *accesses) {
    Value*& value = now[n->attributeValue(sym::name)->toString()];
    if (n->kind() == sym::SetAttr) {
      value = n->input(1);
    } else {
      if (!value || !isSubtype(value->type(), withoutRefinement(n->output()->type()))) return false;
      read.emplace_back(n->output(), value);
    }
  }
  // A value may itself have been read of it.
  for (size_t i = 0; i < read.size(); ++i) {
    auto [output, value] = read[i];
    replaceValue(output, value);
    for (size_t k = i + 1; k < read.size(); ++k)
      if (read[k].second == output) read[k].second = value;
  }
  for (const auto& [around, n] : *accesses) n->destroy();
  made->destroy();
  return true;
}

}  // namespace

bool localObjects(Graph& graph, RewriteContext& context) {
  bool changed = false;
  for (Node* n : graph.nodesOf([](Symbol kind) { return kind == sym::CreateObject; })) changed |= replaceByItsValues(n);
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
