#include "frontend/export/written_views.h"

#include "ir/analysis/alias.h"

#include <algorithm>
#include <unordered_set>

namespace tscompile::exported {
namespace {

// Follows the graph from a view on: who sees its memory through it, and who beside it.
class ViewUsers {
 public:
  ViewUsers(const Graph& graph, const OpRegistry& registry, const AliasAnalysis& aliases, const Node* view)
      : graph_(graph), registry_(registry), aliases_(aliases), view_(view), through_{view->output()} {}

  // Whether what one of them writes is seen by the other.
  bool seeWrites() {
    if (!aliases_.isWritten(view_->output())) return false;
    if (view_->block() != graph_.block()) return true;
    bool after = false;
    forEachNode(graph_, [&](const Node* n) {
      if (after) node(n);
      after |= n == view_;
    });
    for (const Use& u : graph_.outputs()) use(u.value);
    for (const Value* input : graph_.inputs()) use(input);  // the caller has it
    return seen_;
  }

 private:
  bool sees(const Value* v) const {
    return AliasAnalysis::canRefer(v->type()) && aliases_.mayShareMemory(v, view_->output());
  }
  bool isThrough(const Value* v) const { return through_.contains(v); }

  void use(const Value* v) { seen_ |= sees(v) && (isThrough(v) ? writtenBeside_ : writtenThrough_); }

  void node(const Node* n) {
    const Operator* op = registry_.resolve(*n);
    if (op && op->has(Trait::ReadsSizes)) return;
    bool takesView = false, takesOther = false;
    for (const Use& u : n->inputs()) {
      use(u.value);
      takesView |= isThrough(u.value);
      takesOther |= !isThrough(u.value) && sees(u.value);
    }
    if (takesView)
      for (const Value* o : n->outputs())
        if (sees(o)) through_.insert(o);
    if (n->hasBlocks() || !aliases_.writes(n).intersects(aliases_.reachable(view_->output()))) return;
    writtenThrough_ |= takesView;
    writtenBeside_ |= takesOther;
    seen_ |= n->block() != graph_.block();  // a loop may come back to what is before it
  }

  const Graph& graph_;
  const OpRegistry& registry_;
  const AliasAnalysis& aliases_;
  const Node* view_;
  std::unordered_set<const Value*> through_;
  bool writtenThrough_ = false, writtenBeside_ = false, seen_ = false;
};

void makeView(Graph& graph, Node* reshape) {
  Node* view = graph.create(Symbol::of("aten::view"), {reshape->input(0), reshape->input(1)});
  view->insertBefore(reshape);
  view->copyPlace(reshape);
  view->output()->setType(reshape->output()->type());
  std::string name = reshape->output()->name();
  reshape->output()->replaceAllUsesWith(view->output());
  reshape->destroy();
  view->output()->setName(name);
}

}  // namespace

void keepWrittenViews(Graph& graph, const OpRegistry& registry, std::span<Node* const> views) {
  AliasAnalysis aliases(graph, registry);
  if (!aliases.graphHasWrites()) return;
  std::vector<Node*> written;
  std::copy_if(views.begin(), views.end(), std::back_inserter(written),
               [&](const Node* view) { return ViewUsers(graph, registry, aliases, view).seeWrites(); });
  for (Node* view : written) makeView(graph, view);
}

}  // namespace tscompile::exported
