// Nodes that hold a graph become the nodes of that graph, so that they run in engines and freezing sees them; results
// that only a backward pass asks for go:
//
//   %y : Tensor = prim::DifferentiableGraph_0(%x)   →   %y : Tensor = aten::relu(%x)
//
// A fork hands its result on to who waits for it, be it by way of a list:
//
//   %f : Future[Tensor] = prim::fork_0(%x)              %v : Tensor = aten::relu(%x)
//   ...                                             →   %f : Future[Tensor] = prim::fork_0(%v)  # returns %v
//   %y : Tensor = aten::wait(%f)                        ...  # %v for %y
//
// What optimised graphs of PyTorch 1.13 and later say twice, once for the case that tensors are no longer as they were,
// is said once:
//
//   %t : Tensor, %same : bool = prim::RequiresGradCheck[types=[...]](%x)
//   %y : Tensor = prim::If(%same)
//     block0():                                       →   %y : Tensor = aten::relu(%t)
//       %a : Tensor = aten::relu(%t)
//       -> (%a)
//     block1():
//       %f : Function = prim::Constant[name="fallback_function", fallback=1]()
//       ...
#include "ir/graph/clone.h"
#include "ir/values/aten.h"
#include "passes/lowering/fallback_marks.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace tscompile {
namespace {

// Whether a graph only returns its argument.
bool handsOn(const Graph& graph) {
  return graph.inputs().size() == 1 && graph.outputs().size() == 1 && graph.output(0) == graph.input(0);
}

std::unique_ptr<Graph> handingOn(TypePtr type) {
  auto graph = std::make_unique<Graph>();
  graph->addOutput(graph->addInput(type));
  return graph;
}

bool isGroup(const Node* n) {
  static const Symbol kLazy = Symbol::of("prim::awaitable");  // whether it runs at all is not known
  const Graph* held = n->subgraph();
  if (!held || n->kind() == sym::Engine || n->kind() == kLazy || n->inputCount() != held->inputs().size()) return false;
  if (n->kind() == sym::fork) return n->outputCount() == 1 && held->outputs().size() == 1 && !handsOn(*held);
  return n->outputCount() == held->outputs().size() ||
         (n->kind() == sym::DifferentiableGraph && n->outputCount() < held->outputs().size());
}

// What was made of it.
std::vector<Node*> open(Node* group) {
  Graph& graph = *group->graph();
  const Graph& held = *group->subgraph();
  const bool marked = FallbackMarks::isMarked(group);
  ValueMap values;
  for (size_t i = 0; i < group->inputCount(); ++i) values[held.input(i)] = group->input(i);
  std::vector<Node*> made;
  for (const Node* n : held.block()->nodes()) {
    made.push_back(cloneNode(*n, graph, values));
    made.back()->insertBefore(group);
    if (marked) FallbackMarks::mark(made.back());
  }
  if (group->kind() == sym::fork) {
    Value* value = values.at(held.output(0));
    group->removeAllInputs();
    group->addInput(value);
    group->setAttribute(sym::Subgraph, handingOn(value->type()));
    return made;
  }
  for (size_t i = 0; i < group->outputCount(); ++i) replaceValue(group->output(i), values.at(held.output(i)));
  group->destroy();
  return made;
}

// Whether both branches mean the same, and the other one is for tensors of other types.
bool isGuarded(const Node* branch) {
  static const Symbol kChecks[] = {Symbol::of("prim::RequiresGradCheck"), Symbol::of("prim::TypeCheck")};
  static const Symbol kFallback = Symbol::of("fallback"), kFallbackGraph = Symbol::of("prim::FallbackGraph");
  const Node* check = branch->kind() == sym::If ? branch->input(0)->node() : nullptr;
  if (!check || std::ranges::find(kChecks, check->kind()) == std::end(kChecks)) return false;
  for (const Node* n : branch->block(1)->nodes())
    if (n->kind() == kFallbackGraph || (n->kind() == sym::Constant && n->hasAttribute(kFallback))) return true;
  return false;
}

}  // namespace

bool openGroups(Graph& graph, RewriteContext& context) {
  std::vector<Node*> guarded, groups, waits;
  auto note = [&](Node* n) {
    if (isGuarded(n)) guarded.push_back(n);
    if (isGroup(n)) groups.push_back(n);
    if (n->kind() == aten::wait && n->inputCount() == 1) waits.push_back(n);
  };
  forEachNode(graph, note);
  bool changed = !guarded.empty() || !groups.empty();
  while (!groups.empty()) {
    Node* group = groups.back();
    groups.pop_back();
    for (Node* n : open(group)) {
      note(n);
      for (Block* b : n->blocks()) forEachNode(b, note);
    }
  }
  for (Node* n : waits) {
    Node* fork = n->input(0)->node();
    if (!fork || fork->kind() != sym::fork || !fork->subgraph() || !handsOn(*fork->subgraph())) continue;
    replaceValue(n->output(), fork->input(0));
    n->destroy();
    if (!fork->output()->hasUses()) fork->destroy();
    changed = true;
  }
  for (auto n = guarded.rbegin(); n != guarded.rend(); ++n) inlineBranch(*n, 0);
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
