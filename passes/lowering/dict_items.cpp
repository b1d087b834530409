// Dictionaries are made with what is put into them right after, before anybody reads them:
//
//   %d = prim::DictConstruct()
//   aten::_set_item(%d, "a", %x)       ->   %d = prim::DictConstruct("a", %x)
//
// and those that aten::dict() makes. What is asked of one before that is known: whether it holds a key, and what.
#include "ir/values/aten.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

class Dict {
 public:
  Dict(Node* made, Graph& graph) : made_(made), graph_(graph) {}

  bool run() {
    if (!made_->output()->type()->is(TypeKind::Dict) || !takeItems(made_->inputs())) return false;
    const std::vector<Value*> made = items_;
    const bool isAnswered = answer();
    items_ = made;
    if (!findSetters()) return isAnswered;
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

  // d[key] = item, in the block of the dictionary.
  bool isSetter(const Use& u) const {
    static const Symbol kSetItem = Symbol::of("aten::_set_item");
    const Node* n = u.user;
    return n->kind() == kSetItem && u.index() == 0 && n->block() == made_->block() && n->inputCount() == 3 &&
           GraphFacts::constant(n->input(1)) && isSubtype(n->input(2)->type(), made_->output()->type()->element(1));
  }

  // What is asked of it before anything else is done with it.
  bool answer() {
    static const Symbol kContains = Symbol::of("aten::__contains__");
    std::vector<std::pair<Node*, const Use*>> uses;  // by the nodes of the dictionary's block that they are in
    for (const Use& u : made_->output()->uses()) {
      Node* n = u.user;
      while (n->block() != made_->block()) n = n->block()->owner();
      if (!n->isReturn()) uses.emplace_back(n, &u);
    }
    std::ranges::stable_sort(uses, [](const auto& a, const auto& b) { return a.first->isBefore(b.first); });
    bool changed = false;
    for (const auto& [n, use] : uses) {
      if (isSetter(*use)) {
        put(n->input(1), n->input(2));
        continue;
      }
      const bool isQuestion = n->kind() == kContains || n->kind() == aten::getitem_;
      if (n != use->user || !isQuestion || use->index() != 0 || !GraphFacts::constant(n->input(1))) break;
      Value* const* item = find(n->input(1));
      if (n->kind() == kContains)
        replaceValue(n->output(), Builder(graph_, n).constant(IValue(item != nullptr)));
      else if (item && isSubtype((*item)->type(), n->output()->type()))
        replaceValue(n->output(), *item);
      else
        break;
      n->destroy();
      changed = true;
    }
    return changed;
  }

  // Those in the block of the dictionary, before other uses.
  bool findSetters() {
    const Node* other = nullptr;  // the first one
    for (const Use& u : made_->output()->uses()) {
      Node* n = u.user;
      if (isSetter(u)) {
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

  Value** find(const Value* key) {
    for (size_t i = 0; i < items_.size(); i += 2)
      if (sameBits(*GraphFacts::constant(items_[i]), *GraphFacts::constant(key))) return &items_[i + 1];
    return nullptr;
  }
  // What has the key already keeps its place.
  void put(Value* key, Value* item) {
    if (Value** known = find(key))
      *known = item;
    else
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
