// Dictionaries are made with what is put into them right after, before anybody reads them:
//
//   %d = prim::DictConstruct()
//   aten::_set_item(%d, "a", %x)       ->   %d = prim::DictConstruct("a", %x)
//
// and those that aten::dict() makes.
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

class Dict {
 public:
  Dict(Node* made, Graph& graph) : made_(made), graph_(graph) {}

  bool run() {
    if (!takeItems(made_->inputs()) || !findSetters()) return false;
    const TypePtr type = made_->output()->type();
    for (Node* n : setters_) put(n->input(1), n->input(2));
    Builder b(graph_, setters_.back());
    b.setPlaceOf(made_);
    Node* whole = b.insert(sym::DictConstruct, items_);
    whole->output()->setType(type);
    for (Node* n : setters_) n->destroy();
    replaceValue(made_->output(), whole->output());
    made_->destroy();
    return true;
  }

 private:
  // Keys that are known, so that equal ones show.
  bool takeItems(std::span<const Use> inputs) {
    for (const Use& u : inputs) items_.push_back(u.value);
    for (size_t i = 0; i < items_.size(); i += 2)
      if (!GraphFacts::constant(items_[i])) return false;
    return true;
  }

  // Those in the block of the dictionary, before other uses.
  bool findSetters() {
    static const Symbol kSetItem = Symbol::of("aten::_set_item");
    const TypePtr type = made_->output()->type();
    if (!type->is(TypeKind::Dict)) return false;
    const Node* other = nullptr;  // the first one
    for (const Use& u : made_->output()->uses()) {
      Node* n = u.user;
      if (n->kind() == kSetItem && u.index() == 0 && n->block() == made_->block() && n->inputCount() == 3 &&
          GraphFacts::constant(n->input(1)) && isSubtype(n->input(2)->type(), type->element(1))) {
        setters_.push_back(n);
        continue;
      }
      while (n->block() != made_->block()) n = n->block()->owner();
      if (n != made_->block()->returnNode() && (!other || n->isBefore(other))) other = n;
    }
    if (other) std::erase_if(setters_, [&](const Node* n) { return !n->isBefore(other); });
    std::ranges::sort(setters_, [](const Node* a, const Node* b) { return a->isBefore(b); });
    return !setters_.empty();
  }

  // What has the key already keeps its place.
  void put(Value* key, Value* item) {
    for (size_t i = 0; i < items_.size(); i += 2)
      if (sameBits(*GraphFacts::constant(items_[i]), *GraphFacts::constant(key))) {
        items_[i + 1] = item;
        return;
      }
    items_.insert(items_.end(), {key, item});
  }

  Node* made_;
  Graph& graph_;
  std::vector<Value*> items_;
  std::vector<Node*> setters_;
};

}  // namespace

bool dictItems(Graph& graph, RewriteContext& context) {
  std::vector<Node*> all;
  forEachNode(graph, [&](Node* n) {
    if (n->kind() == sym::DictConstruct || (n->kind().name() == "dict" && n->inputCount() == 0)) all.push_back(n);
  });
  bool changed = false;
  for (Node* n : all) changed |= Dict(n, graph).run();
  if (changed) context.facts.refresh();
  return changed;
}

}  // namespace tscompile
