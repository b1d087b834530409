// Nodes and blocks of a graph.
#pragma once

#include "ir/graph/attribute.h"
#include "ir/graph/value.h"
#include "ir/support/source.h"
#include "ir/values/symbol.h"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace tscompile {

// Where the model's own source made a node: what graph text says after "#".
struct CodeLocation {
  Symbol file;  // no symbol: the text gives no place; the empty name: "# :0:0"
  uint32_t line = 0;
  uint32_t column = 0;
  bool present() const { return !file.empty(); }
};

// `^name[attributes](scalars)(inputs)`
struct PythonOp {
  std::string name;
  std::string scalars;      // raw text
  bool hasBrackets = true;  // attributes are printed even if there are none
};

class Node {
  // In front, in one cache line: what walks over large graphs look at.
  Symbol kind_;
  Node* next_ = nullptr;
  uint32_t blockCount_ = 0;
  bool destroyed_ = false;
  uint32_t inputCount_ = 0, outputCount_ = 0;
  Use* inputs_ = nullptr;
  Value** outputs_ = nullptr;
  Block* block_;
  Node* previous_ = nullptr;

 public:
  Symbol kind() const { return kind_; }
  void setKind(Symbol kind);
  Graph* graph() const;
  Block* block() const { return block_; }
  // In text order; null at the ends of the block.
  Node* next() const { return next_ && !next_->isReturn() ? next_ : nullptr; }
  Node* previous() const { return previous_ && !previous_->isReturn() ? previous_ : nullptr; }
  bool isInserted() const { return next_ != nullptr; }
  // Whether it was destroyed, or a node around it, while an EditLog keeps the memory.
  bool isDestroyed() const { return destroyed_; }
  bool isReturn() const { return kind_ == sym::Return; }

  size_t inputCount() const { return inputCount_; }
  Value* input(size_t i) const { return inputs_[i].value; }
  std::span<const Use> inputs() const { return {inputs_, inputCount_}; }
  Use& inputUse(size_t i) { return inputs_[i]; }
  void addInput(Value* value) { insertInput(inputCount_, value); }
  void insertInput(size_t at, Value* value);
  void replaceInput(size_t i, Value* value);
  void removeInput(size_t i);
  void removeAllInputs();

  size_t outputCount() const { return outputCount_; }
  Value* output(size_t i) const { return outputs_[i]; }
  Value* output() const { return outputs_[0]; }
  std::span<Value* const> outputs() const { return {outputs_, outputCount_}; }
  Value* addOutput(TypePtr type);
  void removeOutput(size_t i);  // which has no uses

  std::span<Block* const> blocks() const { return {blocks_, blockCount_}; }
  Block* block(size_t i) const { return blocks_[i]; }
  bool hasBlocks() const { return blockCount_ != 0; }
  Block* addBlock();

  const std::vector<Attribute>& attributes() const { return attributes_; }
  const Attribute* attribute(Symbol name) const;
  bool hasAttribute(Symbol name) const { return attribute(name) != nullptr; }
  // The value of an attribute, or null.
  const IValue* attributeValue(Symbol name) const;
  // Replaces an attribute of this name where it stands, or adds one.
  void setAttribute(Symbol name, Attribute::Payload payload);
  void removeAttribute(Symbol name);
  Graph* subgraph() const;  // the attribute "Subgraph", or null

  // Text order inside one block, at any depth: O(1) for nodes of the same block.
  bool isBefore(const Node* other) const;
  bool isAfter(const Node* other) const { return other->isBefore(this); }
  void insertBefore(Node* other);
  void insertAfter(Node* other);
  void moveBefore(Node* other);
  void moveAfter(Node* other);
  // Takes it out of its block; it may be inserted again.
  void unlink();
  // Outputs must have no uses left outside. Nested blocks go with it.
  void destroy();
  // Gives location, scope and source range of another node.
  void copyPlace(const Node* other);

  SourceRange range;  // of the text that it was read from
  CodeLocation location;
  Symbol scope;  // after ", scope: "
  std::unique_ptr<PythonOp> python;

 private:
  friend class Graph;
  friend class Block;
  friend class EditLog;
  friend struct Use;
  template <class T>
  friend class Pool;
  Node(Symbol kind, Block* block) : kind_(kind), block_(block) {}
  void linkUse(Use& use, Value* value) { linkUseAfter(use, value, value->lastUse_); }
  void linkUseAfter(Use& use, Value* value, Use* previous);
  void unlinkUse(Use& use);
  void attachOutput(size_t at, Value* value);
  void detachOutput(size_t i);
  void popInput();
  void relocateInputs(Use* to);
  void place();  // gives a position between the neighbours

  Graph* graph_ = nullptr;
  Block** blocks_ = nullptr;
  int64_t position_ = 0;
  uint32_t inputCapacity_ = 0, outputCapacity_ = 0;
  std::vector<Attribute> attributes_;
};

// A list of nodes with parameters and results. Results are the inputs of its return node.
class Block {
 public:
  Graph* graph() const { return graph_; }
  // The node that it belongs to; null for the outermost block.
  Node* owner() const { return owner_; }
  // The block around it; null for the outermost one.
  Block* parent() const { return owner_ ? owner_->block() : nullptr; }
  // Blocks around it, counted one by one.
  size_t depth() const {
    size_t depth = 0;
    for (const Block* b = parent(); b; b = b->parent()) ++depth;
    return depth;
  }

  std::span<Value* const> parameters() const { return {parameters_, parameterCount_}; }
  Value* parameter(size_t i) const { return parameters_[i]; }
  Value* addParameter(TypePtr type);
  Value* insertParameter(size_t at, TypePtr type);
  void removeParameter(size_t i);  // which has no uses

  Node* returnNode() const { return return_; }
  std::span<const Use> results() const { return return_->inputs(); }
  Value* result(size_t i) const { return return_->input(i); }
  void addResult(Value* value) { return_->addInput(value); }

  class NodeRange {
   public:
    class Iterator {
     public:
      explicit Iterator(Node* node) : node_(node), next_(node->next_) {}
      Node* operator*() const { return node_; }
      Iterator& operator++() {
        node_ = next_;
        next_ = node_->next_;
        return *this;
      }
      bool operator!=(const Iterator& other) const { return node_ != other.node_; }

     private:
      Node* node_;
      Node* next_;  // the current node may be destroyed while iterating
    };
    explicit NodeRange(Node* end) : end_(end) {}
    Iterator begin() const { return Iterator(end_->next_); }
    Iterator end() const { return Iterator(end_); }

   private:
    Node* end_;
  };
  // In text order, without the return node.
  NodeRange nodes() const { return NodeRange(return_); }
  bool empty() const { return return_->next_ == return_; }
  Node* first() const { return empty() ? nullptr : return_->next_; }
  Node* last() const { return empty() ? nullptr : return_->previous_; }
  void append(Node* node) { node->insertBefore(return_); }
  void prepend(Node* node);

  SourceRange range;  // of its header

 private:
  friend class Graph;
  friend class Node;
  friend class EditLog;
  template <class T>
  friend class Pool;
  void attachParameter(size_t at, Value* value);
  void detachParameter(size_t i);
  Block(Graph* graph, Node* owner) : graph_(graph), owner_(owner) {}
  void renumber();

  Graph* graph_;
  Node* owner_;
  Node* return_ = nullptr;
  Value** parameters_ = nullptr;
  uint32_t parameterCount_ = 0, parameterCapacity_ = 0;
};

inline size_t Use::index() const { return static_cast<size_t>(this - user->inputs_); }

}  // namespace tscompile
