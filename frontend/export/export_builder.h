// What all parts of the reader of exported programs share: the graph that is made, the names of its values in each
// scope of the file, and how to refuse.
#pragma once

#include "frontend/export/program_json.h"
#include "ir/graph/builder.h"
#include "ir/operators/op_registry.h"
#include "ir/operators/unknown_operators.h"
#include "ir/support/diagnostics.h"

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tscompile::exported {

class ExportBuilder {
 public:
  ExportBuilder(const OpRegistry& registry, Diagnostics& diagnostics, UnknownOperators unknown);

  const OpRegistry& registry() const { return registry_; }
  Graph& graph() { return *graph_; }
  std::unique_ptr<Graph> take() { return std::move(graph_); }

  // Reports, at this place of the file and with the node that is being read; returns false.
  bool fail(Json at, std::string message, ErrorKind kind = ErrorKind::Input);
  void remark(Json at, std::string message);
  // A call of an operator that nobody knows: whether it may be a node. If not, it was reported, once for each operator.
  bool takesUnknown(std::string_view kind);
  // The node that reports speak of, and that new nodes take scope and location from.
  void setNode(Json node);

  // A graph inside of the program has names of its own. `json` is the graph's.
  void enterScope(Json json);
  void leaveScope();
  // Names of the file, of the innermost scope. Null: what makes the value was refused, which is not said again of those
  // that use it.
  void bind(std::string_view name, Value* value);
  // The name stands for nothing from here on.
  void forget(std::string_view name) { scopes_.back().values.erase(name); }
  // The name stands for an attribute of the module, which is read at the first use.
  void bindAttribute(std::string_view name, std::string_view path);
  // The path of the attribute that the name stands for; empty if it stands for none.
  std::string attributePath(std::string_view name) const;
  // Null after a report, of a name that is not bound too.
  Value* find(Json name);
  // The type that the file gives to a tensor of this name in the innermost scope: dtype and sizes as far as known.
  TypePtr tensorTypeOf(std::string_view name) const;

  Node* insert(Symbol kind, std::span<Value* const> inputs, size_t outputs);
  Node* insert(Symbol kind, std::initializer_list<Value*> inputs, size_t outputs) {
    return insert(kind, std::span<Value* const>(inputs.begin(), inputs.size()), outputs);
  }
  // A node with one output whose type is that of the operator that its inputs choose; null after a report.
  Value* call(std::string_view kind, std::span<Value* const> inputs, Json at);
  Value* call(std::string_view kind, std::initializer_list<Value*> inputs, Json at) {
    return call(kind, std::span<Value* const>(inputs.begin(), inputs.size()), at);
  }
  // At the beginning of the graph, once for each value. An empty list is made where it is used; `type` is needed for
  // it.
  Value* constant(const IValue& value, TypePtr type = nullptr);
  Value* list(std::span<Value* const> elements, TypePtr elementType);
  // The node, which has no effects, goes if nobody uses what it makes.
  void mayDrop(Node* node) { droppable_.push_back(node); }
  void dropUnused();
  // A reshape that is a view in the program; it stays.
  void addView(Node* reshape) {
    std::erase(droppable_, reshape);
    views_.push_back(reshape);
  }
  std::span<Node* const> views() const { return views_; }
  // Gives the value its name if graph text can hold it.
  static void name(Value* value, std::string_view text);

  // Inside, operators compute in this dtype where the file says so of what they give; nothing: as they are written.
  std::optional<DType> autocast() const { return autocast_; }
  class InAutocast {
   public:
    InAutocast(ExportBuilder& builder, std::optional<DType> dtype) : builder_(builder), outer_(builder.autocast_) {
      builder.autocast_ = dtype;
    }
    ~InAutocast() { builder_.autocast_ = outer_; }
    InAutocast(const InAutocast&) = delete;
    InAutocast& operator=(const InAutocast&) = delete;

   private:
    ExportBuilder& builder_;
    std::optional<DType> outer_;
  };

  // New nodes go to the end of this block.
  class InBlock {
   public:
    InBlock(ExportBuilder& builder, Block* block) : builder_(builder), outer_(builder.block_) {
      builder.block_ = block;
    }
    ~InBlock() { builder_.block_ = outer_; }
    InBlock(const InBlock&) = delete;
    InBlock& operator=(const InBlock&) = delete;

   private:
    ExportBuilder& builder_;
    Block* outer_;
  };

 private:
  struct Scope {
    std::unordered_map<std::string_view, Value*> values;
    std::unordered_map<std::string_view, std::string> attributes;  // that were not read yet
    std::unordered_map<std::string_view, Json> tensors;            // what the file says of them
  };
  Builder atStart();

  const OpRegistry& registry_;
  Diagnostics& diagnostics_;
  const UnknownOperators unknown_;
  std::set<std::string, std::less<>> unknownMet_;
  std::unique_ptr<Graph> graph_;
  Block* block_;
  Node* firstNode_ = nullptr;  // after constants and attributes
  std::vector<Scope> scopes_;
  std::map<std::string, Value*> constants_;
  std::vector<Node*> droppable_, views_;
  std::optional<DType> autocast_;
  Json node_;
  CodeLocation location_;
  Symbol scope_;
};

}  // namespace tscompile::exported
