// Inserts nodes at a point of a graph.
#pragma once

#include "ir/graph/graph.h"

#include <initializer_list>
#include <string_view>

namespace tscompile {

namespace sym {
// An attribute; 0: the node stays out of engines, as does what is made of it.
inline const Symbol toCompile = Symbol::of("to_compile");
}  // namespace sym

class Builder {
 public:
  // Appends to the outermost block of the graph.
  explicit Builder(Graph& graph) : graph_(graph), point_(graph.returnNode()) {}
  // Inserts before a node; before the return node of a block: at its end.
  Builder(Graph& graph, Node* before) : graph_(graph), point_(before) {}

  Graph& graph() const { return graph_; }
  Node* point() const { return point_; }
  void setPoint(Node* before) { point_ = before; }
  void setPointAfter(Node* node) { point_ = node->next() ? node->next() : node->block()->returnNode(); }
  void setPointAtEnd(Block* block) { point_ = block->returnNode(); }
  void setPointAtStart(Block* block) { point_ = block->first() ? block->first() : block->returnNode(); }
  // New nodes take source range, location, scope and the mark to_compile of this one; null: none.
  void setPlaceOf(const Node* node) { place_ = node; }

  // A node with untyped (Tensor) outputs.
  Node* insert(Symbol kind, std::span<Value* const> inputs, size_t outputs = 1);
  Node* insert(Symbol kind, std::initializer_list<Value*> inputs, size_t outputs = 1) {
    return insert(kind, std::span<Value* const>(inputs.begin(), inputs.size()), outputs);
  }
  // A node with one output of this type; null: Tensor.
  Value* call(Symbol kind, std::initializer_list<Value*> inputs, TypePtr type = nullptr);
  Value* call(std::string_view kind, std::initializer_list<Value*> inputs, TypePtr type = nullptr) {
    return call(Symbol::of(kind), inputs, type);
  }
  // A prim::Constant. Numbers, strings and lists get the type that their value has; give `type` for None of an
  // optional, for dtypes and the like.
  Value* constant(const IValue& value, TypePtr type = nullptr);
  Value* list(std::span<Value* const> elements, TypePtr elementType);
  Value* tuple(std::span<Value* const> elements);

 private:
  Graph& graph_;
  Node* point_;
  const Node* place_ = nullptr;
};

// Brings a builder back to where it was.
class InsertionGuard {
 public:
  explicit InsertionGuard(Builder& builder) : builder_(builder), point_(builder.point()) {}
  ~InsertionGuard() { builder_.setPoint(point_); }
  InsertionGuard(const InsertionGuard&) = delete;
  InsertionGuard& operator=(const InsertionGuard&) = delete;

 private:
  Builder& builder_;
  Node* point_;
};

}  // namespace tscompile
