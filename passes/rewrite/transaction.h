// Changes of a graph that all happen or none.
#pragma once

#include "ir/graph/edit_log.h"
#include "ir/operators/op_registry.h"
#include "ir/support/diagnostics.h"
#include "ir/support/result.h"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tscompile {

// From its construction to commit(), everything that is done to the graph can be taken back; without commit() the
// destructor does. Transactions nest; the inner one ends first.
class Transaction {
 public:
  // Uses the log that is attached to the graph, or attaches one.
  Transaction(Graph& graph, const OpRegistry& registry);
  ~Transaction();
  Transaction(const Transaction&) = delete;
  Transaction& operator=(const Transaction&) = delete;

  // Every use, or those that the predicate wants. An error at commit: a value that is not in the graph, or whose type
  // does not fit.
  void replace(Value* from, Value* to) { replaceIf(from, to, nullptr); }
  void replaceIf(Value* from, Value* to, std::function<bool(const Use&)> wanted);
  // The node must have left the graph by the time of commit().
  void mustGo(Node* node) { mustGo_.push_back(node); }
  // Removes nodes without effects that replace() set free, checks what was touched, and asks the observers of the log.
  // On failure everything is taken back and reported.
  Result<void> commit(Diagnostics& diagnostics);
  void rollback();
  EditLog& log() { return *log_; }

 private:
  std::string problem();

  const OpRegistry& registry_;
  std::optional<EditLog> own_;
  EditLog* log_;
  size_t start_;
  size_t depth_;  // of transactions on this log
  std::vector<Node*> mustGo_, former_;
  std::string failure_;
  bool open_ = true;
};

// Keeps values of a graph: a transaction that takes one of them out of the graph is refused.
class ProtectValues : public EditObserver {
 public:
  explicit ProtectValues(std::vector<Value*> values) : values_(std::move(values)) {}
  std::string veto(const Graph& graph) override;

 private:
  std::vector<Value*> values_;
};

}  // namespace tscompile
