// Dictionaries are made with what is put into them right after, before anybody reads them:
//
//   %d = prim::DictConstruct()
//   aten::_set_item(%d, "a", %x)       ->   %d = prim::DictConstruct("a", %x)
//
// and those that aten::dict() makes. What is asked of one before that is known: whether it holds a key, and what, be it
// by get(), pop() or setdefault(). Items of another one come one by one, by update(), and are deleted.
#include "ir/values/aten.h"
#include "passes/rewrite/edits.h"
#include "passes/rewrite/operator_names.h"
#include "passes/rewrite/rewrite.h"

#include <algorithm>

namespace tscompile {
namespace {

const Symbol kSetItem = named("_set_item"), kContains = named("__contains__"), kDelete = named("Delete"),
             kGet = named("get"), kPop = named("pop"), kSetDefault = named("setdefault"), kUpdate = named("update");

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
    setters_.erase(std::ranges::find_if_not(setters_, [&](const Node* n) { return change(n); }), setters_.end());
    if (setters_.empty()) return isAnswered;
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
  // Keys that are known, so that equal ones show: of floats, 0 and -0 are one, and NaN is no other.
  static bool isKnown(const Value* key) {
    const IValue* known = GraphFacts::constant(key);
    return known && (known->isInt() || known->isString());
  }
  bool takeItems(std::span<const Use> inputs) {
    for (const Use& u : inputs) items_.push_back(u.value);
    for (size_t i = 0; i < items_.size(); i += 2)
      if (!isKnown(items_[i])) return false;
    return true;
  }

  // d[key] = item and del d[key], in the block of the dictionary.
  bool isSetter(const Use& u) const {
    const Node* n = u.user;
    if (u.index() != 0 || n->block() != made_->block() || n->inputCount() < 2 || !isKnown(n->input(1))) return false;
    return n->kind() == kDelete || (n->kind() == kSetItem && n->inputCount() == 3 && fits(n->input(2)));
  }
  bool fits(const Value* item) const { return isSubtype(item->type(), made_->output()->type()->element(1)); }
  // What a setter does; false for what is to be deleted and is not there.
  bool change(const Node* n) {
    if (n->kind() == kSetItem) return put(n->input(1), n->input(2));
    Value** item = find(n->input(1));
    if (item) items_.erase(items_.begin() + (item - 1 - items_.data()), items_.begin() + (item + 1 - items_.data()));
    return item;
  }

  // What is asked of it before anything else is done with it.
  bool answer() {
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
        if (!change(n)) break;
        continue;
      }
      if (n != use->user || use->index() != 0 || n->inputCount() < 2) break;
      if (n->kind() == kUpdate ? !split(n) : !isKnown(n->input(1)) || !answer(n)) break;
      changed = true;
      if (n->kind() == kUpdate) break;
    }
    return changed;
  }

  // Of what one node asks, and does beside.
  bool answer(Node* n) {
    Value* const* item = find(n->input(1));
    Value* given = n->inputCount() > 2 ? n->input(2) : nullptr;
    const bool sets = n->kind() == kSetDefault, takes = n->kind() == kPop;
    if (n->kind() == kContains) {
      replaceValue(n->output(), Builder(graph_, n).constant(IValue(item != nullptr)));
    } else if (n->kind() == aten::getitem_ || n->kind() == kGet || sets || takes) {
      Value* value = item ? *item : given;
      if (!value && n->kind() == kGet) value = Builder(graph_, n).constant(IValue(), types().none);
      if (!value || !isSubtype(value->type(), n->output()->type()) || (sets && !fits(value))) return false;
      replaceValue(n->output(), value);
      Builder b(graph_, n);
      b.setPlaceOf(n);
      if (sets && !item) put(b.insert(kSetItem, {n->input(0), n->input(1), value}, 0)->input(1), value);
      if (takes && item) change(b.insert(kDelete, {n->input(0), n->input(1)}, 0));
    } else {
      return false;
    }
    n->destroy();
    return true;
  }

  // update() by a dictionary that was just made sets its items.
  bool split(Node* n) {
    const Node* other = n->input(1)->node();
    if (!other || other->kind() != sym::DictConstruct || n->input(1)->useCount() != 1) return false;
    Builder b(graph_, n);
    b.setPlaceOf(n);
    for (size_t i = 0; i + 1 < other->inputCount(); i += 2)
      b.insert(kSetItem, {n->input(0), other->input(i), other->input(i + 1)}, 0);
    n->destroy();
    return true;
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
  bool put(Value* key, Value* item) {
    if (Value** known = find(key))
      *known = item;
    else
      items_.insert(items_.end(), {key, item});
    return true;
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
