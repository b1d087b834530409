// What a call was before its body took its place: callee, bound arguments, outputs and the nodes that were made for it.
// Rewrites of whole functions look here for what single nodes no longer tell.
#pragma once

#include "ir/graph/edit_log.h"
#include "ir/support/diagnostics.h"
#include "ir/support/result.h"
#include "ir/values/ivalue.h"

#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace tscompile {

// A value of the graph, a constant, or a list or tuple of arguments.
struct CallArgument {
  struct Items {
    bool isTuple = false;
    std::vector<CallArgument> list;
  };
  std::variant<Value*, IValue, Items> content;

  CallArgument(Value* value) : content(value) {}                   // NOLINT: implicit by design
  CallArgument(IValue constant) : content(std::move(constant)) {}  // NOLINT
  static CallArgument list(std::vector<CallArgument> items) { return Items{false, std::move(items)}; }
  static CallArgument tuple(std::vector<CallArgument> items) { return Items{true, std::move(items)}; }

  // Null for a constant, for a list, and for a value that has left the graph.
  Value* value() const;
  // Null if it is none.
  const IValue* constant() const { return std::get_if<IValue>(&content); }
  const Items* items() const { return std::get_if<Items>(&content); }

 private:
  CallArgument(Items items) : content(std::move(items)) {}
};
// In the order of the callee's parameters, defaults included.
using CallArguments = std::vector<std::pair<std::string, CallArgument>>;
// Null if there is none of this name.
CallArgument* findArgument(CallArguments& arguments, std::string_view name);

class CallRecord {
 public:
  // The name of the function, or the kind of the plugin.
  const std::string& kind() const { return kind_; }
  const CallArguments& arguments() const { return arguments_; }
  const CallArgument* argument(std::string_view name) const;
  // The value bound to a parameter, or null.
  Value* input(std::string_view name) const;
  // To be changed and bound anew: the record stays as it is.
  CallArguments cloneInputs() const { return arguments_; }
  // Null for those that have left the graph for good.
  const std::vector<Value*>& outputs() const { return outputs_; }
  // Those that are in the graph.
  std::vector<Node*> nodes() const;
  // Whether one of its nodes is still in the graph.
  bool isAlive() const { return alive_ > 0; }
  // The same for calls that differ in tensors only: `relu(x=%, inplace=False)`.
  std::string signature() const;

 private:
  friend class CallRecords;
  std::string kind_;
  CallArguments arguments_;
  std::vector<Value*> outputs_;
  std::vector<Node*> nodes_;
  size_t alive_ = 0;
};

// The records of one graph. They follow its changes: what takes the place of an argument or output is bound in its
// stead, also deep inside lists, and a record goes with the last of its nodes. What the log takes back, they take back;
// a record that was added since is gone then for good.
class CallRecords : public EditObserver {
 public:
  // Lives shorter than the log.
  explicit CallRecords(EditLog& log);
  ~CallRecords() override;
  CallRecords(const CallRecords&) = delete;
  CallRecords& operator=(const CallRecords&) = delete;

  // Of which functions and plugins records are kept.
  void request(std::string kind) { requested_.insert(std::move(kind)); }
  // The request that a kind of node, or the name of a function or method, answers to: "forward" is asked for by itself
  // and means "__torch__.Net.forward". Null if nobody wants it.
  const std::string* requestFor(std::string_view name) const;

  // The nodes are in the graph. If they take the place of a call that belongs to other records, give that node as
  // `instead`: they belong to those too. The record stays in memory, whatever becomes of it.
  CallRecord* add(std::string kind, CallArguments arguments, std::vector<Value*> outputs, std::vector<Node*> nodes,
                  const Node* instead = nullptr);
  // The innermost live record that the node belongs to, or null.
  CallRecord* find(const Node* node) const;
  // From the innermost to the outermost.
  std::vector<CallRecord*> findAll(const Node* node) const;
  // Live ones in the order in which they were added.
  std::vector<CallRecord*> ofKind(std::string_view kind) const;
  // Those that have lost all their nodes, too.
  std::vector<const CallRecord*> everOfKind(std::string_view kind) const;
  size_t size() const;

  // In the record only, lists and tuples included: how often.
  size_t replaceInputWith(CallRecord& record, Value* from, Value* to);
  // The new values take over the uses of the outputs. They must be as many and of fitting types, else this is reported
  // and nothing changes. What a graph returns keeps its order, name and type.
  Result<void> replaceOutputsUsesWith(CallRecord& record, std::span<Value* const> outputs, Diagnostics& diagnostics);

  void imported(Node* node) override;
  void pruned(Node* node) override;
  void inputChanged(Node* node, size_t index, Value* before, Value* after) override;
  void takenBack(size_t position) override;
  void forgetting() override;

 private:
  // How a record was before it changed; a record that was added has nothing to go back to.
  struct Change {
    size_t position;
    CallRecord* record;
    bool added;
    std::vector<CallRecord*> around = {};  // those that got its nodes as well
    CallArguments arguments = {};
    std::vector<Value*> outputs = {};
  };
  void hold(CallRecord& record);
  size_t rebind(CallRecord& record, Value* from, Value* to, bool arguments, bool outputs);
  void drop(const Change& added);

  EditLog& log_;
  std::set<std::string, std::less<>> requested_;
  std::vector<std::unique_ptr<CallRecord>> records_;
  std::unordered_map<const Node*, std::vector<CallRecord*>> ofNode_;  // the innermost last
  // Which records bind a value, or did once.
  std::unordered_map<const Value*, std::vector<CallRecord*>> holders_;
  std::vector<Change> changes_;
};

}  // namespace tscompile
