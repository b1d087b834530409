// Contexts that change nothing but gradients and what a profiler shows go, so that they cut no engine in two, and those
// of autocast, whose conversions are in the graph:
//
//   %c : __torch__.torch.autograd.grad_mode.no_grad = prim::CreateObject()
//    = prim::SetAttr[name="prev"](%c, %false)          →
//   %n : NoneType = prim::Enter(%c)
//   %y : Tensor = aten::relu(%x)                              %y : Tensor = aten::relu(%x)
//   %t : Tensor = prim::Exit(%c)
//
// So do operators that mark a tensor for gradients and hand it on: exporters leave one behind each torch.tensor().
//
//   %d : Tensor = aten::detach_(%x)   →   (nothing, %x for %d)
//
// And those that give a tensor what it has: `p.data = p.data.to(device)`, on one device.
//
//   %d : Tensor = aten::shallow_copy_data_(%x, %x)   →   (nothing, %x for %d)
#include "ir/analysis/context_kind.h"
#include "ir/values/aten.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <vector>

namespace tscompile {
namespace {

// Whether somebody may ask in what mode the graph runs.
bool asksForMode(const Graph& graph) {
  static const Symbol kAsking[] = {aten::is_grad_enabled, sym::CallMethod, sym::CallFunction, sym::fork};
  return std::ranges::any_of(kAsking, [&](Symbol kind) { return graph.kinds().count(kind) > 0; });
}

// What is done to an object that is only entered and left; empty if there is more to it.
std::vector<Node*> stepsOf(const Value* object) {
  std::vector<Node*> steps;
  for (const Use& u : object->uses()) {
    const Symbol kind = u.user->kind();
    const bool isStep = kind == sym::Enter || kind == sym::Exit || (kind == sym::SetAttr && u.index() == 0);
    if (!isStep || std::ranges::any_of(u.user->outputs(), [](const Value* v) { return v->hasUses(); })) return {};
    steps.push_back(u.user);
  }
  return steps;
}

// Whether it hands on its argument itself, and what it does to it is nothing, or of gradients alone.
bool handsOn(const Node* n, GraphFacts& facts) {
  static const Symbol kDetach = Symbol::of("aten::detach_"), kRequire = Symbol::of("aten::requires_grad_"),
                      kData = Symbol::of("aten::shallow_copy_data_");
  if (n->outputCount() != 1 || n->inputCount() == 0) return false;
  if (n->kind() == kData) return n->inputCount() == 2 && n->input(0) == n->input(1);
  if (n->kind() == kDetach) return true;
  const DType dtype = facts.dtype(n->input(0));  // integers are refused
  return n->kind() == kRequire && dtype != DType::Undefined && !isIntegral(dtype, true);
}

}  // namespace

bool dropContexts(Graph& graph, RewriteContext& context) {
  std::vector<Node*> gone;
  const bool asks = asksForMode(graph);
  forEachNode(graph, [&](Node* n) {
    if (handsOn(n, context.facts)) {
      n->output()->replaceAllUsesWith(n->input(0));
      gone.push_back(n);
    }
    if (n->kind() != sym::CreateObject || !n->output()->type()->is(TypeKind::Class)) return;
    const ContextKind kind = contextKindOf(n->output()->type()->name());
    if (kind == ContextKind::Other || (asks && kind == ContextKind::Gradients)) return;
    const std::vector<Node*> steps = stepsOf(n->output());
    if (steps.empty()) return;
    gone.insert(gone.end(), steps.begin(), steps.end());
    gone.push_back(n);
  });
  for (Node* n : gone) n->destroy();
  if (!gone.empty()) context.facts.refresh();
  return !gone.empty();
}

}  // namespace tscompile
