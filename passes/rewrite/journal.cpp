#include "passes/rewrite/journal.h"

#include "ir/graph/printer.h"
#include "ir/support/check.h"
#include "ir/support/json_writer.h"

#include <sstream>
#include <unordered_map>
#include <unordered_set>

namespace tscompile {
namespace {

// The edits of one step. What was there before the step is called as it was then, the rest as it is afterwards.
class StepWriter {
 public:
  StepWriter(EditLog& log, size_t begin, size_t end) : log_(log), begin_(begin), end_(end) {}

  void write(JsonWriter& json) {
    log_.moveTo(begin_);
    describe();
    log_.moveTo(end_);
    findMade();
    describe();
    for (size_t i = begin_; i < end_; ++i) edit(log_.changeAt(i), json);
  }

 private:
  static bool isThere(const Node* n) { return n->isReturn() || (n->isInserted() && !n->isDestroyed()); }

  void describe() {
    for (size_t i = begin_; i < end_; ++i) {
      EditLog::Change c = log_.changeAt(i);
      if (c.node && isThere(c.node)) nodes_.try_emplace(c.node, c.node->isReturn() ? "return" : nodeText(*c.node));
      for (const Value* v : {c.value, c.after})
        if (v && isPresent(v)) values_.try_emplace(v, "%" + v->name());
    }
  }
  void findMade() {
    for (size_t i = begin_; i < end_; ++i) {
      EditLog::Change c = log_.changeAt(i);
      if (c.what == "create") made_.insert(c.node);
      if (c.what == "destroy") gone_.insert(c.node);
    }
  }

  // The line of a node that was made or destroyed says everything about it.
  bool isSaid(const EditLog::Change& c) const {
    const Node* n = c.node ? c.node : c.value ? c.value->node() : nullptr;
    if (made_.contains(n)) return gone_.contains(n) || c.what != "create";
    return gone_.contains(n) && c.what != "destroy";
  }

  void edit(const EditLog::Change& c, JsonWriter& json) {
    if (c.what.empty() || isSaid(c)) return;
    json.beginObject();
    json.field("edit", c.what);
    if (c.node) json.field("node", nameOf(nodes_, c.node));
    if (c.after) json.field("index", c.index);
    if (c.value) json.field(c.after ? "before" : "value", nameOf(values_, c.value));
    if (c.after) json.field("after", nameOf(values_, c.after));
    json.endObject();
  }

  // Something that came and went within the step has no name.
  template <class Map, class Key>
  static std::string nameOf(const Map& names, const Key* key) {
    auto it = names.find(key);
    return it == names.end() ? "?" : it->second;
  }

  EditLog& log_;
  size_t begin_, end_;
  std::unordered_map<const Node*, std::string> nodes_;
  std::unordered_map<const Value*, std::string> values_;
  std::unordered_set<const Node*> made_, gone_;
};

}  // namespace

Journal::Journal(Graph& graph)
    : log_(graph.editLog() ? *graph.editLog() : own_.emplace(graph)), begin_(log_.position()) {}

// The log may have been moved by others: a transaction that was taken back.
void Journal::followLog() {
  while (current_ && positionOf(current_) > log_.position()) --current_;
  while (!steps_.empty() && steps_.back().end > log_.size()) steps_.pop_back();
}

void Journal::step(std::string reason) {
  followLog();
  if (log_.position() == positionOf(current_)) return;
  steps_.resize(current_);
  steps_.push_back({std::move(reason), log_.position()});
  ++current_;
}

void Journal::goTo(size_t state) {
  followLog();
  if (current_ == steps_.size()) step("");
  TS_CHECK(state <= steps_.size());
  log_.moveTo(positionOf(state));
  current_ = state;
}

void Journal::end() {
  followLog();
  if (current_ == steps_.size()) step("");
  goTo(steps_.size());
}

bool Journal::next() {
  if (current_ == steps_.size()) return false;
  goTo(current_ + 1);
  return true;
}

bool Journal::previous() {
  followLog();
  if (current_ == steps_.size()) step("");
  if (!current_) return false;
  goTo(current_ - 1);
  return true;
}

void Journal::write(const TextSink& sink) {
  goTo(current_);
  size_t shown = current_;
  for (size_t k = 0; k < steps_.size(); ++k) {
    std::ostringstream line;
    JsonWriter json(line);
    json.beginObject();
    json.field("step", k);
    json.field("reason", reason(k));
    json.key("edits");
    json.beginArray();
    StepWriter(log_, positionOf(k), positionOf(k + 1)).write(json);
    json.endArray();
    json.endObject();
    json.finish();
    sink(line.str());
  }
  log_.moveTo(positionOf(shown));
  current_ = shown;
}

std::string Journal::text() {
  std::string out;
  write([&out](std::string_view piece) { out += piece; });
  return out;
}

}  // namespace tscompile
