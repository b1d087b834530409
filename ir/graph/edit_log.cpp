#include "ir/graph/edit_log.h"

#include "ir/support/check.h"

#include <algorithm>

namespace tscompile {

bool isPresent(const Value* value) {
  const Node* n = value->node();
  const Block* b = value->block();
  if (!n) return value->index() < b->parameters().size() && b->parameter(value->index()) == value;
  return n->isInserted() && !n->isDestroyed() && value->index() < n->outputCount() &&
         n->output(value->index()) == value;
}

EditLog::EditLog(Graph& graph) : graph_(graph) {
  TS_CHECK(!graph.log_);
  graph.log_ = this;
}

// Observers may be gone already.
EditLog::~EditLog() {
  observers_.clear();
  clear();
  graph_.log_ = nullptr;
}

void EditLog::attach(EditObserver* observer) {
  if (std::find(observers_.begin(), observers_.end(), observer) == observers_.end()) observers_.push_back(observer);
}
void EditLog::detach(EditObserver* observer) { std::erase(observers_, observer); }

void EditLog::clear() {
  tell([](EditObserver& o) { o.forgetting(); });
  graph_.log_ = nullptr;
  forgetUndone();
  for (Entry& e : entries_) release(e, true);
  entries_.clear();
  position_ = 0;
  graph_.log_ = this;
}

// What was created last goes first.
void EditLog::forgetUndone() {
  while (entries_.size() > position_) {
    release(entries_.back(), false);
    entries_.pop_back();
  }
}

EditLog::Entry& EditLog::record(Entry entry) {
  if (entries_.size() > position_) forgetUndone();
  entries_.push_back(std::move(entry));
  ++position_;
  return entries_.back();
}

void EditLog::moveTo(size_t position) {
  TS_CHECK(position <= entries_.size());
  graph_.log_ = nullptr;  // what follows is known
  bool back = position_ > position;
  takingBack_ = true;
  while (position_ > position) undo(entries_[--position_]);
  takingBack_ = false;
  while (position_ < position) redo(entries_[position_++]);
  graph_.log_ = this;
  if (back) tell([&](EditObserver& o) { o.takenBack(position); });
}

void EditLog::mark() { record({.kind = Kind::Mark}); }

EditLog::Change EditLog::changeAt(size_t position) const {
  const Entry& e = entries_[position];
  auto node = [&](std::string_view what) { return Change{.what = what, .node = e.node, .index = e.index}; };
  auto ofValue = [&](std::string_view what, Node* n) { return Change{what, n, e.value, nullptr, e.index}; };
  switch (e.kind) {
    case Kind::Create:
      return node("create");
    case Kind::Destroy:
      return node("destroy");
    case Kind::Link:
      return node(e.moving ? "move" : "insert");
    case Kind::Unlink:
      return e.moving ? Change() : node("remove");
    case Kind::PushInput:
      return {"add input", e.node, nullptr, e.value, e.index};
    case Kind::PopInput:
      return {"remove input", e.node, e.value, nullptr, e.index};
    case Kind::SetInput:
      return {"input", e.node, e.value, e.after, e.index};
    case Kind::AddOutput:
      return ofValue("add output", e.node);
    case Kind::RemoveOutput:
      return ofValue("remove output", e.node);
    case Kind::AddBlock:
      return node("add block");
    case Kind::InsertParameter:
      return ofValue("add parameter", e.block->owner());
    case Kind::RemoveParameter:
      return ofValue("remove parameter", e.block->owner());
    case Kind::SetType:
      return ofValue("type", nullptr);
    case Kind::SetNaming:
      return ofValue("name", nullptr);
    case Kind::SetAttribute:
    case Kind::AddAttribute:
      return node("attribute");
    case Kind::RemoveAttribute:
      return node("remove attribute");
    case Kind::SetKind:
      return node("kind");
    case Kind::SetPlace:
    case Kind::SetSuffix:
    case Kind::SetNextNumber:
    case Kind::Mark:
      return {};
  }
  TS_UNREACHABLE();
}

std::vector<Node*> EditLog::created(size_t from) const {
  std::vector<Node*> out;
  for (size_t i = from; i < position_; ++i) {
    const Entry& e = entries_[i];
    if (e.kind == Kind::Create && e.node->isInserted() && !e.node->isDestroyed()) out.push_back(e.node);
  }
  return out;
}

Node* EditLog::touched(const Entry& e) {
  Node* n = nullptr;
  switch (e.kind) {
    case Kind::Create:
    case Kind::PushInput:
    case Kind::PopInput:
    case Kind::SetInput:
    case Kind::SetAttribute:
    case Kind::AddAttribute:
    case Kind::RemoveAttribute:
    case Kind::SetKind:
      n = e.node;
      break;
    case Kind::SetType:
      n = e.value->node();
      break;
    default:
      break;
  }
  return n && !n->isDestroyed() && n->isInserted() ? n : nullptr;
}

// ---- recording ----

void EditLog::created(Node* node) { record({.kind = Kind::Create, .node = node}); }

void EditLog::destroyed(Node* node, const std::vector<Node*>& tree) {
  record({.kind = Kind::Destroy, .index = static_cast<uint32_t>(tree.size()), .node = node});
  setDestroyed(node, true);
}

void EditLog::linked(Node* node) {
  record({.kind = Kind::Link, .moving = moving_, .node = node, .user = node->next_});
  tell([&](EditObserver& o) { moving_ ? o.moved(node) : o.imported(node); });
}

void EditLog::unlinked(Node* node) {
  record({.kind = Kind::Unlink, .moving = moving_, .node = node, .user = node->next_});
  if (!moving_) tell([&](EditObserver& o) { o.pruned(node); });
}

void EditLog::rememberPlace(Entry& e, const Use& use) {
  if (!use.previous) return;
  e.user = use.previous->user;
  e.place = static_cast<uint32_t>(use.previous->index());
}

Use* EditLog::placeOf(const Entry& e) { return e.user ? &e.user->inputs_[e.place] : nullptr; }

void EditLog::inputPushed(Node* node) {
  size_t i = node->inputCount_ - 1;
  Value* v = node->inputs_[i].value;
  record({.kind = Kind::PushInput, .index = static_cast<uint32_t>(i), .node = node, .value = v});
  tell([&](EditObserver& o) { o.inputChanged(node, i, nullptr, v); });
}

void EditLog::inputPopped(Node* node) {
  size_t i = node->inputCount_ - 1;
  Value* v = node->inputs_[i].value;
  Entry& e = record({.kind = Kind::PopInput, .index = static_cast<uint32_t>(i), .node = node, .value = v});
  rememberPlace(e, node->inputs_[i]);
  tell([&](EditObserver& o) { o.inputChanged(node, i, v, nullptr); });
}

void EditLog::inputSet(Node* node, size_t i, Value* after) {
  Value* before = node->inputs_[i].value;
  Entry& e = record(
      {.kind = Kind::SetInput, .index = static_cast<uint32_t>(i), .node = node, .value = before, .after = after});
  rememberPlace(e, node->inputs_[i]);
  tell([&](EditObserver& o) { o.inputChanged(node, i, before, after); });
}

void EditLog::outputAdded(Value* v) {
  record({.kind = Kind::AddOutput, .index = v->index_, .node = v->node_, .value = v});
}
void EditLog::outputRemoved(Node* node, size_t i, Value* v) {
  record({.kind = Kind::RemoveOutput, .index = static_cast<uint32_t>(i), .node = node, .value = v});
}
void EditLog::blockAdded(Block* b) { record({.kind = Kind::AddBlock, .node = b->owner(), .block = b}); }
void EditLog::parameterInserted(Value* v) {
  record({.kind = Kind::InsertParameter, .index = v->index_, .value = v, .block = v->parameterOf_});
}
void EditLog::parameterRemoved(Block* b, size_t i, Value* v) {
  record({.kind = Kind::RemoveParameter, .index = static_cast<uint32_t>(i), .value = v, .block = b});
}

void EditLog::typeSet(Value* v) {
  Entry& e = record({.kind = Kind::SetType, .value = v, .extra = std::make_unique<Extra>()});
  e.extra->type = v->type_;
}

void EditLog::namingSet(Value* v) {
  Entry& e = record({.kind = Kind::SetNaming, .value = v, .extra = std::make_unique<Extra>()});
  e.extra->name = v->name_;
  e.extra->nameLength = v->nameLength_;
  e.extra->numericName = v->numericName_;
  e.extra->number = v->number_;
}

void EditLog::attributeSet(Node* node, size_t i, Attribute::Payload before) {
  Symbol name = node->attributes_[i].name;
  Entry& e = record({.kind = Kind::SetAttribute,
                     .index = static_cast<uint32_t>(i),
                     .node = node,
                     .extra = std::make_unique<Extra>()});
  e.extra->attribute.emplace_back(name, std::move(before));
  tell([&](EditObserver& o) { o.attributeChanged(node, name); });
}

void EditLog::attributeAdded(Node* node) {
  record({.kind = Kind::AddAttribute,
          .index = static_cast<uint32_t>(node->attributes_.size() - 1),
          .node = node,
          .extra = std::make_unique<Extra>()});
  tell([&](EditObserver& o) { o.attributeChanged(node, node->attributes_.back().name); });
}

void EditLog::attributeRemoved(Node* node, size_t i, Attribute before) {
  Symbol name = before.name;
  Entry& e = record({.kind = Kind::RemoveAttribute,
                     .index = static_cast<uint32_t>(i),
                     .node = node,
                     .extra = std::make_unique<Extra>()});
  e.extra->attribute.push_back(std::move(before));
  tell([&](EditObserver& o) { o.attributeChanged(node, name); });
}

void EditLog::kindSet(Node* node, Symbol after) {
  Entry& e = record({.kind = Kind::SetKind, .node = node, .extra = std::make_unique<Extra>()});
  e.extra->symbol = node->kind_;
  tell([&](EditObserver& o) { o.kindChanged(node, node->kind_, after); });
}

void EditLog::placeSet(Node* node) {
  Entry& e = record({.kind = Kind::SetPlace, .node = node, .extra = std::make_unique<Extra>()});
  e.extra->range = node->range;
  e.extra->location = node->location;
  e.extra->symbol = node->scope;
}

void EditLog::suffixSet(const std::string& base) {
  Entry& e = record({.kind = Kind::SetSuffix, .extra = std::make_unique<Extra>()});
  e.extra->text = base;
  auto it = graph_.suffixes_.find(base);
  e.extra->known = it != graph_.suffixes_.end();
  if (e.extra->known) e.extra->number = it->second;
}

void EditLog::nextNumberSet() {
  Entry& e = record({.kind = Kind::SetNextNumber, .extra = std::make_unique<Extra>()});
  e.extra->number = graph_.nextNumber_;
}

// ---- taking back and making again ----

void EditLog::setDestroyed(Node* node, bool destroyed) {
  std::vector<Node*> tree{node};
  for (size_t i = 0; i < tree.size(); ++i) {
    graph_.hide(tree[i], destroyed);
    // The node itself was announced when it was unlinked or is linked again.
    if (i) tell([&](EditObserver& o) { destroyed ? o.pruned(tree[i]) : o.imported(tree[i]); });
    for (Block* b : tree[i]->blocks())
      for (Node* n : b->nodes()) tree.push_back(n);
  }
}

void EditLog::swapNaming(Value* v, Extra& x) {
  if (v->nameLength_) graph_.takeFromNames(v);
  std::swap(v->name_, x.name);
  std::swap(v->nameLength_, x.nameLength);
  std::swap(v->numericName_, x.numericName);
  std::swap(v->number_, x.number);
  if (v->nameLength_) graph_.addName(v);
}

void EditLog::swapPlace(Node* node, Extra& x) {
  std::swap(node->range, x.range);
  std::swap(node->location, x.location);
  std::swap(node->scope, x.symbol);
}

void EditLog::swapSuffix(Extra& x) {
  auto it = graph_.suffixes_.find(x.text);
  bool known = it != graph_.suffixes_.end();
  uint64_t number = known ? it->second : 0;
  if (x.known)
    graph_.suffixes_[x.text] = x.number;
  else if (known)
    graph_.suffixes_.erase(it);
  x.known = known;
  x.number = number;
}

void EditLog::undo(Entry& e) {
  Node* n = e.node;
  switch (e.kind) {
    case Kind::Create:
      graph_.hide(n, true);
      break;
    case Kind::Destroy:
      setDestroyed(n, false);
      break;
    case Kind::Link:
      n->unlink();
      if (!e.moving) tell([&](EditObserver& o) { o.pruned(n); });
      break;
    case Kind::Unlink:
      n->insertBefore(e.user);
      tell([&](EditObserver& o) { e.moving ? o.moved(n) : o.imported(n); });
      break;
    case Kind::PushInput:
      n->unlinkUse(n->inputs_[--n->inputCount_]);
      tell([&](EditObserver& o) { o.inputChanged(n, n->inputCount_, e.value, nullptr); });
      break;
    case Kind::PopInput:
      n->linkUseAfter(n->inputs_[n->inputCount_++], e.value, placeOf(e));
      tell([&](EditObserver& o) { o.inputChanged(n, n->inputCount_ - 1, nullptr, e.value); });
      break;
    case Kind::SetInput:
      n->unlinkUse(n->inputs_[e.index]);
      n->linkUseAfter(n->inputs_[e.index], e.value, placeOf(e));
      tell([&](EditObserver& o) { o.inputChanged(n, e.index, e.after, e.value); });
      break;
    case Kind::AddOutput:
      n->detachOutput(e.index);
      graph_.nextNumber_ = e.value->number_;
      break;
    case Kind::RemoveOutput:
      n->attachOutput(e.index, e.value);
      break;
    case Kind::AddBlock:
      --n->blockCount_;
      break;
    case Kind::Mark:
      break;
    case Kind::InsertParameter:
      e.block->detachParameter(e.index);
      graph_.nextNumber_ = e.value->number_;
      break;
    case Kind::RemoveParameter:
      e.block->attachParameter(e.index, e.value);
      break;
    case Kind::AddAttribute:
      e.extra->attribute.push_back(std::move(n->attributes_.back()));
      n->attributes_.pop_back();
      tell([&](EditObserver& o) { o.attributeChanged(n, e.extra->attribute[0].name); });
      break;
    case Kind::RemoveAttribute: {
      Symbol name = e.extra->attribute[0].name;
      n->attributes_.insert(n->attributes_.begin() + e.index, std::move(e.extra->attribute[0]));
      e.extra->attribute.clear();
      tell([&](EditObserver& o) { o.attributeChanged(n, name); });
      break;
    }
    default:
      swap(e);
  }
}

void EditLog::redo(Entry& e) {
  Node* n = e.node;
  switch (e.kind) {
    case Kind::Create:
      graph_.hide(n, false);
      break;
    case Kind::Destroy:
      setDestroyed(n, true);
      break;
    case Kind::Link:
      n->insertBefore(e.user);
      tell([&](EditObserver& o) { e.moving ? o.moved(n) : o.imported(n); });
      break;
    case Kind::Unlink:
      n->unlink();
      if (!e.moving) tell([&](EditObserver& o) { o.pruned(n); });
      break;
    case Kind::PushInput:
      n->insertInput(n->inputCount_, e.value);
      tell([&](EditObserver& o) { o.inputChanged(n, n->inputCount_ - 1, nullptr, e.value); });
      break;
    case Kind::PopInput:
      n->popInput();
      tell([&](EditObserver& o) { o.inputChanged(n, n->inputCount_, e.value, nullptr); });
      break;
    case Kind::SetInput:
      n->replaceInput(e.index, e.after);
      tell([&](EditObserver& o) { o.inputChanged(n, e.index, e.value, e.after); });
      break;
    case Kind::AddOutput:
      n->attachOutput(e.index, e.value);
      graph_.nextNumber_ = e.value->number_ + 1;
      break;
    case Kind::RemoveOutput:
      n->detachOutput(e.index);
      break;
    case Kind::AddBlock:
      ++n->blockCount_;
      break;
    case Kind::Mark:
      break;
    case Kind::InsertParameter:
      e.block->attachParameter(e.index, e.value);
      graph_.nextNumber_ = e.value->number_ + 1;
      break;
    case Kind::RemoveParameter:
      e.block->detachParameter(e.index);
      break;
    case Kind::AddAttribute: {
      Symbol name = e.extra->attribute[0].name;
      n->attributes_.push_back(std::move(e.extra->attribute[0]));
      e.extra->attribute.clear();
      tell([&](EditObserver& o) { o.attributeChanged(n, name); });
      break;
    }
    case Kind::RemoveAttribute:
      e.extra->attribute.push_back(std::move(n->attributes_[e.index]));
      n->attributes_.erase(n->attributes_.begin() + e.index);
      tell([&](EditObserver& o) { o.attributeChanged(n, e.extra->attribute[0].name); });
      break;
    default:
      swap(e);
  }
}

// Changes that hold the other state and exchange it with the graph's, in both directions.
void EditLog::swap(Entry& e) {
  switch (e.kind) {
    case Kind::SetType:
      std::swap(e.value->type_, e.extra->type);
      break;
    case Kind::SetNaming:
      swapNaming(e.value, *e.extra);
      break;
    case Kind::SetAttribute:
      std::swap(e.node->attributes_[e.index].payload, e.extra->attribute[0].payload);
      tell([&](EditObserver& o) { o.attributeChanged(e.node, e.extra->attribute[0].name); });
      break;
    case Kind::SetKind:
      graph_.setKind(e.node, std::exchange(e.extra->symbol, e.node->kind()));
      tell([&](EditObserver& o) { o.kindChanged(e.node, e.extra->symbol, e.node->kind_); });
      break;
    case Kind::SetPlace:
      swapPlace(e.node, *e.extra);
      break;
    case Kind::SetSuffix:
      swapSuffix(*e.extra);
      break;
    case Kind::SetNextNumber:
      std::swap(graph_.nextNumber_, e.extra->number);
      break;
    default:
      TS_UNREACHABLE();
  }
}

// Frees what no longer belongs to the graph: what a change that was made removed, or what one that was taken back had
// added.
void EditLog::release(Entry& e, bool made) {
  switch (e.kind) {
    case Kind::Create:
      if (made) break;
      --graph_.hiddenNodes_;
      graph_.freeNode(e.node);
      break;
    case Kind::Destroy:
      if (!made) break;
      graph_.hiddenNodes_ -= e.index;
      graph_.freeTree(e.node);
      break;
    case Kind::AddOutput:
    case Kind::InsertParameter:
      if (!made) graph_.destroyValue(e.value);
      break;
    case Kind::RemoveOutput:
    case Kind::RemoveParameter:
      if (made) graph_.destroyValue(e.value);
      break;
    case Kind::AddBlock:
      if (!made) graph_.freeBlock(e.block);
      break;
    default:
      break;
  }
}

}  // namespace tscompile
