// Observers that tell what happens to a graph: each edit as a line, and what has become of a value.
#pragma once

#include "ir/graph/edit_log.h"

#include <functional>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

using TraceSink = std::function<void(const std::string&)>;

// A line for each edit: "importing %y = test::f(%x)", "pruning ...", "changing input 0 of %y = test::f from %x to %z".
// A node comes with its inputs, and loses them before it goes. Edits that are taken back say so.
class TraceObserver : public EditObserver {
 public:
  enum class Form : uint8_t { Text, Json };

  // Lives shorter than the log.
  TraceObserver(EditLog& log, TraceSink sink, Form form = Form::Text);
  ~TraceObserver() override;
  TraceObserver(const TraceObserver&) = delete;
  TraceObserver& operator=(const TraceObserver&) = delete;

  void imported(Node* node) override;
  void pruned(Node* node) override;
  void inputChanged(Node* node, size_t index, Value* before, Value* after) override;
  void attributeChanged(Node* node, Symbol name) override;
  void kindChanged(Node* node, Symbol before, Symbol after) override;

 private:
  using Field = std::pair<std::string_view, std::string>;
  void tell(const std::string& text, std::string_view what, const Node* node, const std::vector<Field>& fields);

  EditLog& log_;
  TraceSink sink_;
  Form form_;
};

// What PlanSettings::trace may take: the same lines without those of rewrites with these names.
TraceSink traceWithout(std::vector<std::string> rewrites, TraceSink sink);

// What stands where a value stood: follows values whose uses went to others.
class ReplacedBy : public EditObserver {
 public:
  explicit ReplacedBy(EditLog& log);
  ~ReplacedBy() override { log_.detach(this); }
  ReplacedBy(const ReplacedBy&) = delete;
  ReplacedBy& operator=(const ReplacedBy&) = delete;

  // The value itself while something uses it, or if nothing took its uses over; else what did, and so on.
  const Value* now(const Value* value) const { return chain(value).back(); }
  // From the value to now().
  std::vector<const Value*> chain(const Value* value) const;

  void inputChanged(Node* node, size_t index, Value* before, Value* after) override;
  void forgetting() override { next_.clear(); }

 private:
  EditLog& log_;
  std::unordered_map<const Value*, const Value*> next_;
};

}  // namespace tscompile
