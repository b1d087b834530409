#include "passes/rewrite/call_records.h"

#include "ir/support/check.h"
#include "ir/support/text.h"
#include "ir/values/literal.h"

#include <fmt/core.h>

#include <algorithm>

namespace tscompile {
namespace {

// Calls visit(argument) for every argument that is no list, from an explicit stack.
template <class Arguments, class Visit>
void forEachLeaf(Arguments& arguments, Visit&& visit) {
  using Argument = std::remove_reference_t<decltype(arguments[0].second)>;
  std::vector<Argument*> todo;
  for (auto& [name, argument] : arguments) todo.push_back(&argument);
  while (!todo.empty()) {
    Argument& a = *todo.back();
    todo.pop_back();
    if (auto* items = std::get_if<CallArgument::Items>(&a.content))
      for (auto& item : items->list) todo.push_back(&item);
    else
      visit(a);
  }
}

Value* valueIn(const CallArgument& a) {
  auto* v = std::get_if<Value*>(&a.content);
  return v ? *v : nullptr;
}

bool fits(TypePtr after, TypePtr before) {
  if (isSubtype(after, before)) return true;
  if (!after->isTensor() || !before->isTensor()) return isSubtype(withoutRefinement(after), withoutRefinement(before));
  const TensorFacts &a = after->tensor(), &b = before->tensor();
  if (a.dtype != DType::Undefined && b.dtype != DType::Undefined && a.dtype != b.dtype) return false;
  if (!a.hasRank || !b.hasRank) return true;
  if (a.sizes.size() != b.sizes.size()) return false;
  for (size_t i = 0; i < a.sizes.size(); ++i)
    if (a.sizes[i] >= 0 && b.sizes[i] >= 0 && a.sizes[i] != b.sizes[i]) return false;
  return true;
}

bool isThere(const Node* n) { return n->isInserted() && !n->isDestroyed(); }

bool isReturned(const Value* v) {
  for (const Use& u : v->uses())
    if (u.user == v->graph()->returnNode()) return true;
  return false;
}

// Whether a value has uses besides one input.
bool hasOtherUses(const Value* v, const Node* user, size_t index) {
  for (const Use& u : v->uses())
    if (u.user != user || u.index() != index) return true;
  return false;
}

void appendSignature(const CallArgument& argument, std::string& out) {
  struct Open {
    const CallArgument::Items* items;
    size_t next;
  };
  std::vector<Open> stack;
  const CallArgument* a = &argument;
  while (true) {
    if (a) {
      if (const auto* items = a->items()) {
        out += items->isTuple ? '(' : '[';
        stack.push_back({items, 0});
      } else if (const IValue* constant = a->constant()) {
        appendValue(*constant, LiteralStyle::Plain, out);
      } else {
        out += '%';
      }
    }
    if (stack.empty()) return;
    Open& top = stack.back();
    a = nullptr;
    if (top.next < top.items->list.size()) {
      if (top.next) out += ", ";
      a = &top.items->list[top.next++];
    } else {
      out += top.items->isTuple ? ')' : ']';
      stack.pop_back();
    }
  }
}

}  // namespace

// ---- one record ----

Value* CallArgument::value() const {
  Value* v = valueIn(*this);
  return v && isPresent(v) ? v : nullptr;
}

CallArgument* findArgument(CallArguments& arguments, std::string_view name) {
  for (auto& [n, argument] : arguments)
    if (n == name) return &argument;
  return nullptr;
}

const CallArgument* CallRecord::argument(std::string_view name) const {
  for (const auto& [n, argument] : arguments_)
    if (n == name) return &argument;
  return nullptr;
}

Value* CallRecord::input(std::string_view name) const {
  const CallArgument* a = argument(name);
  return a ? a->value() : nullptr;
}

std::vector<Node*> CallRecord::nodes() const {
  std::vector<Node*> out;
  for (Node* n : nodes_)
    if (isThere(n)) out.push_back(n);
  return out;
}

std::string CallRecord::signature() const {
  std::string out = kind_ + "(";
  for (size_t i = 0; i < arguments_.size(); ++i) {
    if (i) out += ", ";
    out += arguments_[i].first + "=";
    appendSignature(arguments_[i].second, out);
  }
  return out + ")";
}

// ---- all of a graph ----

CallRecords::CallRecords(EditLog& log) : log_(log) { log.attach(this); }
CallRecords::~CallRecords() { log_.detach(this); }

const std::string* CallRecords::requestFor(std::string_view name) const {
  for (const std::string& kind : requested_)
    if (name == kind || endsWith(name, "." + kind)) return &kind;
  return nullptr;
}

CallRecord* CallRecords::add(std::string kind, CallArguments arguments, std::vector<Value*> outputs,
                             std::vector<Node*> nodes, const Node* instead) {
  auto enclosing = instead ? ofNode_.find(instead) : ofNode_.end();
  std::vector<CallRecord*> around = enclosing == ofNode_.end() ? std::vector<CallRecord*>() : enclosing->second;
  CallRecord& r = *records_.emplace_back(std::make_unique<CallRecord>());
  r.kind_ = std::move(kind);
  r.arguments_ = std::move(arguments);
  r.outputs_ = std::move(outputs);
  auto own = [&](CallRecord& record) {
    for (Node* n : nodes) {
      record.nodes_.push_back(n);
      record.alive_ += isThere(n);
      ofNode_[n].push_back(&record);
    }
  };
  for (CallRecord* record : around) own(*record);
  own(r);
  hold(r);
  log_.mark();
  changes_.push_back({log_.position(), &r, true, std::move(around)});
  return &r;
}

void CallRecords::hold(CallRecord& record) {
  auto one = [&](const Value* v) {
    std::vector<CallRecord*>& list = holders_[v];
    if (std::find(list.begin(), list.end(), &record) == list.end()) list.push_back(&record);
  };
  forEachLeaf(record.arguments_, [&](CallArgument& a) {
    if (Value* v = valueIn(a)) one(v);
  });
  for (Value* v : record.outputs_)
    if (v) one(v);
}

std::vector<CallRecord*> CallRecords::findAll(const Node* node) const {
  std::vector<CallRecord*> out;
  auto it = ofNode_.find(node);
  if (it != ofNode_.end() && isThere(node)) out.assign(it->second.rbegin(), it->second.rend());
  return out;
}

CallRecord* CallRecords::find(const Node* node) const {
  std::vector<CallRecord*> all = findAll(node);
  return all.empty() ? nullptr : all.front();
}

std::vector<const CallRecord*> CallRecords::everOfKind(std::string_view kind) const {
  std::vector<const CallRecord*> out;
  for (const auto& r : records_)
    if (r->kind_ == kind && !r->nodes_.empty()) out.push_back(r.get());
  return out;
}

std::vector<CallRecord*> CallRecords::ofKind(std::string_view kind) const {
  std::vector<CallRecord*> out;
  for (const auto& r : records_)
    if (r->isAlive() && r->kind_ == kind) out.push_back(r.get());
  return out;
}

size_t CallRecords::size() const {
  return static_cast<size_t>(std::count_if(records_.begin(), records_.end(), [](auto& r) { return r->isAlive(); }));
}

// ---- changes ----

// Binds `to` where `from` was bound; how often.
size_t CallRecords::rebind(CallRecord& record, Value* from, Value* to, bool arguments, bool outputs) {
  size_t count = 0;
  if (arguments) forEachLeaf(record.arguments_, [&](CallArgument& a) { count += valueIn(a) == from; });
  if (outputs) count += static_cast<size_t>(std::count(record.outputs_.begin(), record.outputs_.end(), from));
  if (!count) return 0;
  changes_.push_back({log_.position(), &record, false, {}, record.arguments_, record.outputs_});
  if (arguments)
    forEachLeaf(record.arguments_, [&](CallArgument& a) {
      if (valueIn(a) == from) a.content = to;
    });
  if (outputs) std::replace(record.outputs_.begin(), record.outputs_.end(), from, to);
  hold(record);
  return count;
}

size_t CallRecords::replaceInputWith(CallRecord& record, Value* from, Value* to) {
  log_.mark();
  return rebind(record, from, to, true, false);
}

Result<void> CallRecords::replaceOutputsUsesWith(CallRecord& record, std::span<Value* const> outputs,
                                                 Diagnostics& diagnostics) {
  SourceRange where = record.nodes_.empty() ? SourceRange{} : record.nodes_.back()->range;
  if (outputs.size() != record.outputs_.size()) {
    diagnostics.error(where, fmt::format("{} for {} of '{}'", counted(outputs.size(), "value"),
                                         counted(record.outputs_.size(), "output"), record.kind_));
    return Failed{};
  }
  for (size_t i = 0; i < outputs.size(); ++i)
    if (record.outputs_[i] && !fits(outputs[i]->type(), record.outputs_[i]->type())) {
      diagnostics.error(
          where, fmt::format("%{} is {}, but output {} of '{}' is {}", outputs[i]->name(), typeText(outputs[i]->type()),
                             i, record.kind_, typeText(record.outputs_[i]->type())));
      return Failed{};
    }
  std::vector<Value*> before = record.outputs_;
  for (size_t i = 0; i < outputs.size(); ++i) {
    Value *from = before[i], *to = outputs[i];
    if (!from || from == to) continue;
    bool returned = isReturned(from);
    if (to->node() && (returned || isSubtype(from->type(), to->type()))) to->setType(from->type());
    from->replaceAllUsesWith(to);
    if (to->node() && from->isNamed() && (returned || !to->isNamed())) {
      std::string name(from->givenName());
      from->setName("");
      to->setName(name);
    }
    log_.mark();
    rebind(record, from, to, false, true);
  }
  return {};
}

// ---- what the log tells ----

void CallRecords::imported(Node* node) {
  if (auto it = ofNode_.find(node); it != ofNode_.end())
    for (CallRecord* r : it->second) ++r->alive_;
}

void CallRecords::pruned(Node* node) {
  if (auto it = ofNode_.find(node); it != ofNode_.end())
    for (CallRecord* r : it->second) --r->alive_;
}

// A record follows when the last of its own nodes turns to another value, or the last of all nodes.
void CallRecords::inputChanged(Node* node, size_t index, Value* before, Value* after) {
  if (!before || !after || log_.isTakingBack()) return;
  auto holders = holders_.find(before);
  if (holders == holders_.end()) return;
  bool isLast = !hasOtherUses(before, node, index);
  auto own = ofNode_.find(node);
  for (CallRecord* r : std::vector<CallRecord*>(holders->second)) {
    bool isOwn = own != ofNode_.end() && std::find(own->second.begin(), own->second.end(), r) != own->second.end();
    auto isUsedInside = [&] {
      return std::any_of(r->nodes_.begin(), r->nodes_.end(), [&](Node* n) {
        for (size_t i = 0; i < n->inputCount(); ++i)
          if (n->input(i) == before && (n != node || i != index)) return true;
        return false;
      });
    };
    if (isLast || (isOwn && !isUsedInside())) rebind(*r, before, after, true, isLast);
  }
}

void CallRecords::takenBack(size_t position) {
  while (!changes_.empty() && changes_.back().position > position) {
    Change& c = changes_.back();
    if (c.added) {
      drop(c);
    } else {
      c.record->arguments_ = std::move(c.arguments);
      c.record->outputs_ = std::move(c.outputs);
    }
    changes_.pop_back();
  }
}

// Its nodes may be freed next, and others made at their addresses.
void CallRecords::drop(const Change& added) {
  std::vector<Node*> nodes = std::move(added.record->nodes_);
  for (Node* n : nodes) {
    std::vector<CallRecord*>& owners = ofNode_[n];
    std::erase(owners, added.record);
    for (CallRecord* r : added.around) {
      std::erase(owners, r);
      r->nodes_.pop_back();
      r->alive_ -= isThere(n);
    }
  }
  CallRecord& r = *added.record;
  r.nodes_.clear();
  r.arguments_.clear();
  r.outputs_.clear();
  r.alive_ = 0;
}

// What is freed must not be met again at an address that somebody else gets.
void CallRecords::forgetting() {
  changes_.clear();
  for (const auto& r : records_) {
    std::erase_if(r->nodes_, [&](Node* n) {
      if (!n->isDestroyed()) return false;
      ofNode_.erase(n);
      return true;
    });
    forEachLeaf(r->arguments_, [](CallArgument& a) {
      if (Value* v = valueIn(a); v && !isPresent(v)) a.content = static_cast<Value*>(nullptr);
    });
    for (Value*& v : r->outputs_)
      if (v && !isPresent(v)) v = nullptr;
  }
}

}  // namespace tscompile
