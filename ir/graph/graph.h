// A graph in SSA form. It owns its blocks, nodes and values; everybody else borrows them.
#pragma once

#include "ir/graph/kind_table.h"
#include "ir/graph/node.h"
#include "ir/support/arena.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace tscompile {

class EditLog;

class Graph {
 public:
  Graph();
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  Block* block() const { return block_; }
  std::span<Value* const> inputs() const { return block_->parameters(); }
  Value* input(size_t i) const { return block_->parameter(i); }
  Value* addInput(TypePtr type) { return block_->addParameter(type); }
  std::span<const Use> outputs() const { return block_->results(); }
  Value* output(size_t i) const { return block_->result(i); }
  void addOutput(Value* value) { block_->addResult(value); }
  Node* returnNode() const { return block_->returnNode(); }

  // A node outside of any block, with untyped (Tensor) outputs.
  Node* create(Symbol kind, std::span<Value* const> inputs, size_t outputs = 1);
  Node* create(Symbol kind, std::initializer_list<Value*> inputs, size_t outputs = 1) {
    return create(kind, std::span<Value* const>(inputs.begin(), inputs.size()), outputs);
  }

  // The value of this name (without "%"), also a number that the text gave; null if there is none.
  Value* find(std::string_view name) const;
  void forEachName(const std::function<void(std::string_view)>& visit) const;
  size_t nodeCount() const { return nodes_.count() - blocks_.count() - hiddenNodes_; }  // return nodes not counted
  size_t valueCount() const { return values_.count(); }
  const KindTable& kinds() const { return kinds_; }
  // The nodes of the kinds that are wanted, in text order, nested ones too.
  std::vector<Node*> nodesOf(const std::function<bool(Symbol)>& wants) const;

  // Numbers below idLimit(): indices into tables beside the graph. They stay as long as the object does, and may then
  // be given to another.
  static uint32_t idOf(const Node* node) { return Pool<Node>::idOf(node); }
  static uint32_t idOf(const Block* block) { return Pool<Block>::idOf(block); }
  static uint32_t idOf(const Value* value) { return Pool<Value>::idOf(value); }
  uint32_t idLimit(const Node*) const { return nodes_.idLimit(); }
  uint32_t idLimit(const Block*) const { return blocks_.idLimit(); }
  uint32_t idLimit(const Value*) const { return values_.idLimit(); }

  // Used by readers: a name as the text has it, digits included. Returns the older owner, which loses the name.
  Value* giveTextName(Value* value, std::string_view name);
  void removeName(Value* value);
  // Name and number of a value of another graph, for exact copies into an empty graph.
  void copyNaming(Value* to, const Value* from);
  // Gives an unnamed value the next free number.
  void renumber(Value* value);
  // The number that the next new value gets.
  uint64_t nextNumber() const { return nextNumber_; }
  void reserveNumbers(uint64_t next);

  // Texts that ranges of this graph point into.
  void keepAlive(SourcePtr source);
  const std::vector<SourcePtr>& sources() const { return sources_; }

  // Records every change while it is attached; null: nobody does.
  EditLog* editLog() const { return log_; }

  SourceRange range;  // of its header

 private:
  friend class Node;
  friend class Block;
  friend class Value;
  friend class EditLog;
  Value* makeValue(TypePtr type);
  void destroyValue(Value* value);
  Block* makeBlock(Node* owner);
  void freeNode(Node* node);
  void freeBlock(Block* block);
  // Frees a node with all that its blocks hold; inputs were removed before.
  void freeTree(Node* node);
  void recordNextNumber();
  void setKind(Node* node, Symbol kind);
  // The log keeps it though it is destroyed, or brings it back.
  void hide(Node* node, bool hidden);
  void addName(Value* value);
  void takeFromNames(Value* value);
  std::string uniqueName(std::string_view wanted);
  void growNames();

  Arena arena_;
  Pool<Node> nodes_;
  Pool<Block> blocks_;
  Pool<Value> values_;
  KindTable kinds_;  // of all nodes but return nodes and hidden ones
  Block* block_ = nullptr;
  uint64_t nextNumber_ = 0;
  EditLog* log_ = nullptr;
  size_t hiddenNodes_ = 0;     // that the log keeps
  std::vector<Value*> names_;  // open addressing; size is a power of two
  size_t nameCount_ = 0;
  std::unordered_map<std::string, uint64_t> suffixes_;  // next number to try for a base name
  std::vector<SourcePtr> sources_;
};

// Calls visit(node) for every node of the block and of the blocks inside, in text order, without recursion. The node
// may be changed, but not removed, by the visitor.
template <class Visit>
void forEachNode(Block* block, Visit&& visit) {
  std::vector<std::pair<Node*, size_t>> stack;  // node whose blocks are being walked, index of the next block
  Node* n = block->first();
  Block* current = block;
  while (true) {
    if (n && !n->isReturn()) {
      visit(n);
      if (n->hasBlocks()) {
        stack.emplace_back(n, 1);
        current = n->block(0);
        n = current->empty() ? nullptr : current->first();
        continue;
      }
      n = n->next();
      continue;
    }
    if (stack.empty()) return;
    auto& [owner, nextBlock] = stack.back();
    if (nextBlock < owner->blocks().size()) {
      current = owner->block(nextBlock++);
      n = current->empty() ? nullptr : current->first();
    } else {
      n = owner->next();
      stack.pop_back();
    }
  }
}
template <class Visit>
void forEachNode(const Graph& graph, Visit&& visit) {
  forEachNode(graph.block(), std::forward<Visit>(visit));
}

}  // namespace tscompile
